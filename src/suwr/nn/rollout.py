"""Algorithm 1 at inference: rollouts of a trained policy, its stopping rule, and exact ζ(h | x).

Every step goes through `suwr.nn.step`. Networks are evaluated in blocks of a fixed number of rows:
matrix products of different shapes may round differently, and a row must get the same decisions in
every batch.

The selection policy does not depend on the stopping policy. One rollout that never stops therefore
visits every state that any stopping rule could end in.

ζ(h | x) is computed by the recursion of Appendix C of the paper over the subsets of h.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import comb
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from suwr._utils.draws import RowDraws
from suwr.exceptions import ProblemTooLargeError, UnsupportedModelError
from suwr.nn.inputs import MaskedInputs
from suwr.nn.losses import Loss
from suwr.nn.networks import Architecture, Network, PolicyOutputs, SeparateNetwork, SharedNetwork
from suwr.nn.step import (
    MAX_ALTERNATIVES,
    Decision,
    Starts,
    acquire_units,
    decide,
    reveal_units,
)

# Rows per network evaluation at inference. Smaller blocks for CPU convolutions: same throughput,
# less padding.
BLOCK, SMALL_BLOCK = 1024, 64
# Blocks of wide networks are smaller, so that their activations take at most 64 MB.
MAX_BLOCK_VALUES = 2**24
# Blocks of large networks are smaller on a CPU, since a single row is padded to a block: a step of
# it takes milliseconds, and the throughput of many rows hardly changes.
MAX_BLOCK_WORK = 10**8


@dataclass(frozen=True)
class Trace:
    """The course of inference for every row.

    Attributes
    ----------
    mask : ndarray of bool, shape (n, d)
        The final *h*.
    order : ndarray of int, shape (n, n_steps, units_per_step)
        Units in the order in which they were revealed; -1 where nothing was revealed.
    cost : ndarray of shape (n,)
        Cost of these units.
    stop_probability : ndarray, shape (n, n_steps + 1), or None
        ζ_stop in every visited state; NaN after the row stopped.
    prediction : ndarray, shape (n, n_steps + 1, n_outputs), or None
        *f* in every visited state; NaN after the row stopped.
    margin : ndarray, shape (n, n_steps + 1), or None
        `Decision.margin` in every visited state; NaN after the row stopped.
    gain : ndarray, shape (n, n_steps + 1), or None
        `Decision.gain` in every visited state, in the units of training; NaN after the row stopped
        and after the last possible step.
    alternatives, odds : ndarray, shape (n, n_steps, 3), or None
        `Decision.alternatives` of every step; -1 and NaN after the row stopped.
    """

    mask: NDArray[np.bool_]
    order: NDArray[np.intp]
    cost: NDArray[np.float64]
    stop_probability: NDArray[np.float32] | None = None
    prediction: NDArray[np.float32] | None = None
    margin: NDArray[np.float32] | None = None
    gain: NDArray[np.float32] | None = None
    alternatives: NDArray[np.intp] | None = None
    odds: NDArray[np.float32] | None = None

    @property
    def n_steps(self) -> NDArray[np.intp]:
        """Number of steps of each row."""
        return (self.order[:, :, 0] >= 0).sum(axis=1)


def confidence_parts(probability: Tensor) -> tuple[Tensor, Tensor]:
    """The probability of the most probable class, and that of all others together.

    The others are summed, since one minus the first cancels for confident predictions.
    """
    first, place = probability.max(dim=-1)
    return first, probability.scatter(-1, place.unsqueeze(-1), 0.0).sum(dim=-1)


def block_size(architecture: Architecture, device: torch.device) -> int:
    """Return the number of rows per network evaluation, a constant of the network."""
    largest = min(BLOCK, MAX_BLOCK_VALUES // architecture.row_values)
    if device.type == "cpu":
        convolutional = architecture.image_shape is not None
        fast = MAX_BLOCK_WORK // row_work(architecture)
        largest = min(largest, fast, SMALL_BLOCK if convolutional else BLOCK)
    return max(1, largest)


def row_work(architecture: Architecture) -> int:
    """Estimate the time of a row in one step, in multiplications."""
    return architecture.n_weights + 8 * architecture.row_values


def in_blocks(evaluate: Callable[..., Tensor], size: int, *tensors: Tensor) -> Tensor:
    """Evaluate rows of matrices in blocks of one size; the last block is padded with zeros.

    The precision is that of the networks, also where a caller has enabled autocast.
    """
    results = []
    with torch.autocast(tensors[0].device.type, enabled=False):
        for start in range(0, len(tensors[0]), size):
            block = [tensor[start : start + size] for tensor in tensors]
            n_rows = len(block[0])
            if n_rows < size:
                block = [F.pad(part, (0, 0, 0, size - n_rows)) for part in block]
            results.append(evaluate(*block)[:n_rows])
    return results[0] if len(results) == 1 else torch.cat(results)


@dataclass(eq=False)
class Policy:
    """A trained SUWR model: selects, stops and predicts for encoded rows.

    Attributes
    ----------
    network : Network
    inputs : MaskedInputs
    loss : Loss
        Maps network outputs to predictions.
    max_steps : int
        *T*.
    units_per_step : int, default=1
    block : int
        Rows per network evaluation. Batches of any size round alike only with the default, 0, which
        stands for `block_size`.
    condition : float or None
        Position of λ in its range, for a network trained for a range; see
        `suwr.training.config.condition_of`.
    stop_odds : float or None
        Stop by confidence instead of the expected gain: where the odds of all other classes against
        the predicted one are at most this. Classification only.
    """

    network: Network
    inputs: MaskedInputs
    loss: Loss
    max_steps: int
    units_per_step: int = 1
    block: int = 0
    condition: float | None = None
    stop_odds: float | None = None

    def __post_init__(self) -> None:
        self.block = self.block or block_size(self.network.architecture, self.inputs.device)

    @property
    def device(self) -> torch.device:
        """The device of the networks."""
        return self.inputs.device

    def at(self, condition: float, block: int | None = None) -> Policy:
        """The same policy at another λ of its range, optionally with another block size."""
        return replace(self, condition=condition, block=block or self.block)

    @property
    def stops_by_gain(self) -> bool:
        """Whether stopping follows from an estimate of the gain of continuing.

        Not if the policy stops by confidence, nor for the shared network, whose stop head is
        trained by REINFORCE.
        """
        return self.stop_odds is None and not self.network.architecture.shared

    def complete(self, mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which masks ``(n, d)`` have no unit left to reveal."""
        available = self.inputs.available(torch.as_tensor(mask, device=self.device))
        return ~available.any(dim=1).cpu().numpy()

    def _heads(
        self, seen: Tensor, condition: Tensor | None, prediction: Tensor | None
    ) -> tuple[Tensor, PolicyOutputs]:
        """`Network.decide` in blocks."""

        def joined_heads(seen: Tensor, *condition: Tensor) -> Tensor:
            stop_logit, found = self.network.decide(seen, condition[0][:, 0] if condition else None)
            return torch.cat(
                [stop_logit.unsqueeze(1), found.gain.unsqueeze(1), found.logits], dim=1
            )

        conditions = [] if condition is None else [condition.unsqueeze(1)]
        joined = in_blocks(joined_heads, self.block, seen, *conditions)
        return joined[:, 0], PolicyOutputs(joined[:, 1], joined[:, 2:])

    def decide(
        self,
        values: Tensor,
        mask: Tensor,
        condition: Tensor | None = None,
        starts: Starts | None = None,
        spent: Tensor | None = None,
    ) -> Decision:
        """Decide for encoded rows under their masks; see the function `decide`.

        ``condition`` ``(n,)`` overrides that of the policy. ``starts`` restricts the units, given
        the cost ``spent`` ``(n,)`` so far.
        """
        if starts is not None and condition is None:
            condition = starts.condition(self.inputs)
        if condition is None and self.condition is not None:
            condition = torch.full((len(values),), self.condition, device=self.device)
        seen = self.inputs.reveal(values, mask)
        allowed = None
        if starts is not None and spent is not None:
            allowed = starts.allowed(self.inputs, mask, spent)
        decision = decide(self._heads, self.inputs, seen, mask, condition, allowed=allowed)
        stop = decision.stop_probability
        if starts is not None and starts.spend_all:
            stop = 0.0 * stop  # NaN stays NaN
        elif self.stop_odds is not None:
            first, others = confidence_parts(self.predict(values, mask))
            stop = self.stop_odds * first / (self.stop_odds * first + others)
        stop = torch.where(decision.available.any(dim=-1), stop, 1.0)
        return replace(decision, stop_probability=stop)

    @torch.inference_mode()
    def predict(self, values: Tensor, mask: Tensor) -> Tensor:
        """*f(x ⊙ h)*: the mean prediction of the ensemble, ``(n, n_outputs)``."""

        def mean(values: Tensor, mask: Tensor) -> Tensor:
            outputs = self.network.predict(self.inputs.reveal(values, mask))
            return self.loss.predict(outputs).mean(dim=0)

        if len(values) == 0:
            return mean(values, mask)
        return in_blocks(mean, self.block, values, mask)

    @torch.inference_mode()
    def rollout(
        self,
        values: Tensor,
        *,
        draws: RowDraws | None = None,
        record: bool = False,
        condition: Tensor | None = None,
        starts: Starts | None = None,
    ) -> Trace:
        """Run Algorithm 1 on every row.

        Parameters
        ----------
        values : Tensor of shape (n, n_values)
            Encoded rows. A value is read only after its column was revealed.
        draws : RowDraws, optional
            Sample both decisions by the random numbers of each row. By default, take the unit of
            largest logit and stop where the stop probability is at least one half.
        record : bool, default=False
            Record stop probability, prediction, margin and gain in every visited state.
        condition : Tensor of shape (n,), optional
            Position of λ in its range for every row; overrides that of the policy.
        starts : Starts, optional
            Known columns, available units and budgets; by default, every row starts from nothing
            and may acquire every unit.
        """
        n, width = len(values), self.units_per_step
        mask = (starts or Starts()).first_masks(n, self.inputs)
        spent = torch.zeros(n, dtype=torch.float64, device=self.device)
        active = torch.arange(n, device=self.device)
        chosen, stops, predictions, margins, gains = [], [], [], [], []
        others, odds = [], []
        for step in range(self.max_steps + 1):
            last = step == self.max_steps
            if last and not record:
                break
            here, seen = (values, mask) if step == 0 else (values[active], mask[active])
            decision = None
            if not last:
                decision = self._decide_active(here, seen, active, condition, step, starts, spent)
            if record:
                end = torch.ones(len(active), device=self.device)
                stops.append(_spread(decision.stop_probability if decision else end, active, n))
                margin = decision.margin(width) if decision else end * torch.inf
                margins.append(_spread(margin, active, n))
                gains.append(_spread(decision.gain if decision else end * torch.nan, active, n))
                # The first state without known columns is the same for every row: evaluate it once.
                first = step == 0 and n > 0 and starts is None
                found = self.predict(here[:1], seen[:1]) if first else self.predict(here, seen)
                predictions.append(_spread(found, active, n))
            if decision is None:
                break
            stop = decision.stop_probability
            if draws is None:
                going = torch.nonzero(stop < 0.5).squeeze(1)
            else:
                drawn = torch.from_numpy(draws[active.cpu().numpy()].uniform(2 * step, 1)[:, 0])
                going = torch.nonzero(drawn.to(self.device) >= stop).squeeze(1)
            if len(going) == 0:
                break
            active, noise = active[going], None
            if draws is not None:
                gumbel = draws[active.cpu().numpy()].gumbel(2 * step + 1, self.inputs.n_units)
                noise = torch.from_numpy(gumbel).to(self.device)
            own = None if starts is None else starts[active]
            units, revealed = acquire_units(
                self.inputs, decision[going], seen[going], width, noise, own, spent[active]
            )
            mask[active] = revealed.mask
            spent[active] += revealed.cost.double()
            chosen.append(_spread(units, active, n, fill=-1))
            if record:
                nearly = decision[going].alternatives(units)
                others.append(_spread(nearly.units, active, n, fill=-1))
                odds.append(_spread(nearly.odds, active, n))
        trace = Trace(mask.cpu().numpy(), _joined(chosen, n, width), spent.cpu().numpy())
        if not record:
            return trace
        return replace(
            trace,
            stop_probability=_of_steps(stops),
            prediction=_of_steps(predictions),
            margin=_of_steps(margins),
            gain=_of_steps(gains),
            alternatives=_joined(others, n, MAX_ALTERNATIVES),
            odds=_joined(odds, n, MAX_ALTERNATIVES).astype(np.float32),
        )

    def _decide_active(
        self,
        values: Tensor,
        mask: Tensor,
        active: Tensor,
        condition: Tensor | None,
        step: int,
        starts: Starts | None,
        spent: Tensor,
    ) -> Decision:
        """Decide for the rows ``active`` that have not stopped."""
        if step == 0 and condition is None and starts is None:
            # The first state is the same for every row: evaluate it once.
            empty = mask.new_zeros(1, mask.shape[1])
            return self.decide(values.new_zeros(1, values.shape[1]), empty).expand(len(values))
        condition = None if condition is None else condition[active]
        starts = None if starts is None else starts[active]
        return self.decide(values, mask, condition, starts, spent[active])


