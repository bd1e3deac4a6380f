"""Unusual and invalid selectors and data."""

import time
import warnings

import numpy as np
import pandas as pd
import pytest

from suwr.auditing import audit, audit_masks
from suwr.auditing.background import BackgroundData, encode
from suwr.exceptions import TableError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 4))


def quick(selector, X=X, y=None, **options):
    options = {"random_state": 0, "gaps": False, "n_probes": 600, "support": "product", **options}
    return audit(selector, X, y, **options)


def leaky(X):
    masks = np.zeros(X.shape, dtype=bool)
    masks[:, 0] = True
    masks[:, 1] = X[:, 3] > 0
    return masks


def first(X):
    masks = np.zeros(X.shape, dtype=bool)
    masks[:, 0] = True
    return masks


# Selectors -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda X: np.ones(len(X)), "one mask per row, of shape"),
        (lambda X: np.ones((len(X), 3)), "one mask per row, of shape"),
        (lambda X: np.ones((1, X.shape[1])), "one mask per row, of shape"),
        (lambda X: X, "suwr.auditing.top_k"),
        (lambda X: np.full(X.shape, "yes"), "Masks must be booleans"),
        (lambda X: np.full(X.shape, np.nan), "Got other numbers"),
    ],
)
def test_return_values_that_are_not_masks(answer, message):
    with pytest.raises(ValueError, match=message):
        quick(answer)


@pytest.mark.parametrize("kind", [int, float, object])
def test_masks_of_zeros_and_ones(kind):
    assert quick(lambda X: leaky(X).astype(kind)).leaks
    assert not quick(lambda X: first(X).astype(kind)).leaks


def test_errors_of_the_selector_are_raised_with_a_note():
    def failing(X):
        if len(np.unique(X[:, 0] + X[:, 1])) < 10:  # probes repeat rows
            raise RuntimeError("too few different rows")
        return leaky(X)

    with pytest.raises(RuntimeError, match="too few different rows") as caught:
        quick(failing)
    assert any("when suwr.audit queried" in note for note in caught.value.__notes__)


def test_a_selector_that_modifies_its_input():
    def modifying(X):
        masks = leaky(X)
        X[:] = 0.0
        return masks

    data = X.copy()
    report = quick(modifying, data)
    assert report.leaks
    np.testing.assert_array_equal(data, X)
    assert leaky(report.witness.rows)[:, 1].tolist() in ([True, False], [False, True])


def test_a_selector_that_reuses_its_output_array():
    buffers = {}

    def reusing(X):
        buffer = buffers.setdefault(len(X), np.empty(X.shape, dtype=bool))
        buffer[:] = leaky(X)
        return buffer

    assert quick(reusing).leaks
    assert not quick(lambda X: buffers.setdefault(X.shape, first(X))).leaks


def test_a_stateful_selector():
    calls = []

    def stateful(X):
        calls.append(len(X))
        masks = first(X)
        masks[:, 1] = len(calls) % 3 == 0
        return masks

    report = quick(stateful, n_draws=2000)
    assert report.stochastic
    assert not report.leaks


def test_the_smallest_number_of_draws():
    report = quick(lambda X, rng: rng.random(X.shape) < 0.5, n_draws=500)
    assert report.n_probes <= 500
    assert not report.leaks


def test_positive_and_negative_zero_are_equal():
    data = np.where(RNG.random((100, 2)) < 0.5, 0.0, -0.0)

    def by_sign_bit(X):
        return np.stack([np.zeros(len(X)), np.signbit(X[:, 0])], axis=1) > 0

    assert not quick(by_sign_bit, data, n_draws=1000).leaks


@pytest.mark.parametrize("stated", [0.3, 0.0, np.nan, 2.0])
def test_invalid_probabilities(stated):
    class Misstated:
        def select(self, X, random_state=None):
            masks = np.zeros(X.shape, dtype=bool)
            masks[:, 0] = np.random.default_rng(random_state).random(len(X)) < 0.5
            return masks

        def mask_probability(self, X, masks):
            return np.full((len(X), *masks.shape[1:-1]), stated)

    bits = RNG.integers(2, size=(200, 2))
    if not 0 <= stated <= 1:
        with pytest.raises(ValueError, match="mask_probability must return probabilities"):
            quick(Misstated(), bits)
        return
    report = quick(Misstated(), bits, n_draws=2000)
    assert not report.exact
    assert not report.leaks
    assert any("do not follow" in caution for caution in report.cautions)


