"""Masked states x ⊙ h: the interface that both memory layouts implement.

This module also holds the array types, the mask encoding and the memory limit that all exact
methods share.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from suwr.exceptions import ProblemTooLargeError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

DEFAULT_MEMORY = 4 * 1024**3


class MaskedStates(ABC):
    """Statistics of every masked state x ⊙ h.

    All quantities are weighted by the probability of the state, so that the quantity of a state can
    be compared with the sum over its children. States of probability 0 have quantities of 0.

    Parameters
    ----------
    codes : ndarray of shape (n_rows, n_features)
        Support rows, with every value replaced by its code.
    radices : sequence of int
        Number of values of each feature.

    Attributes
    ----------
    mass : ndarray of shape (n_states,)
        p(s), the probability that a row agrees with the revealed values.
    risk : ndarray of shape (n_states,)
        p(s) times the expected loss of f* when the policy stops in s.
    size : ndarray of shape (n_states,)
        Number of revealed features.
    cost_mass : ndarray of shape (n_states,)
        p(s) ‖h‖, where ‖h‖ is the cost of the revealed features.
    """

    mass: Floats
    risk: Floats
    size: NDArray[np.uint8]
    cost_mass: Floats
    _prediction: Floats  # means of shape (n_states,), or p(s, y) of shape (n_labels, n_states)

    def __init__(self, codes: Ints, radices: Sequence[int]) -> None:
        self.codes = codes
        self.radices = tuple(radices)
        self.n_features = len(self.radices)

    @property
    def n_states(self) -> int:
        """Length of the arrays; the product layout includes states of probability 0."""
        return len(self.mass)

    @property
    def n_positive(self) -> int:
        """Number of states with positive probability."""
        return int(np.count_nonzero(self.mass))

    @property
    def root(self) -> int:
        """Index of the state in which nothing is revealed."""
        return int(self.index(np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64))[0])

    def size_mass(self) -> Floats:
        """p(s) times the number of revealed features."""
        return self.mass * self.size

    def prediction(self, ids: Ints) -> Floats:
        """f*(s): the mean label, or a distribution over the labels."""
        if self._prediction.ndim == 1:
            return self._prediction[ids]
        masses = self._prediction[:, ids].T
        return masses / masses.sum(axis=1, keepdims=True)

    def stop_cost(self, weights: Floats, max_size: int | None = None) -> Floats:
        """c(s) = risk + λ cost for each λ, of shape (n_states, n_weights).

        States with more than ``max_size`` features have an infinite cost, which excludes them from
        every optimal policy.
        """
        cost = self.risk[:, None] + self.cost_mass[:, None] * weights
        if max_size is not None and max_size < self.n_features:
            cost[self.size > max_size] = np.inf
        return cost

    @abstractmethod
    def index(self, rows: Ints, masks: Ints) -> Ints:
        """Indices of the states of support rows under masks, which are given as bits."""

    @abstractmethod
    def masks_of(self, ids: Ints) -> Ints:
        """Masks of states, as bits."""

    @abstractmethod
    def mask_totals(self, amounts: Floats) -> Floats:
        """Sum of a quantity over the states of each mask, of shape (2 ** n_features,)."""

    @abstractmethod
    def sweep(self, value: Floats, *others: Floats) -> None:
        """Turn stopping costs into optimal values, in place: V(s) = min(c(s), min_i Σ_a V(s, a)).

        ``others`` hold further quantities of stopping; they are propagated by the decisions that
        minimise ``value``. All arrays have shape (n_states, n_weights).
        """

    @abstractmethod
    def improve(self, units: tuple[int, ...], source: list[Floats], target: list[Floats]) -> None:
        """Reveal ``units`` at once wherever that lowers ``target[0]``.

        ``source`` holds the values of the next step. Further arrays in ``source`` and ``target``
        are propagated by the decisions of the first ones.
        """


def group_sum(groups: NDArray[np.integer], amounts: Floats, n_groups: int | None = None) -> Floats:
    """Sum of the amounts of each group 0, 1, …"""
    size = 0 if n_groups is None else n_groups
    return np.bincount(groups, weights=amounts, minlength=size).astype(np.float64, copy=False)


def mask_bits(masks: NDArray[np.bool_]) -> Ints:
    """Encode boolean masks (…, d) as integers: bit j stands for feature j."""
    weights = np.left_shift(np.int64(1), np.arange(masks.shape[-1], dtype=np.int64))
    return masks.astype(np.int64) @ weights


def bits_mask(bits: NDArray[np.int64], n_features: int) -> NDArray[np.bool_]:
    """Decode integers into boolean masks: the inverse of :func:`mask_bits`."""
    return (np.asarray(bits)[..., None] >> np.arange(n_features)) & 1 == 1


def memory_limit(max_memory: int | None) -> int:
    """Memory limit in bytes: ``max_memory``, or 4 GiB capped at half of the physical memory."""
    if max_memory is not None:
        return max_memory
    try:
        physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # no sysconf on Windows
        return DEFAULT_MEMORY
    return min(DEFAULT_MEMORY, physical // 2) if physical > 0 else DEFAULT_MEMORY


def check_memory(needed: int, limit: int, n_states: int, what: str) -> None:
    """Raise before allocation if a computation would exceed the memory limit.

    Parameters
    ----------
    needed, limit : int
        Bytes.
    n_states : int
        Number of masked states, for the message.
    what : str
        Subject of the message.
    """
    if needed > limit:
        raise ProblemTooLargeError(
            f"{what} needs up to {n_states:,} masked states, about {_gigabytes(needed)} of memory; "
            f"the limit is {_gigabytes(limit)}. Use fewer features or values, or raise the "
            "'max_memory' parameter of FiniteProblem."
        )


def _gigabytes(n_bytes: int) -> str:
    return f"{n_bytes / 1e9:,.3g} GB" if n_bytes < 1e15 else f"{n_bytes // 10**9:,} GB"
