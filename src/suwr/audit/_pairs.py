"""Pairs of real rows that agree on everything revealed and are yet treated differently.

These cost nothing: the masks of the rows are known already. And they are the strongest kind of
evidence, since both rows really occur (empirical support).
"""

import numpy as np

from suwr.audit._table import IntArray
from suwr.selector import BoolArray


def group_rows(codes: IntArray) -> IntArray:
    """Number equal rows alike: one group index per row.

    Examples
    --------
    >>> group_rows(np.array([[1, 2], [0, 0], [1, 2]])).tolist()
    [1, 0, 1]
    """
    if codes.shape[1] == 0:
        return np.zeros(len(codes), dtype=np.intp)
    # Fold the columns into one number, renumbered after each so that it cannot overflow. Columns
    # with many values come first: once all rows differ, the others can change nothing.
    n_levels = codes.max(axis=0) + 1
    group = np.zeros(len(codes), dtype=np.int64)
    for j in np.argsort(-n_levels, kind="stable"):
        if n_levels[j] > 1:
            group = np.unique(group * int(n_levels[j]) + codes[:, j], return_inverse=True)[1]
        if group.max() == len(codes) - 1:
            break
    return group.astype(np.intp)


def disagreements(codes: IntArray, masks: BoolArray, limit: int = 1000) -> IntArray:
    """Pairs (i, j) of rows where j agrees with i on all that i reveals, but has another mask.

    Parameters
    ----------
    codes : int array of shape (n_rows, n_columns)
        Values, as codes that are equal just when the values are.
    masks : bool array of shape (n_rows, n_columns)
    limit : int
        Stop after so many rows i; each comes with one j.

    Returns
    -------
    int array of shape (n_pairs, 2)

    Examples
    --------
    The second row shows 'x0 = 1' and nothing else, and so could have been the first.

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
    """How many rows share all they reveal with another, different row of the data.

    Only these can be tested on the empirical support.

    Examples
    --------
    >>> n_agreeing_rows(np.array([[1, 1], [1, 0], [0, 0]]), np.array([[1, 0]] * 3, dtype=bool))
    2
    """
    mask_id = group_rows(masks.astype(np.intp))
    whole = group_rows(codes)
    count = 0
    for m in np.unique(mask_id):
        rows = np.flatnonzero(mask_id == m)
        group = group_rows(codes[:, masks[rows[0]]])
        # A group is testable when it holds at least two different whole rows.
        distinct = np.unique(np.stack([group, whole], axis=1), axis=0)[:, 0]
        n_distinct = np.bincount(distinct, minlength=int(group.max()) + 1)
        count += int((n_distinct[group[rows]] > 1).sum())
    return count