def _of_steps(parts: list[Tensor]) -> NDArray[Any]:
    """The results of all steps, ``(n, n_steps, …)``."""
    return torch.stack(parts, dim=1).cpu().numpy()


def _joined(parts: list[Tensor], n: int, width: int) -> NDArray[Any]:
    """The results of all steps, ``(n, n_steps, width)``, of which there may be none."""
    return _of_steps(parts) if parts else np.zeros((n, 0, width), dtype=np.intp)


def _spread(part: Tensor, rows: Tensor, n: int, fill: float = float("nan")) -> Tensor:
    """Scatter the results of some rows into a tensor of all ``n`` rows."""
    whole = torch.full((n, *part.shape[1:]), fill, dtype=part.dtype, device=part.device)
    whole[rows] = part
    return whole


# Smallest positive number of single precision.
SMALLEST = float(np.finfo(np.float32).tiny)
# Added to the gain, it exceeds every gain: the policy never stops by itself.
NEVER = 1e6


@dataclass(frozen=True)
class Paths:
    """All states of rows that are unmasked until the maximum number of steps.

    Attributes
    ----------
    gain : ndarray of shape (n, n_steps + 1)
        Expected gain of continuing; -inf in states without a next step.
    log_odds : ndarray of shape (n, n_steps + 1)
        Logarithm of the odds of all other classes against the predicted one; -inf in states without
        a next step.
    prediction : ndarray of shape (n, n_steps + 1, n_outputs)
        Constant from the last state of a row on.
    cost : ndarray of shape (n, n_steps + 1)
        Cost of all units revealed so far.
    complete : ndarray of bool, shape (n,)
        Whether the last state has no unit left to reveal.
    """

    gain: NDArray[np.float32]
    log_odds: NDArray[np.float32]
    prediction: NDArray[np.float32]
    cost: NDArray[np.float64]
    complete: NDArray[np.bool_]


