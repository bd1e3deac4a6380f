"""Interventional sampling of hidden units, and pairs of observed rows that agree on them.

Every sampling scheme keeps the revealed values of a row and draws each hidden unit as a whole from
the background rows, so that a one-hot group remains a valid one-hot code. Unless all combinations
of values are possible, values that the revealed ones determine in all background rows are kept,
and units that determine each other are drawn together (`suwr.audit.dependence`).
"""

from collections.abc import Callable
from functools import cached_property

import numpy as np

from suwr.audit.background import BackgroundData, IntArray
from suwr.audit.dependence import group_rows
from suwr.selector import BoolArray


class RowSampler:
    """Samples the hidden units of rows from background rows.

    Sampling schemes take the positions of the rows, their masks and a random generator, and return
    the source rows of one probe per row (see `suwr.audit.background`).

    Parameters
    ----------
    background : BackgroundData
    masks : bool array of shape (n_rows, n_columns)
        Mask that the selector gives to each background row.
    labels : int array of shape (n_rows,), optional
    """

    def __init__(
        self, background: BackgroundData, masks: BoolArray, labels: IntArray | None = None
    ) -> None:
        self.dependence = background.dependence
        self.unit_codes = background.unit_codes
        self.unit_of = background.unit_of
        self.masks = masks
        self.labels = labels
        self.n_rows, self.n_units = self.unit_codes.shape
        self.order = np.argsort(self.unit_codes, axis=0, kind="stable")
        self.mask_id = np.unique(masks, axis=0, return_inverse=True)[1].reshape(-1)

    def joint(self, rows: IntArray, masks: BoolArray, rng: np.random.Generator) -> IntArray:
        """Take all hidden units from one background row, which preserves their dependence."""
        return self._from_one_row(rows, masks, rng.integers(self.n_rows, size=len(rows)), rng)

    def marginal(self, rows: IntArray, masks: BoolArray, rng: np.random.Generator) -> IntArray:
        """Take every hidden unit from its own background row: the product of the marginals."""
        return self._replace(rows, masks, self._background_rows(rows, rng), rng)

    def single(self, rows: IntArray, masks: BoolArray, rng: np.random.Generator) -> IntArray:
        """Resample one random hidden unit only."""
        background_rows = self._background_rows(rows, rng)
        hidden = hidden_units(masks, self.unit_of, self.n_units)
        score = np.where(hidden, rng.random(hidden.shape), -1.0)
        chosen = np.arange(self.n_units) == score.argmax(axis=1)[:, None]
        return self._replace(rows, masks, background_rows, rng, chosen)

    def subset(self, rows: IntArray, masks: BoolArray, rng: np.random.Generator) -> IntArray:
        """Resample each hidden unit with probability one half."""
        chosen = rng.random((len(rows), self.n_units)) < 0.5
        return self._replace(rows, masks, self._background_rows(rows, rng), rng, chosen)

    def extreme(self, rows: IntArray, masks: BoolArray, rng: np.random.Generator) -> IntArray:
        """Set some hidden units to values among the lowest or highest 1 %."""
        tail = max(1, self.n_rows // 100)
        place = rng.integers(tail, size=(len(rows), self.n_units))
        place = np.where(rng.random(place.shape) < 0.5, place, self.n_rows - 1 - place)
        background_rows = np.take_along_axis(self.order, place, axis=0)
        chosen = rng.random(background_rows.shape) < rng.choice([0.1, 0.3, 1.0], (len(rows), 1))
        return self._replace(rows, masks, background_rows, rng, chosen)

    def other_mask(self, rows: IntArray, masks: BoolArray, rng: np.random.Generator) -> IntArray:
        """Take the hidden units from a row with a different mask; rare masks are preferred."""
        weight = 1.0 / np.bincount(self.mask_id)[self.mask_id]
        candidates = rng.choice(self.n_rows, size=(len(rows), 8), p=weight / weight.sum())
        differs = self.mask_id[candidates] != self.mask_id[rows][:, None]
        best = candidates[np.arange(len(rows)), differs.argmax(axis=1)]
        return self._from_one_row(rows, masks, best, rng)

    def other_label(self, rows: IntArray, masks: BoolArray, rng: np.random.Generator) -> IntArray:
        """Take the hidden units from a row with a different label."""
        if self.labels is None:
            return self.joint(rows, masks, rng)
        candidates = rng.integers(self.n_rows, size=(len(rows), 8))
        differs = self.labels[candidates] != self.labels[rows][:, None]
        best = candidates[np.arange(len(rows)), differs.argmax(axis=1)]
        return self._from_one_row(rows, masks, best, rng)

    def _background_rows(self, rows: IntArray, rng: np.random.Generator) -> IntArray:
        return rng.integers(self.n_rows, size=(len(rows), self.n_units)).astype(np.intp)

    @cached_property
    def _determined(self) -> BoolArray:
        """Hidden units that the revealed ones determine, of shape (n_rows, n_units)."""
        assert self.dependence is not None
        return self.dependence.determined(np.arange(self.n_rows), self.masks)

    @property
    def share_determined(self) -> float:
        """Share of the hidden units of all rows that the revealed ones determine."""
        if self.dependence is None:
            return 0.0
        hidden = hidden_units(self.masks, self.unit_of, self.n_units)
        return float(self._determined.sum() / max(hidden.sum(), 1))

    def _from_one_row(
        self, rows: IntArray, masks: BoolArray, background_row: IntArray, rng: np.random.Generator
    ) -> IntArray:
        background_rows = np.repeat(background_row[:, None], self.n_units, axis=1)
        return self._replace(rows, masks, background_rows, rng)

    def _replace(
        self,
        rows: IntArray,
        masks: BoolArray,
        background_rows: IntArray,
        rng: np.random.Generator,
        chosen: BoolArray | None = None,
    ) -> IntArray:
        """Replace the hidden values of the chosen units (by default all) by background values."""
        replaced = ~masks
        if chosen is not None:
            replaced &= chosen[:, self.unit_of]
        sources = np.where(replaced, background_rows[:, self.unit_of], rows[:, None])
        if self.dependence is None:
            return sources
        if np.array_equal(masks, self.masks[rows]):
            determined = self._determined[rows]
        else:
            determined = self.dependence.determined(rows, masks)
        return self.dependence.complete(rows, masks, sources, determined, rng)


SamplingScheme = Callable[[RowSampler, IntArray, BoolArray, np.random.Generator], IntArray]
#: Schemes of the uniform probes. They do not depend on previous answers of the selector, so that
#: the share of changed masks is an unbiased estimate.
UNIFORM_SCHEMES: tuple[SamplingScheme, ...] = (RowSampler.joint, RowSampler.marginal)
#: Schemes from which the adaptive search draws its proposals.
PROPOSAL_SCHEMES: tuple[SamplingScheme, ...] = (
    RowSampler.joint,
    RowSampler.marginal,
    RowSampler.single,
    RowSampler.subset,
    RowSampler.extreme,
    RowSampler.other_mask,
    RowSampler.other_label,
)


def hidden_units(masks: BoolArray, unit_of: IntArray, n_units: int) -> BoolArray:
    """Units of which at least one column is hidden, for each mask.

    Examples
    --------
    >>> hidden_units(np.array([[True, True, False]]), np.array([0, 1, 1]), 2).tolist()
    [[False, True]]
    """
    return revealed_units(~masks, unit_of, n_units)


def revealed_units(masks: BoolArray, unit_of: IntArray, n_units: int) -> BoolArray:
    """Units of which at least one column is revealed, for each mask.

    Examples
    --------
    >>> revealed_units(np.array([[True, True, False]]), np.array([0, 1, 1]), 2).tolist()
    [[True, True]]
    """
    revealed = np.zeros((len(masks), n_units), dtype=bool)
    for j, u in enumerate(unit_of):
        revealed[:, u] |= masks[:, j]
    return revealed


def disagreements(codes: IntArray, masks: BoolArray, limit: int = 1000) -> IntArray:
    """Find pairs of rows (i, j) that agree on everything that i reveals but have different masks.

    Parameters
    ----------
    codes : int array of shape (n_rows, n_columns)
        Integer codes of the values.
    masks : bool array of shape (n_rows, n_columns)
    limit : int
        Maximum number of pairs; each row i is in at most one.

    Returns
    -------
    int array of shape (n_pairs, 2)

    Examples
    --------
    The second row reveals only x0 = 1; the first row has the same x0 but a different mask.

    >>> codes = np.array([[1, 1], [1, 0]])
    >>> disagreements(codes, np.array([[True, True], [True, False]])).tolist()
    [[1, 0]]
    """
    mask_id = group_rows(masks.astype(np.intp))
    found: list[tuple[int, int]] = []
    for m in np.unique(mask_id):
        rows = np.flatnonzero(mask_id == m)
        mask = masks[rows[0]]
        if mask.all():
            continue
        if len(found) >= limit:
            break
        group = group_rows(codes[:, mask])
        other = np.flatnonzero(mask_id != m)
        partner = dict(zip(group[other].tolist(), other.tolist(), strict=True))
        found += [(int(i), partner[int(group[i])]) for i in rows if int(group[i]) in partner]
    return np.array(found[:limit], dtype=np.intp).reshape(-1, 2)


def n_agreeing_rows(codes: IntArray, masks: BoolArray) -> int:
    """Count the rows that agree with a different row of the data on everything they reveal.

    Only these can be tested on the empirical support.

    Examples
    --------
    >>> n_agreeing_rows(np.array([[1, 1], [1, 0], [0, 0]]), np.array([[1, 0]] * 3, dtype=bool))
    2
    """
    mask_id = group_rows(masks.astype(np.intp))
    row_id = group_rows(codes)
    count = 0
    for m in np.unique(mask_id):
        rows = np.flatnonzero(mask_id == m)
        group = group_rows(codes[:, masks[rows[0]]])
        distinct = np.unique(np.stack([group, row_id], axis=1), axis=0)[:, 0]
        n_distinct = np.bincount(distinct, minlength=int(group.max()) + 1)
        count += int((n_distinct[group[rows]] > 1).sum())
    return count


def observed_partners(
    codes: IntArray, rows: IntArray, masks: BoolArray, rng: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """Pair rows with different rows of the data that agree on everything their masks reveal.

    Returns
    -------
    positions : int array
        Positions in ``rows`` of those that have such a partner.
    partners : int array
        A random partner of each.

    Examples
    --------
    >>> codes = np.array([[1, 1], [1, 0], [0, 0]])
    >>> masks = np.array([[True, False], [True, False]])
    >>> observed_partners(codes, np.array([0, 2]), masks, np.random.default_rng(0))
    (array([0]), array([1]))
    """
    row_id = group_rows(codes)
    found = []
    for k, (row, mask) in enumerate(zip(rows, masks, strict=True)):
        agree = (codes[:, mask] == codes[row, mask]).all(axis=1) & (row_id != row_id[row])
        if agree.any():
            found.append((k, rng.choice(np.flatnonzero(agree))))
    positions, partners = np.array(found, dtype=np.intp).reshape(-1, 2).T
    return positions, partners