def test_the_time_limit_is_checked_within_a_sweep():
    batch_sizes = []

    def slow(X):
        batch_sizes.append(len(X))
        return first(X)

    report = quick(slow, np.repeat(X, 20, axis=0), max_seconds=1e-6, max_rows=4000, n_probes=30_000)
    assert report.n_probes == 0
    assert sum(batch_sizes) <= 3 * 4000


def test_a_slow_selector_is_audited_on_fewer_rows():
    def slow(X):
        time.sleep(5e-3 * len(X))
        return leaky(X)

    report = quick(slow, np.repeat(X, 5, axis=0), RNG.integers(2, size=1000), max_seconds=15.0)
    assert report.leaks
    assert report.n_rows < 1000
    assert report.n_uniform > 0
    assert any("random subset of the data" in caution for caution in report.cautions)


# Data ----------------------------------------------------------------------------------------


def test_rows_of_missing_values():
    data = X.copy()
    data[::3] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report = quick(
            lambda X: leaky(np.nan_to_num(X)), data, RNG.integers(2, size=200), gaps=True
        )
    assert report.leaks
    report.summary(), report.to_json()


@pytest.mark.parametrize("rows", [5, None, "table", X[0], np.zeros((2, 2, 2))])
def test_data_that_are_not_two_dimensional(rows):
    with pytest.raises(TableError, match="Expected 2D array"):
        quick(first, rows)


def test_nested_lists():
    assert quick(lambda X: leaky(np.asarray(X)), X.tolist()).leaks


def test_single_column():
    assert quick(lambda X: X > 0, X[:, :1]).leaks  # a hidden value is not positive
    assert not quick(lambda X: X < 9, X[:, :1]).leaks
    assert not quick(lambda X, rng: rng.random(X.shape) < 0.5, X[:, :1], n_draws=1000).leaks


def test_constant_columns():
    y = RNG.integers(2, size=200)
    assert not quick(leaky, np.where([True, False, False, False], X, 5.0), y, gaps=True).leaks
    assert quick(leaky, np.where([False, False, False, True], X, 5.0), y, gaps=True).leaks
    drawn = quick(lambda X, rng: rng.random(X.shape) < 0.5, np.ones((50, 3)), n_draws=1000)
    assert not drawn.leaks


def test_two_rows():
    assert quick(lambda X: X[:, ::-1] < X, np.array([[0.0, 1.0], [2.0, 1.0]])).n_rows == 2
    with pytest.raises(TableError, match="at least 2 rows"):
        quick(first, X[:1])


@pytest.mark.parametrize("n_levels", [3, 50, 190])
def test_string_columns(n_levels):
    levels = np.array([f"w{i}" for i in range(n_levels)], dtype=object)
    frame = pd.DataFrame({"word": RNG.choice(levels, 400), "lab": RNG.normal(size=400)})
    masks = np.stack([np.ones(400), frame["lab"] > 0], axis=1) > 0
    report = audit_masks(frame, masks, RNG.integers(2, size=400), random_state=0)
    assert report.gaps.label is not None


def test_labels_with_missing_values_and_mixed_types():
    labels = np.array([None, "ill", 3, np.nan] * 50, dtype=object)
    assert quick(leaky, y=labels, gaps=True).gaps.label is not None


def test_unhashable_objects():
    with pytest.raises(TableError, match="holds list objects"):
        encode(np.array([[1], [2], None], dtype=object)[:2])


def test_nullable_numbers_are_numeric():
    frame = pd.DataFrame({"n": pd.array([1, None, 3], dtype="Int64"), "w": ["a", None, "b"]})
    assert BackgroundData(frame).numeric.tolist() == [True, False]
    wide = encode(np.array([np.float32("nan"), None, np.nan], dtype=object))
    assert wide.tolist() == [0, 0, 0]


def test_too_few_rows_for_predictive_gaps():
    report = audit_masks(X[:50], first(X[:50]), RNG.integers(2, size=50), random_state=0)
    assert report.verdict == "no leak found"
    assert any("No predictive gap could be measured" in caution for caution in report.cautions)
    assert "No predictive gap" in report.summary()
