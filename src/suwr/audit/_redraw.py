"""Ways to redraw what a mask hides.

All of them keep the revealed values and take each hidden value from another row, whole units at
a time, so that a one-hot group stays a one-hot group.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from suwr.audit._table import IntArray
from suwr.selector import BoolArray

Redraw = Callable[["Deck", IntArray, BoolArray, np.random.Generator], IntArray]


class Deck:
    """What redraws need to know about the data.

    Parameters
    ----------
    unit_codes : int array of shape (n_rows, n_units)
        Values of the units, as codes.
    unit_of : int array of shape (n_columns,)
        Unit of each column.
    masks : bool array of shape (n_rows, n_columns)
        The selector's answer for each row.
    labels : int array of shape (n_rows,), optional
    """

    def __init__(
        self,
        unit_codes: IntArray,
        unit_of: IntArray,
        masks: BoolArray,
        labels: IntArray | None = None,
    ) -> None:
        self.unit_codes = unit_codes
        self.unit_of = unit_of
        self.masks = masks
        self.labels = labels
        self.n_rows, self.n_units = unit_codes.shape
        self.order = np.argsort(unit_codes, axis=0, kind="stable")
        self.mask_id = np.unique(masks, axis=0, return_inverse=True)[1].reshape(-1)


def keep_revealed(
    deck: Deck, rows: IntArray, masks: BoolArray, donors: IntArray, moved: BoolArray | None = None
) -> IntArray:
    """Sources of probes: hidden values from ``donors``, all others from the rows themselves.

    Parameters
    ----------
    deck : Deck
    rows : int array of shape (n_probes,)
    masks : bool array of shape (n_probes, n_columns)
    donors : int array of shape (n_probes, n_units)
        For each unit, the row that lends its value.
    moved : bool array of shape (n_probes, n_units), optional
        Units that may change; all by default.
    """
    change = ~masks
    if moved is not None:
        change &= moved[:, deck.unit_of]
    return np.where(change, donors[:, deck.unit_of], rows[:, None])


def joint(deck: Deck, rows: IntArray, masks: BoolArray, rng: np.random.Generator) -> IntArray:
    """All hidden values of a probe from one other row, so that they go together."""
    donors = rng.integers(deck.n_rows, size=len(rows))
    return keep_revealed(deck, rows, masks, np.repeat(donors[:, None], deck.n_units, axis=1))


def mixed(deck: Deck, rows: IntArray, masks: BoolArray, rng: np.random.Generator) -> IntArray:
    """Every hidden unit from a row of its own: the product of the marginals."""
    return keep_revealed(deck, rows, masks, _any_donors(deck, rows, rng))


def single(deck: Deck, rows: IntArray, masks: BoolArray, rng: np.random.Generator) -> IntArray:
    """One hidden unit only; all else stays."""
    return keep_revealed(
        deck, rows, masks, _any_donors(deck, rows, rng), _one_hidden_unit(deck, masks, rng)
    )


def some(deck: Deck, rows: IntArray, masks: BoolArray, rng: np.random.Generator) -> IntArray:
    """Each hidden unit with probability one half."""
    moved = rng.random((len(rows), deck.n_units)) < 0.5
    return keep_revealed(deck, rows, masks, _any_donors(deck, rows, rng), moved)


def extreme(deck: Deck, rows: IntArray, masks: BoolArray, rng: np.random.Generator) -> IntArray:
    """Some hidden units to the smallest or largest few values that occur."""
    tail = max(1, deck.n_rows // 100)
    place = rng.integers(tail, size=(len(rows), deck.n_units))
    place = np.where(rng.random(place.shape) < 0.5, place, deck.n_rows - 1 - place)
    donors = np.take_along_axis(deck.order, place, axis=0)
    moved = rng.random(donors.shape) < rng.choice([0.1, 0.3, 1.0], size=(len(rows), 1))
    return keep_revealed(deck, rows, masks, donors, moved)


def other_mask(deck: Deck, rows: IntArray, masks: BoolArray, rng: np.random.Generator) -> IntArray:
    """Hidden values from a row that the selector answers differently; rare masks first."""
    weight = 1.0 / np.bincount(deck.mask_id)[deck.mask_id]
    donors = rng.choice(deck.n_rows, size=(len(rows), 8), p=weight / weight.sum())
    differs = deck.mask_id[donors] != deck.mask_id[rows][:, None]
    best = donors[np.arange(len(rows)), differs.argmax(axis=1)]
    return keep_revealed(deck, rows, masks, np.repeat(best[:, None], deck.n_units, axis=1))


def other_label(deck: Deck, rows: IntArray, masks: BoolArray, rng: np.random.Generator) -> IntArray:
    """Hidden values from a row with another label."""
    if deck.labels is None:
        return joint(deck, rows, masks, rng)
    donors = rng.integers(deck.n_rows, size=(len(rows), 8))
    differs = deck.labels[donors] != deck.labels[rows][:, None]
    best = donors[np.arange(len(rows)), differs.argmax(axis=1)]
    return keep_revealed(deck, rows, masks, np.repeat(best[:, None], deck.n_units, axis=1))


#: The two redraws whose answers are counted without bias: they ignore all that was seen so far.
UNIFORM: tuple[Redraw, ...] = (joint, mixed)
#: What the adaptive search may propose.
PROPOSALS: tuple[Redraw, ...] = (joint, mixed, single, some, extreme, other_mask, other_label)


def _any_donors(deck: Deck, rows: IntArray, rng: np.random.Generator) -> IntArray:
    return rng.integers(deck.n_rows, size=(len(rows), deck.n_units)).astype(np.intp)


def _one_hidden_unit(deck: Deck, masks: BoolArray, rng: np.random.Generator) -> BoolArray:
    hidden = hidden_units(masks, deck.unit_of, deck.n_units)
    score = np.where(hidden, rng.random(hidden.shape), -1.0)
    return np.arange(deck.n_units) == score.argmax(axis=1)[:, None]


def hidden_units(masks: BoolArray, unit_of: IntArray, n_units: int) -> NDArray[np.bool_]:
    """Units of which at least one column is hidden, for each mask.

    Examples
    --------
    >>> hidden_units(np.array([[True, True, False]]), np.array([0, 1, 1]), 2).tolist()
    [[False, True]]
    """
    hidden = np.zeros((len(masks), n_units), dtype=bool)
    for j, u in enumerate(unit_of):
        hidden[:, u] |= ~masks[:, j]
    return hidden
