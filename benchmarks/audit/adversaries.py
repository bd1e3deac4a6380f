"""Selectors that try to pass an audit although they leak, each with a leak-free twin.

An adversary is a function ``(rows, column, seed) -> selector``. Every selector reveals x0 and
decides about the other columns by a function of one column: the hidden x2 in the adversary itself,
the revealed x0 in its twin. The mechanism that is meant to deceive the auditor is the same in both,
except that a twin recognises rows by x0 alone: recognising them by hidden columns is a leak.

The selectors of this module were written from ``docs/guides/audit.md`` alone, before reading the
auditor's code; those of `adversaries_informed` were written with knowledge of it.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

Adversary = Callable[[np.ndarray, int, int], Any]


def masks_of(n_rows: int, n_columns: int, second: np.ndarray | bool) -> np.ndarray:
    """Return masks that reveal x0, and x1 where `second` is true."""
    masks = np.zeros((n_rows, n_columns), dtype=bool)
    masks[:, 0] = True
    masks[:, 1] = second
    return masks


class StatesHalf:
    """States the probability 0.5 for x1, and samples with a shift that depends on a column."""

    def __init__(self, column: int, shift: float, seed: int):
        self.column, self.shift = column, shift
        self.rng = np.random.default_rng(seed)

    def select(self, X):
        p = 0.5 + self.shift * np.sign(X[:, self.column])
        return masks_of(*X.shape, self.rng.random(len(X)) < p)

    def mask_probability(self, X, masks):
        masks = np.asarray(masks, dtype=bool)
        valid = masks[:, 0] & ~masks[:, 2:].any(axis=1)
        return np.where(valid, 0.5, 0.0)


def states_half_shift_3(rows, column, seed):
    """`mask_probability` is 0.5; the samples have 0.47 or 0.53."""
    return StatesHalf(column, 0.03, seed)


def states_half_shift_10(rows, column, seed):
    """`mask_probability` is 0.5; the samples have 0.4 or 0.6."""
    return StatesHalf(column, 0.10, seed)


def alone(rows, column, seed):
    """Depends on the column only if it is asked about a single row."""

    def select(X):
        return masks_of(*X.shape, (X[:, column] > 0) & (len(X) == 1))

    return select


def never_alone(rows, column, seed):
    """Depends on the column only in batches of at least three rows."""

    def select(X):
        return masks_of(*X.shape, (X[:, column] > 0) & (len(X) > 2))

    return select


class KnownRows:
    """Recognises rows by all their columns, or by the revealed x0 in a leak-free twin."""

    def __init__(self, rows, column):
        self.columns = slice(None) if column else slice(1)
        self.known = set(self.keys(rows))

    def keys(self, X):
        return [row.tobytes() for row in np.ascontiguousarray(X[:, self.columns])]

    def contains(self, X):
        return np.array([key in self.known for key in self.keys(X)])


def known_rows(rows, column, seed):
    """Depends on the column only for the rows that it was fitted on."""
    known = KnownRows(rows, column)

    def select(X):
        member = known.contains(X)
        return masks_of(*X.shape, (X[:, column] > 0) & member)

    return select


def after_60000_rows(rows, column, seed):
    """Depends on the column once it has been asked about 60,000 rows."""
    count = 0

    def select(X):
        nonlocal count
        count += len(X)
        return masks_of(*X.shape, (X[:, column] > 0) & (count > 60_000))

    return select


def remembers_answers(rows, column, seed):
    """Repeats its first answer for any row with the same x0."""
    answers: dict[float, bool] = {}

    def select(X):
        second = [answers.setdefault(float(row[0]), bool(row[column] > 0)) for row in X]
        return masks_of(*X.shape, np.array(second, dtype=bool))

    return select


def every_hundredth_row(rows, column, seed):
    """Depends on the column for one row in a hundred, by the number of rows asked so far."""
    count = 0

    def select(X):
        nonlocal count
        turn = (count + np.arange(len(X))) % 100 == 99
        count += len(X)
        return masks_of(*X.shape, (X[:, column] > 0) & turn)

    return select


def rare_region(rows, column, seed):
    """Depends on the column only if the revealed x0 exceeds 2 (2 % of the rows)."""

    def select(X):
        return masks_of(*X.shape, (X[:, column] > 0) & (X[:, 0] > 2))

    return select


def rare_conjunction(rows, column, seed):
    """Depends on three columns that all have to exceed 1.3 (one row in 1,000)."""
    columns = [column, 3, 4] if column else [0]

    def select(X):
        return masks_of(*X.shape, (X[:, columns] > 1.3).all(axis=1))

    return select


def correlation(rows, column, seed):
    """Reveals x1 and x3 with probability 0.5 each; the sign of the column is their correlation."""
    rng = np.random.default_rng(seed)

    def select(X):
        masks = masks_of(*X.shape, rng.random(len(X)) < 0.5)
        same = rng.random(len(X)) < 0.5 + 0.2 * np.sign(X[:, column])
        masks[:, 3] = masks[:, 1] == same
        return masks

    return select


def noise_cover(rows, column, seed):
    """Reveals x3 and x4 at random; the probability of x1 shifts by 0.05 with the column."""
    rng = np.random.default_rng(seed)

    def select(X):
        masks = masks_of(*X.shape, rng.random(len(X)) < 0.5 + 0.05 * np.sign(X[:, column]))
        masks[:, 3:] = rng.random((len(X), X.shape[1] - 3)) < 0.5
        return masks

    return select


def recognises_probes(rows, column, seed):
    """Depends on the column only in batches in which no two rows agree on x0."""

    def select(X):
        distinct = len(X) > 1 and len(np.unique(X[:, 0])) == len(X)
        return masks_of(*X.shape, (X[:, column] > 0) & distinct)

    return select


def batch_mean(rows, column, seed):
    """Compares the column with its mean in the batch."""

    def select(X):
        return masks_of(*X.shape, X[:, column] > X[:, column].mean() + 1e-9)

    return select


def shared_coin(rows, column, seed):
    """All rows of a call share one coin; the probability of x1 shifts by 0.1 with the column."""
    rng = np.random.default_rng(seed)

    def select(X):
        p = 0.5 + 0.1 * np.sign(X[:, column])
        return masks_of(*X.shape, rng.random() < p)

    return select


def states_half_for_known_rows(rows, column, seed):
    """States the probability 0.5; samples of one fitted row in ten depend on the column."""
    known = KnownRows(rows[::10], column)
    rng = np.random.default_rng(seed)

    class Selector(StatesHalf):
        def select(self, X):
            member = known.contains(X)
            second = np.where(member, X[:, self.column] > 0, rng.random(len(X)) < 0.5)
            return masks_of(*X.shape, second)

    return Selector(column, 0.0, seed)


BLIND: tuple[Adversary, ...] = (
    states_half_shift_3,
    states_half_shift_10,
    alone,
    never_alone,
    known_rows,
    after_60000_rows,
    remembers_answers,
    every_hundredth_row,
    rare_region,
    rare_conjunction,
    correlation,
    noise_cover,
    recognises_probes,
    batch_mean,
    shared_coin,
    states_half_for_known_rows,
)
