"""Selectors whose masks depend on the other rows of a call."""

import numpy as np
import pytest

from suwr.auditing import audit
from suwr.auditing.background import BackgroundData
from suwr.auditing.proofs import confirm_batches
from suwr.auditing.queries import SelectorQueries
from suwr.selector import as_selector

X = np.random.default_rng(0).normal(size=(200, 5))
HIDDEN, REVEALED = 2, 0


def masks_of(X, second):
    masks = np.zeros(X.shape, dtype=bool)
    masks[:, 0] = True
    masks[:, 1] = second
    return masks


def alone(X, column):
    return masks_of(X, (X[:, column] > 0) & (len(X) == 1))


def never_alone(X, column):
    return masks_of(X, (X[:, column] > 0) & (len(X) > 2))


def above_mean(X, column):
    return masks_of(X, X[:, column].mean() < X[:, column])


def without_repeated_rows(X, column):
    distinct = len(np.unique(X[:, 0])) == len(X)
    return masks_of(X, (X[:, column] > 0) & distinct & (len(X) > 1))


def by_another_row(X, column):
    return masks_of(X, np.roll(X[:, column] > 0, 1) & (len(X) > 1))


def alone_in_few_rows(X, column):
    return masks_of(X, (X[:, column] > 0) & (len(X) == 1) & (X[:, 0] > 1.6))


def quick(selector, column, **options):
    options = {"gaps": False, "n_probes": 600, "n_draws": 2000, "support": "product", **options}
    return audit(lambda X: selector(X, column), X, random_state=0, **options)


@pytest.mark.parametrize(
    "selector",
    [alone, never_alone, above_mean, without_repeated_rows, by_another_row, alone_in_few_rows],
)
def test_leaks_that_depend_on_the_batch(selector):
    report = quick(selector, HIDDEN)
    assert report.leaks
    assert report.evidence == "proof"
    statements = [*report.cautions, report.finding]
    assert any("the batch" in text or "calls of one row" in text for text in statements)


@pytest.mark.parametrize(
    "selector",
    [alone, never_alone, above_mean, without_repeated_rows, by_another_row, alone_in_few_rows],
)
def test_dependence_on_revealed_values_of_the_batch_is_no_leak(selector):
    report = quick(selector, REVEALED)
    assert not report.leaks
    assert any("depend on the batch" in caution for caution in report.cautions)
    assert report.n_batches > 0
    assert "fixed batches" in report.summary()


def test_a_leak_between_rows_has_no_witness():
    report = quick(by_another_row, HIDDEN)
    assert report.witness is None
    assert "one row change the mask of another" in report.summary()


def test_the_witness_of_a_batch_agrees_on_revealed_values():
    witness = quick(never_alone, HIDDEN).witness
    np.testing.assert_array_equal(witness.x[witness.mask], witness.x_other[witness.mask])
    assert (witness.mask != witness.mask_other).any()


def test_rows_are_queried_alone_and_in_shuffled_batches():
    sizes = []

    def counted(X, column):
        sizes.append(len(X))
        return masks_of(X, X[:, column] > 0)

    assert not quick(counted, REVEALED).leaks
    assert sizes.count(1) >= 64 + 100
    assert {2, 3, 7, 32} <= set(sizes)


def test_a_selector_that_changes_from_call_to_call_is_not_confirmed():
    calls = []

    def alternating(X):
        calls.append(1)
        return masks_of(X, len(calls) % 2 == 0)

    background = BackgroundData(X)
    queries = SelectorQueries(as_selector(alternating), background, np.random.default_rng(0))
    batch = background.unchanged(np.arange(5))
    other = np.where(np.arange(5) == HIDDEN, batch + 7, batch)
    assert confirm_batches(queries, batch, other) is None