@torch.inference_mode()
def roll_out_paths(policy: Policy, values: Tensor) -> Paths:
    """Run Algorithm 1 without its stopping policy.

    Parameters
    ----------
    policy : Policy
    values : Tensor of shape (n, n_values)
        Encoded rows; a value is read only after its column was revealed.
    """
    inputs, n = policy.inputs, len(values)
    mask = known = (Starts.usual(inputs, n) or Starts()).first_masks(n, inputs)
    cost = torch.zeros(n, dtype=torch.float64, device=policy.device)
    gains, odds, predictions, costs = [], [], [], []
    for step in range(policy.max_steps + 1):
        decision = policy.decide(values, mask)
        going = decision.available.any(dim=1)
        last = step == policy.max_steps
        predictions.append(policy.predict(values, mask))
        first, others = confidence_parts(predictions[-1])
        doubt = others.clamp_min(SMALLEST).log() - first.log()
        gains.append(torch.where(going & (not last), decision.gain, -torch.inf))
        odds.append(torch.where(going & (not last), doubt, -torch.inf))
        costs.append(cost)
        if last:
            break
        units = decision.best(policy.units_per_step)
        revealed = reveal_units(inputs, mask, units, going, known=known)
        mask, cost = revealed.mask, cost + revealed.cost.double()
    complete = ~inputs.available(mask).any(dim=1)
    spent = torch.stack(costs, dim=1).cpu().numpy()
    gain, log_odds, prediction = (_of_steps(part) for part in (gains, odds, predictions))
    return Paths(gain, log_odds, prediction, spent, complete.cpu().numpy())


