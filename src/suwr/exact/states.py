"""Masked states x ⊙ h: what the two layouts of them have in common."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suwr.exact._arrays import Floats, Ints
from suwr.exact._checks import check_memory


class MaskedStates(ABC):
    """Statistics of every masked state x ⊙ h.

    All amounts carry the probability of the state, so that a state's amount is comparable with the
    sum of its children's. A state of probability 0 has amounts of 0 and changes nothing.

    Attributes
    ----------
    mass : ndarray of shape (n_states,)
        p(s), the probability that a row agrees with the revealed values.
    risk : ndarray of shape (n_states,)
        p(s) times the loss of f* when stopping in s.
    size : ndarray of shape (n_states,)
        Number of revealed features.
    cost_mass : ndarray of shape (n_states,)
        p(s) ‖h‖, with ‖h‖ the cost of the revealed features.
    """

    mass: Floats
    risk: Floats
    size: NDArray[np.uint8]
    cost_mass: Floats
    _prediction: Floats  # (n_states,) means, or (n_labels, n_states) masses p(s, y)

    def __init__(self, codes: Ints, radices: Sequence[int]) -> None:
        self.codes = codes
        self.radices = tuple(radices)
        self.n_features = len(self.radices)

    @property
    def n_states(self) -> int:
        """Length of the arrays, which in the product layout may hold states of probability 0."""
        return len(self.mass)

    @property
    def n_positive(self) -> int:
        """Number of states with positive probability."""
        return int(np.count_nonzero(self.mass))

    @property
    def root(self) -> int:
        """The state in which nothing is revealed."""
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

        A state with more than ``max_size`` features costs infinity: then nobody goes there.
        """
        cost = self.risk[:, None] + self.cost_mass[:, None] * weights
        if max_size is not None and max_size < self.n_features:
            cost[self.size > max_size] = np.inf
        return cost

    @abstractmethod
    def index(self, rows: Ints, masks: Ints) -> Ints:
        """States of support rows under masks, which are given as bits."""

    @abstractmethod
    def masks_of(self, ids: Ints) -> Ints:
        """Masks of states, as bits."""

    @abstractmethod
    def mask_totals(self, amounts: Floats) -> Floats:
        """Sum of an amount over the states of each mask, of shape (2 ** n_features,)."""

    @abstractmethod
    def sweep(self, value: Floats, *others: Floats) -> None:
        """Turn stopping costs into optimal values, in place: V(s) = min(c(s), min_i Σ_a V(s, a)).

        ``others`` hold further amounts of stopping; they follow the decisions that ``value`` makes.
        All arrays have the shape (n_states, n_weights).
        """

    @abstractmethod
    def improve(self, units: tuple[int, ...], source: list[Floats], target: list[Floats]) -> None:
        """Reveal ``units`` at once wherever that lowers ``target[0]``.

        ``source`` holds the values that follow; further arrays go with the first ones.
        """


def build_states(
    *,
    codes: Ints,
    radices: Sequence[int],
    p: Floats,
    labels: NDArray[Any],
    label_distribution: Any,
    loss: str,
    costs: Floats | None,
    max_memory: int,
) -> MaskedStates:
    """Enumerate the masked states in the layout that needs less memory."""
    from suwr.exact._product import ProductStates
    from suwr.exact._sparse import SparseStates

    n_product = 1
    for radix in radices:
        n_product *= radix + 1
    n_pairs = len(codes) * 2 ** len(radices)
    n_label_arrays = 1 if loss == "squared_error" else len(labels)
    # Arrays that live together at the peak: statistics, their copies while built, one solution.
    per_state = 8 * (8 + 2 * n_label_arrays)
    product_bytes = n_product * per_state
    sparse_bytes = n_pairs * (per_state + 48)
    check_memory(
        min(product_bytes, sparse_bytes), max_memory, min(n_product, n_pairs), "This problem"
    )
    layout: type[ProductStates] | type[SparseStates] = (
        ProductStates if product_bytes <= sparse_bytes and len(radices) < 31 else SparseStates
    )
    return layout(codes, radices, p, labels, label_distribution, loss, costs)


def mask_bits(masks: NDArray[np.bool_]) -> Ints:
    """Boolean masks (…, d) as integers: bit j stands for feature j."""
    weights = np.left_shift(np.int64(1), np.arange(masks.shape[-1], dtype=np.int64))
    return masks.astype(np.int64) @ weights


def bits_mask(bits: NDArray[np.int64], n_features: int) -> NDArray[np.bool_]:
    """Integers as boolean masks: the inverse of :func:`mask_bits`."""
    return (np.asarray(bits)[..., None] >> np.arange(n_features)) & 1 == 1
