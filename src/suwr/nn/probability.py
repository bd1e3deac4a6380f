"""ζ(h | x), exactly: the recursion of the paper's Appendix C over the masks below h."""

from __future__ import annotations

from math import comb

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from suwr.exceptions import ProblemTooLargeError
from suwr.nn.rollout import Policy

__all__ = ["mask_probability"]

# States that are held at once; 2**20 of them are all subsets of 20 units.
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
        The masks asked about, ``m`` for each row.

    Returns
    -------
    ndarray of shape (n, m)
    """
    membership = policy.inputs.membership.cpu().numpy()
    bound = masks.any(axis=1)
    outside = (~bound).astype(np.float32) @ membership.T.astype(np.float32) > 0
    inside: BoolArray = np.asarray(~outside)
    n_inside = int(inside.sum(axis=1).max(initial=0))
    deepest = min(n_inside, policy.max_steps * policy.units_per_step)
    n_states = sum(comb(n_inside, k) for k in range(deepest + 1))
    if n_states > MAX_STATES:
        raise ProblemTooLargeError(
            f"'masks' must leave at most {MAX_STATES:,} masks to sum over. Got {n_inside} units "
            f"inside one of them, that is {n_states:,} masks."
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
    asked = _keys(np.repeat(np.arange(n), m), masks.reshape(n * m, d))
    result = np.zeros(n * m)
    row, mask, reach = np.arange(n), np.zeros((n, d), dtype=bool), np.ones(n)
    for step in range(policy.max_steps + 1):
        if step == policy.max_steps:
            stop, select = np.ones(len(row)), np.zeros((len(row), len(membership)))
        else:
            stop, select = _decide(policy, values, row, mask)
        result += _look_up(asked, _keys(row, mask), reach * stop)
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
    """ζ_stop and ζ_select in float64, so that they sum to one closely."""
    decision = policy.decide(
        values[torch.as_tensor(row, device=values.device)],
        torch.as_tensor(mask, device=policy.device),
    )
    # Where nothing is left every logit is -inf, and the policy stops for certain.
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
    """All successors: ``width`` units drawn one after the other without replacement."""
    source = np.flatnonzero(weight > 0)
    weight = weight[source]
    chosen = np.zeros((len(source), select.shape[1]), dtype=bool)
    for _ in range(width):
        left = np.where(chosen, 0.0, select[source])
        total = left.sum(axis=1)
        # Fewer units than asked for: what is there was taken.
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
    """One sortable key per (row, flags)."""
    head = row.astype(">u8").view(np.uint8).reshape(len(row), 8)
    packed = np.ascontiguousarray(np.hstack([head, np.packbits(flags, axis=1)]))
    return packed.view(f"S{packed.shape[1]}").reshape(len(row))


def _merge(
    row: NDArray[np.intp], flags: BoolArray, weight: FloatArray
) -> tuple[NDArray[np.intp], BoolArray, FloatArray]:
    """Add up the weights of equal (row, flags), in an order that depends on them alone."""
    if len(row) == 0:
        return row, flags, weight
    _, first, inverse = np.unique(_keys(row, flags), return_index=True, return_inverse=True)
    summed = np.bincount(inverse.reshape(-1), weights=weight).astype(np.float64)
    return row[first], flags[first], summed


def _look_up(asked: NDArray[np.bytes_], keys: NDArray[np.bytes_], weight: FloatArray) -> FloatArray:
    """Weights at the asked keys; 0 where a key is absent. ``keys`` are distinct."""
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    place = np.minimum(np.searchsorted(keys, asked), len(keys) - 1)
    return np.where(keys[place] == asked, weight[order][place], 0.0)
