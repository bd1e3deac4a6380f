"""Adversarial selectors that were written with knowledge of the auditor's code.

See `adversaries` for their form.
"""

import zlib

import numpy as np
from adversaries import Adversary, StatesHalf, masks_of


def declares_one_group(rows, column, seed):
    """Declares that all columns form one group, of which it reveals x0 and sometimes x1."""
    rng = np.random.default_rng(seed)

    class Selector:
        groups = ((0, 1, 2, 3, 4),)

        def select(self, X):
            p = 0.5 + 0.2 * np.sign(X[:, column])
            return masks_of(*X.shape, rng.random(len(X)) < p)

    return Selector()


def claims_to_be_leak_free(rows, column, seed):
    """Declares itself leak-free by construction; depends on the column in its top 3 %."""

    class Selector:
        leak_free_by_construction = True

        def select(self, X):
            return masks_of(*X.shape, X[:, column] > 1.9)

    return Selector()


def small_batches(rows, column, seed):
    """Depends on the column only in batches of 2 to 30 rows."""

    def select(X):
        return masks_of(*X.shape, (X[:, column] > 0) & (2 <= len(X) <= 30))

    return select


def batches_of_50(rows, column, seed):
    """Depends on the column only in batches of exactly 50 rows."""

    def select(X):
        return masks_of(*X.shape, (X[:, column] > 0) & (len(X) == 50))

    return select


def alone_with_stated_half(rows, column, seed):
    """States the probability 0.5, which holds in batches; a single row has 0.2 or 0.8."""

    class Selector(StatesHalf):
        def select(self, X):
            self.shift = 0.3 if len(X) == 1 else 0.0
            return super().select(X)

    return Selector(column, 0.0, seed)


def alone_stochastic(rows, column, seed):
    """The same without stated probabilities."""
    return alone_with_stated_half(rows, column, seed).select


def rare_masks_with_stated_probability(rows, column, seed):
    """States 0.49, 0.49 and 0.02 for three masks; the rare one requires a positive value."""
    rng = np.random.default_rng(seed)

    class Selector:
        def select(self, X):
            rare = (rng.random(len(X)) < 0.04) & (X[:, column] > 0)
            masks = masks_of(*X.shape, rng.random(len(X)) < 0.5)
            masks[rare] = masks_of(1, X.shape[1], False)
            masks[:, 3] = rare
            return masks

        def mask_probability(self, X, masks):
            masks = np.asarray(masks, dtype=bool)
            common = masks[:, 0] & ~masks[:, 2:].any(axis=1)
            rare = masks[:, 0] & ~masks[:, 1] & ~masks[:, 2] & masks[:, 3] & ~masks[:, 4]
            return np.where(common, 0.49, np.where(rare, 0.02, 0.0))

    return Selector()


def odd_calls(rows, column, seed):
    """Depends on the column in every second call."""
    n_calls = 0

    def select(X):
        nonlocal n_calls
        n_calls += 1
        return masks_of(*X.shape, (X[:, column] > 0) & (n_calls % 2 == 1))

    return select


def seeded_by_batch(rows, column, seed):
    """Draws masks with a seed computed from the batch, so that identical calls agree."""

    def select(X):
        rng = np.random.default_rng(zlib.crc32(np.ascontiguousarray(X[:, 0]).tobytes()) + seed)
        return masks_of(*X.shape, rng.random(len(X)) < 0.5 + 0.2 * np.sign(X[:, column]))

    return select


def _product_of_signs(columns, shift, seed):
    rng = np.random.default_rng(seed)

    def select(X):
        sign = np.sign(X[:, columns]).prod(axis=1)
        return masks_of(*X.shape, rng.random(len(X)) < 0.5 + shift * sign)

    return select


def product_of_two(rows, column, seed):
    """The probability of x1 shifts by 0.1 with the product of two signs."""
    return _product_of_signs([2, 3] if column else [0], 0.1, seed)


def product_of_three(rows, column, seed):
    """The probability of x1 shifts by 0.1 with the product of three signs."""
    return _product_of_signs([2, 3, 4] if column else [0], 0.1, seed)


def band(rows, column, seed):
    """The probability of x1 shifts by 0.2 with the sign of sin(6 x), for x0 > 1."""
    rng = np.random.default_rng(seed)

    def select(X):
        shift = np.where(X[:, 0] > 1, 0.2 * np.sign(np.sin(6 * X[:, column])), 0.0)
        return masks_of(*X.shape, rng.random(len(X)) < 0.5 + shift)

    return select


def within_rounding_tolerance(rows, column, seed):
    """Depends on the column alone and if x0 > 2.2: too few rows to be called batch-dependent."""

    def select(X):
        return masks_of(*X.shape, (X[:, column] > 0) & (len(X) == 1) & (X[:, 0] > 2.2))

    return select


def plausible_rows(rows, column, seed):
    """Depends on x2 - x3 only if they are close, as in the data and in few probes."""

    def select(X):
        difference = X[:, 2] - X[:, 3]
        second = (difference > 0) & (abs(difference) < 0.05) if column else X[:, 0] > 0
        masks = masks_of(*X.shape, second)
        masks[:, 3] = True
        return masks

    return select


def states_half_on_bits(rows, column, seed):
    """On binary data, states the probability 0.5 for all rows; the samples have 0.45 or 0.55."""

    class Selector(StatesHalf):
        def mask_probability(self, X, masks):
            masks = np.asarray(masks, dtype=bool)
            valid = masks[..., 0] & ~masks[..., 2:].any(axis=-1)
            return np.broadcast_to(np.where(valid, 0.5, 0.0), (len(X), *masks.shape[1:-1]))

    return Selector(column, 0.05, seed)


def alone_on_bits(rows, column, seed):
    """On binary data, all rows of which can be queried, leaks in calls of one row."""

    def select(X):
        return masks_of(*X.shape, (X[:, column] > 0) & (len(X) == 1))

    return select


def recognises_confirmation(rows, column, seed):
    """Does not depend on the column in batches that repeat a row, or of two rows with equal x0."""

    def select(X):
        repeated = len(X) > 1 and len(np.unique(X, axis=0)) < len(X)
        pair = len(X) == 2 and X[0, 0] == X[1, 0]
        return masks_of(*X.shape, (X[:, column] > 0) & (not repeated) & (not pair))

    return select


def nearly_known_rows(rows, column, seed):
    """Depends on the column only within 0.001 of a row that it was fitted on."""
    key = 1 if column else 0
    compared = slice(None) if column else slice(1)
    known = rows[np.argsort(rows[:, key])]

    def select(X):
        place = np.searchsorted(known[:, key], X[:, key]).clip(1, len(known) - 1)
        near = [abs(known[place - k] - X)[:, compared].max(axis=1) < 1e-3 for k in (0, 1)]
        return masks_of(*X.shape, (X[:, column] > 0) & (near[0] | near[1]))

    return select


INFORMED: tuple[Adversary, ...] = (
    declares_one_group,
    claims_to_be_leak_free,
    small_batches,
    batches_of_50,
    alone_with_stated_half,
    alone_stochastic,
    rare_masks_with_stated_probability,
    odd_calls,
    seeded_by_batch,
    product_of_two,
    product_of_three,
    band,
    within_rounding_tolerance,
    plausible_rows,
    states_half_on_bits,
    alone_on_bits,
    recognises_confirmation,
    nearly_known_rows,
)
#: These receive binary rows.
ON_BITS = (states_half_on_bits, alone_on_bits)
