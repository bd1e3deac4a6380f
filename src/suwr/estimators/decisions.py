"""Decisions of a fitted policy in given states, as arrays."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from suwr.data.frame import Table
from suwr.nn.rollout import Policy

__all__ = ["Decisions", "decide_masked", "expected_gain"]


class Decisions(NamedTuple):
    """The greedy policy and the predictor in n states.

    Attributes
    ----------
    stop_probability : ndarray of shape (n,)
        ζ_stop; the policy stops if it is at least one half.
    units : ndarray of int, shape (n, units_per_step)
        The units that it would reveal next, best first; -1 where fewer are left.
    prediction : ndarray of shape (n, n_outputs)
        Class probabilities, or the value in the units of ``y``.
    """

    stop_probability: NDArray[np.float64]
    units: NDArray[np.intp]
    prediction: NDArray[np.float64]


def decide_masked(model: Any, policy: Policy, table: Table, masks: NDArray[np.bool_]) -> Decisions:
    """Evaluate policy and predictor on masked rows.

    Parameters
    ----------
    model : SequentialModel
        Fitted.
    policy : Policy
        At one λ.
    table : Table
        Parsed by the encoder of the model. Hidden cells are not read.
    masks : ndarray of bool, shape (n, d)
        The revealed cells.
    """
    table.check_revealed(masks)
    values = model._encode(table)
    mask = torch.as_tensor(masks, device=values.device)
    with torch.inference_mode():
        decision = policy.decide(values, mask)
        prediction = policy.predict(values, mask).cpu().numpy()
    return Decisions(
        decision.stop_probability.cpu().numpy().astype(np.float64),
        decision.best(policy.units_per_step).cpu().numpy(),
        model._in_user_units(prediction),
    )


def expected_gain(model: Any, policy: Policy, gain: float) -> float | None:
    """Return the expected reduction of the loss by continuing, less the costs.

    Parameters
    ----------
    model : SUWRClassifier or SUWRRegressor
    policy : Policy
        Its policy, at some λ.
    gain : float
        `Decision.gain`, which training has scaled.

    Returns
    -------
    float or None
        In units of the loss of the best constant prediction; None if the policy stops otherwise.
    """
    if not policy.stops_by_gain:
        return None
    scale = model._training_config().reward_scale
    if model.weight_range_ is not None and policy.condition is not None:
        # See `SparsityWeights.importance`.
        scale *= (model.weight_range_.high / model.weight_range_.low) ** (-policy.condition / 4)
    return gain / scale
