"""Exact ζ(h | x), by the recursion of Appendix C of the paper over the subsets of h."""

from __future__ import annotations

from math import comb

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from suwr.exceptions import ProblemTooLargeError, UnsupportedModelError
from suwr.nn.rollout import Policy
from suwr.nn.starts import Starts

__all__ = ["mask_probability"]

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
    """Weights of the queried keys; 0 for keys that are absent. ``keys`` are distinct."""
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    position = np.minimum(np.searchsorted(keys, queried), len(keys) - 1)
    return np.where(keys[position] == queried, weight[order][position], 0.0)