def shift_stopping(policy: Policy, threshold: float) -> Policy:
    """Return a policy that stops where the gain of the given one is at most ``threshold``.

    The threshold is subtracted from the bias of the gain, so that the result is an ordinary policy
    which stops where its stop probability is at least one half.
    """
    network = copy.deepcopy(policy.network)
    if not isinstance(network, SeparateNetwork | SharedNetwork):
        raise TypeError(f"The stopping policy of {type(network).__name__} cannot be shifted.")
    with torch.no_grad():
        network.gain_layers.biases[-1][..., 0] -= threshold
    return replace(policy, network=network, stop_odds=None)


def confident_stopping(policy: Policy, odds: float) -> Policy:
    """Return a policy that stops where all other classes together have at most these odds."""
    return replace(policy, stop_odds=odds)


def never_stopping(policy: Policy) -> Policy:
    """Return a policy that stops only after the maximum number of steps."""
    return shift_stopping(policy, -NEVER)


# Largest number of states held at once: all subsets of 20 units.
MAX_STATES = 2**20

BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]


def mask_probability(policy: Policy, values: Tensor, masks: BoolArray) -> FloatArray:
    """Probability that sampled inference ends with each mask.

    Parameters
    ----------
    policy : Policy
    values : Tensor of shape (n, n_values)
        Encoded rows.
    masks : ndarray of bool, shape (n, m, d)
        ``m`` masks for each row.

    Returns
    -------
    ndarray of shape (n, m)
    """
    if policy.inputs.budgets is not None:
        raise UnsupportedModelError(
            "The probability of masks is not known for models that were fitted with 'max_cost'."
        )
    membership = policy.inputs.membership.cpu().numpy()
    bound = masks.any(axis=1)
    outside = (~bound).astype(np.float32) @ membership.T.astype(np.float32) > 0
    inside: BoolArray = np.asarray(~outside)
    if policy.inputs.selectable is not None:
        inside &= policy.inputs.selectable.cpu().numpy()
    n_inside = int(inside.sum(axis=1).max(initial=0))
    deepest = min(n_inside, policy.max_steps * policy.units_per_step)
    n_states = sum(comb(n_inside, k) for k in range(deepest + 1))
    if n_states > MAX_STATES:
        raise ProblemTooLargeError(
            f"'masks' must have at most {MAX_STATES:,} subsets to sum over. Got a mask that "
            f"contains {n_inside} units and has {n_states:,} subsets."
        )
    chunk = max(1, MAX_STATES // n_states)
    parts = [
        _chunk_probability(
            policy, values[i : i + chunk], masks[i : i + chunk], inside[i : i + chunk]
        )
        for i in range(0, len(values), chunk)
    ]
    return np.concatenate(parts) if parts else np.zeros(masks.shape[:2])


def _chunk_probability(
    policy: Policy, values: Tensor, masks: BoolArray, inside: BoolArray
) -> FloatArray:
    n, m, d = masks.shape
    membership = policy.inputs.membership.cpu().numpy()
    queried = _keys(np.repeat(np.arange(n), m), masks.reshape(n * m, d))
    result = np.zeros(n * m)
    first = (Starts.usual(policy.inputs, n) or Starts()).first_masks(n, policy.inputs)
    row, mask, reach = np.arange(n), first.cpu().numpy(), np.ones(n)
    for step in range(policy.max_steps + 1):
        if step == policy.max_steps:
            stop, select = np.ones(len(row)), np.zeros((len(row), len(membership)))
        else:
            stop, select = _decide(policy, values, row, mask)
        result += _look_up(queried, _keys(row, mask), reach * stop)
        weight = reach * (1.0 - stop)
        source, new_mask, new_weight = _expand(
            weight, mask, select, inside[row], membership, policy.units_per_step
        )
        if len(source) == 0:
            break
        row, mask, reach = _merge(row[source], new_mask, new_weight)
    return result.reshape(n, m)


@torch.inference_mode()
def _decide(
    policy: Policy, values: Tensor, row: NDArray[np.intp], mask: BoolArray
) -> tuple[FloatArray, FloatArray]:
    """ζ_stop and ζ_select in float64, to reduce the rounding error of the recursion."""
    decision = policy.decide(
        values[torch.as_tensor(row, device=values.device)],
        torch.as_tensor(mask, device=policy.device),
    )
    # Every logit is -inf where no unit is available; the policy stops there with probability 1.
    select = torch.nan_to_num(decision.logits.double().softmax(dim=1), nan=0.0)
    return decision.stop_probability.double().cpu().numpy(), select.cpu().numpy()


def _expand(
    weight: FloatArray,
    mask: BoolArray,
    select: FloatArray,
    inside: BoolArray,
    membership: BoolArray,
    width: int,
) -> tuple[NDArray[np.intp], BoolArray, FloatArray]:
    """All successors of each state, with ``width`` units drawn without replacement."""
    source = np.flatnonzero(weight > 0)
    weight = weight[source]
    chosen = np.zeros((len(source), select.shape[1]), dtype=bool)
    for _ in range(width):
        left = np.where(chosen, 0.0, select[source])
        total = left.sum(axis=1)
        # Fewer units were available than are revealed per step.
        done = (total <= 0) & chosen.any(axis=1)
        at, unit = np.nonzero((left > 0) & inside[source])
        grown = chosen[at].copy()
        grown[np.arange(len(at)), unit] = True
        source, chosen, weight = _merge(
            np.concatenate([source[at], source[done]]),
            np.concatenate([grown, chosen[done]]),
            np.concatenate([weight[at] * left[at, unit] / total[at], weight[done]]),
        )
    new_mask = mask[source] | (chosen.astype(np.uint8) @ membership.astype(np.uint8) > 0)
    return source, new_mask, weight


def _keys(row: NDArray[np.intp], flags: BoolArray) -> NDArray[np.bytes_]:
    """One sortable key for each pair of row and flags."""
    head = row.astype(">u8").view(np.uint8).reshape(len(row), 8)
    packed = np.ascontiguousarray(np.hstack([head, np.packbits(flags, axis=1)]))
    return packed.view(f"S{packed.shape[1]}").reshape(len(row))


def _merge(
    row: NDArray[np.intp], flags: BoolArray, weight: FloatArray
) -> tuple[NDArray[np.intp], BoolArray, FloatArray]:
    """Sum the weights of equal (row, flags), in an order that does not depend on their position."""
    if len(row) == 0:
        return row, flags, weight
    _, first, inverse = np.unique(_keys(row, flags), return_index=True, return_inverse=True)
    summed = np.bincount(inverse.reshape(-1), weights=weight).astype(np.float64)
    return row[first], flags[first], summed


def _look_up(
    queried: NDArray[np.bytes_], keys: NDArray[np.bytes_], weight: FloatArray
) -> FloatArray:
    """Weights of the queried keys; 0 for keys that are absent. ``keys`` are distinct and sorted."""
    position = np.minimum(np.searchsorted(keys, queried), len(keys) - 1)
    return np.where(keys[position] == queried, weight[position], 0.0)
