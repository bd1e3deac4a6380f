"""The family of policies that a certificate is chosen from, and its paths on calibration rows.

The policies are ordered from 'reveal more' to 'reveal less', by the threshold of the stopping rule
and, for a model of a range, by λ. The order does not depend on the calibration rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from suwr.data.frame import Table
from suwr.nn.rollout import (
    Policy,
    confident_stopping,
    never_stopping,
    roll_out_paths,
    shift_stopping,
)

if TYPE_CHECKING:
    from suwr.estimators.base import BaseSUWR

__all__ = ["Calibration", "Candidate", "calibrate", "ordered_family", "thresholds"]

FloatArray = NDArray[np.float64]
# Values of λ between the ends of a range.
N_WEIGHTS = 33


def thresholds(rule: str) -> FloatArray:
    """Return the stop thresholds of the family in increasing order; -inf never stops.

    Parameters
    ----------
    rule : {'confidence', 'gain'}
        Thresholds of 'confidence' are logarithms of odds, from 1e-13 to 1e13. Thresholds of 'gain'
        are in units of the stop temperature. They are close to one another around 0, which is the
        original rule, and have a constant ratio far from it.
    """
    if rule == "confidence":
        return np.concatenate([[-np.inf], np.linspace(-30.0, 30.0, 601)])
    half = 0.2 * np.sinh(np.linspace(0.0, 12.0, 241))
    return np.concatenate([[-np.inf], -half[:0:-1], half])


class Candidate(NamedTuple):
    """One policy of the family: a path and the threshold at which it stops."""

    path: int
    threshold: float


@dataclass(frozen=True)
class Calibration:
    """Paths of the calibration rows at one λ.

    Attributes
    ----------
    sparsity_weight : float or None
    policy : Policy
    rule : {'confidence', 'gain'}
    signal, loss, cost : ndarray of shape (n, n_steps + 1)
        In every state of the path; the signal is compared with the threshold.
    complete : ndarray of bool, shape (n,)
    """

    sparsity_weight: float | None
    policy: Policy
    rule: str
    signal: NDArray[np.float32]
    loss: FloatArray
    cost: FloatArray
    complete: NDArray[np.bool_]

    def stop_at(self, threshold: float) -> NDArray[np.intp]:
        """Return the number of steps of each row."""
        return np.argmax(self.signal <= np.float32(threshold), axis=1)

    def stopping_at(self, threshold: float) -> Policy:
        """Return the policy that stops at a threshold."""
        if threshold == -np.inf:
            return never_stopping(self.policy)
        if self.rule == "confidence":
            return confident_stopping(self.policy, float(np.exp(threshold)))
        return shift_stopping(self.policy, threshold)

    def answered(self, steps: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Return which rows stop before the maximum number of steps or reveal everything."""
        return (steps < self.signal.shape[1] - 1) | self.complete


def calibrate(
    model: BaseSUWR,
    table: Table,
    loss_of: Callable[[FloatArray, FloatArray], FloatArray],
    rule: str,
) -> tuple[list[Calibration], FloatArray, torch.Tensor]:
    """Return the paths at every λ, the predictions from everything, and the encoded rows."""
    shown = np.zeros(model.n_features_in_, dtype=bool)
    for unit in np.flatnonzero(model.selectable_units_):
        shown[model.units_.columns_of(int(unit))] = True
    table.check_revealed(np.broadcast_to(shown, (table.n_rows, len(shown))))
    values = model._encode(table)
    mask = torch.as_tensor(shown, device=values.device).expand(len(values), -1)
    full = model._in_user_units(model.policy_.predict(values, mask).cpu().numpy())
    weights: list[float | None] = [None]
    if model.weight_range_ is not None:
        found = model.weight_range_
        weights = (
            np.geomspace(found.low, found.high, N_WEIGHTS).clip(found.low, found.high).tolist()
        )
    results = []
    for weight in weights:
        policy = model._policy_at(weight)
        paths = roll_out_paths(policy, values)
        n, states, _ = paths.prediction.shape
        stopped = model._in_user_units(paths.prediction.reshape(n * states, -1))
        stopped = stopped.reshape(n, states, -1)
        loss = np.stack([loss_of(stopped[:, t], full) for t in range(states)], axis=1)
        signal = paths.gain if rule == "gain" else paths.log_odds
        results.append(Calibration(weight, policy, rule, signal, loss, paths.cost, paths.complete))
    return results, full, values


def ordered_family(paths: list[Calibration]) -> list[Candidate]:
    """Order the policies from 'reveal more' to 'reveal less'."""
    if paths[0].rule == "confidence":
        # λ changes only the stopping policy, which is replaced, and the order of the units.
        middle = len(paths) // 2
        return [Candidate(middle, float(t)) for t in thresholds("confidence")]

    def scaled(path: int) -> FloatArray:
        policy = paths[path].policy
        condition = None if policy.condition is None else torch.tensor(policy.condition)
        return thresholds("gain") * float(policy.network.temperature(condition))

    last = len(paths) - 1
    return [
        *(Candidate(0, float(t)) for t in scaled(0) if t < 0),
        *(Candidate(path, 0.0) for path in range(len(paths))),
        *(Candidate(last, float(t)) for t in scaled(last) if t > 0),
    ]
