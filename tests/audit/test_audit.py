"""What users give to the audit, and what they get."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

import suwr.audit
from suwr.audit import audit
from suwr.exceptions import TableError
from suwr_experiments.zoo import TreeWalker, gaussian_rows

RNG = np.random.default_rng(0)
X, Y = gaussian_rows(0)


def sly(X):
    """Shows x0, and x1 if the hidden x5 is high."""
    masks = np.zeros(X.shape, dtype=bool)
    masks[:, 0] = True
    masks[:, 1] = X[:, 5] > 0.5
    return masks


def honest(X):
    masks = np.zeros(X.shape, dtype=bool)
    masks[:, 0] = True
    masks[:, 1] = X[:, 0] > 0
    return masks


def quick(selector, X, y=None, **options):
    return audit(selector, X, y, **{"random_state": 0, "gaps": False, **options})


def test_the_package_is_the_function():
    assert suwr.audit(honest, X[:50], gaps=False).verdict == "no leak found"


def test_witness_is_as_small_as_it_can_be():
    witness = quick(sly, X).witness
    assert witness.changed == ["x5"]
    assert witness.revealed[0] == "x0"
    assert witness.support == "product"
    np.testing.assert_array_equal(witness.x, X[witness.row])


def test_same_seed_same_report():
    first, second = (quick(sly, X, random_state=5).to_dict() for _ in range(2))
    first.pop("cost"), second.pop("cost")
    assert first == second


def test_cost_is_counted():
    asked = []

    def counted(X):
        asked.append(len(X))
        return honest(X)

    report = quick(counted, X)
    assert report.n_calls == len(asked)
    assert report.n_asked == sum(asked)
    assert report.n_probes <= 16 * len(X)


def test_budget_is_kept():
    report = quick(honest, X, n_probes=100)
    assert report.n_probes <= 100
    assert report.n_uniform == 50
    assert report.detectable_rate == pytest.approx(1 - 0.05 ** (1 / 50))


def test_time_limit():
    report = quick(honest, X, max_seconds=1e-9)
    assert report.n_probes == 0
    assert any("time" in caution for caution in report.cautions)


def test_time_limit_of_a_random_selector():
    report = quick(lambda X, rng: rng.random(X.shape) < 0.5, X, max_seconds=1e-9)
    assert report.verdict == "no leak found"
    assert report.p_value is None
    assert any("time" in caution for caution in report.cautions)


def test_selected_rows_of_large_data():
    report = quick(sly, X, max_rows=100)
    assert report.n_rows == 100
    np.testing.assert_array_equal(X[report.witness.row], report.witness.x)
    assert any("random part" in caution for caution in report.cautions)


# Support -------------------------------------------------------------------------------------


def copied(X):
    """Leaks on the product support only: x1 always equals x0 in the data."""
    masks = np.zeros(X.shape, dtype=bool)
    masks[:, 0] = True
    masks[:, 2] = X[:, 1] > 0
    return masks


@pytest.fixture
def twins():
    first = RNG.integers(-1, 2, size=600)
    return np.stack([first, first, RNG.integers(3, size=600), RNG.integers(3, size=600)], axis=1)


def test_empirical_support_believes_the_data(twins):
    report = quick(copied, twins, support="empirical")
    assert report.verdict == "no leak found"
    assert report.exact
    assert report.support == "empirical"


def test_product_support_does_not(twins):
    report = quick(copied, twins, support="product")
    assert report.leaks
    assert report.witness.support == "product"
    assert report.witness.row_other is None


def test_real_rows_come_first(twins):
    report = quick(lambda X: np.stack([X[:, 2] > 0] + [X[:, 0] > 9] * 3, axis=1), twins)
    assert report.leaks
    wide = np.concatenate([X[:, :1], twins[: len(X)].repeat(2, axis=0)[: len(X)]], axis=1)
    report = quick(lambda X: np.stack([X[:, 3] > 9] * 4 + [X[:, 3] > 0], axis=1), wide)
    assert report.witness.support == "empirical"
    assert report.witness.row_other is not None
    np.testing.assert_array_equal(report.witness.x_other, wide[report.witness.row_other])


def test_empirical_support_says_when_it_can_test_nothing():
    report = quick(honest, X, support="empirical")
    assert not report.leaks
    assert not report.exact
    assert any("little could be tested" in caution for caution in report.cautions)


# Containers ----------------------------------------------------------------------------------


def frame_selector(frame):
    masks = np.zeros(frame.shape, dtype=bool)
    masks[:, 0] = True
    masks[:, 1] = np.asarray(frame["sex"] == "f")
    return masks


COLUMNS = {
    "age": RNG.integers(18, 90, 400),
    "ward": RNG.choice(["A", "B", "C"], 400),
    "sex": RNG.choice(["f", "m"], 400),
    "lab": RNG.normal(size=400),
}


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_data_frames(make):
    seen = []

    def selector(frame):
        seen.append(type(frame))
        return frame_selector(frame)

    report = quick(selector, make(COLUMNS), support="product")
    assert report.leaks
    assert report.witness.changed == ["sex"]
    assert {type(make(COLUMNS))} == set(seen)
    assert "`sex`" in report.summary()
    json.loads(report.to_json())


def test_categories_and_missing_values():
    frame = pd.DataFrame(COLUMNS)
    frame["ward"] = pd.Categorical(frame["ward"])
    frame.loc[::7, "lab"] = np.nan
    frame.loc[::5, "sex"] = None

    def selector(frame):
        assert isinstance(frame["ward"].dtype, pd.CategoricalDtype)
        masks = np.zeros(frame.shape, dtype=bool)
        masks[:, 1] = frame["sex"].isna()
        return masks

    report = quick(selector, frame)
    assert report.leaks
    json.loads(report.to_json())


def test_groups_are_columns_revealed_together():
    kind = RNG.integers(3, size=500)
    X = np.column_stack([RNG.normal(size=500), np.eye(3)[kind], RNG.normal(size=500)])

    def selector(X):
        assert (X[:, 1:4].sum(axis=1) == 1).all()  # never an impossible one-hot code
        masks = np.zeros(X.shape, dtype=bool)
        masks[:, 4] = X[:, 2] == 1
        return masks

    names = ["age", "ward_a", "ward_b", "ward_c", "lab"]
    report = quick(
        selector, X, feature_names=names, groups={"ward": ["ward_a", "ward_b", "ward_c"]}
    )
    assert report.leaks
    assert list(report.influence) == ["ward"]


def test_answers_over_groups():
    def selector(X):
        return np.column_stack([X[:, 2] > 0, np.zeros(len(X), dtype=bool)])

    report = quick(selector, RNG.normal(size=(200, 4)), groups=[[0, 1], [2, 3]])
    assert report.leaks
    assert report.witness.mask.shape == (4,)


def test_images():
    images = RNG.integers(0, 16, size=(300, 144)).astype(float)

    def selector(X):
        brightest = X[:, :72].argmax(axis=1)
        masks = np.zeros(X.shape, dtype=bool)
        masks[np.arange(len(X)), brightest] = True
        return masks

    assert quick(selector, images, n_probes=3000).leaks
    fixed = RNG.random(144) < 0.1
    clean = quick(lambda X: np.repeat(fixed[None], len(X), axis=0), images, n_probes=3000)
    assert not clean.leaks


# Behaviour -----------------------------------------------------------------------------------


def test_a_claim_is_no_proof():
    walker = TreeWalker(3, 10, 0)
    assert quick(walker, X).verdict == "leak-free by construction"

    class Liar:
        leak_free_by_construction = True
        select = staticmethod(sly)

    report = quick(Liar(), X)
    assert report.verdict == "leaks"
    assert any("refute" in caution for caution in report.cautions)


def test_dependence_on_the_batch_is_no_proof_but_is_told():
    def standardised(X):
        return X.mean(axis=0) < X  # its own column only, but compared with the other rows

    report = quick(standardised, X[:150], n_probes=300)
    assert any("depends on more than the row" in caution for caution in report.cautions)
    assert not report.leaks


def test_noise_from_the_batch_size_is_no_proof():
    def noisy(X):
        # As a network on another batch size: an exact tie falls either way.
        tie = np.zeros(len(X), dtype=bool) if len(X) % 2 else X[:, 0] > 2.3
        masks = honest(X)
        masks[:, 2] = tie
        return masks

    report = quick(noisy, X, n_draws=4000)
    assert not report.leaks


def test_rare_chance_is_no_proof():
    rng = np.random.default_rng(1)

    def nearly_fixed(X):
        masks = honest(X)
        masks[:, 2] = rng.random(len(X)) < 2e-4
        return masks

    for seed in range(5):
        assert not quick(nearly_fixed, X, random_state=seed, n_draws=20_000).leaks


def test_stated_probabilities_are_compared_with_samples():
    class Pretender:
        def select(self, X, random_state=None):
            masks = np.zeros(X.shape, dtype=bool)
            masks[:, 0] = np.random.default_rng(random_state).random(len(X)) < 0.2 + 0.6 * (
                X[:, 1] >= 0
            )
            return masks

        def mask_probability(self, X, masks):
            return 0.5 * np.broadcast_to(~masks[..., 1:].any(axis=-1), (len(X), *masks.shape[1:-1]))

    bits = RNG.integers(-1, 1, size=(300, 3))  # few enough for an exact verdict
    for data in (X, bits):
        report = quick(Pretender(), data)
        assert report.leaks
        assert not report.exact
        assert report.evidence == "test"
        assert sum("do not follow" in caution for caution in report.cautions) == 1


def test_stochastic_on_the_empirical_support():
    data = RNG.integers(2, size=(400, 14))

    def selector(X, rng):
        masks = np.zeros(X.shape, dtype=bool)
        masks[:, 0] = rng.random(len(X)) < 0.2 + 0.6 * X[:, 1]
        return masks

    report = quick(selector, data, support="empirical", n_draws=40_000)
    assert report.leaks
    assert report.witness.support == "empirical"
    clean = quick(
        lambda X, rng: rng.random(X.shape) < 0.1, data, support="empirical", n_draws=40_000
    )
    assert not clean.leaks


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6))
def test_no_tree_walker_is_ever_accused(seed):
    report = quick(TreeWalker(4, 10, seed), X[:150], n_probes=600, random_state=seed)
    assert report.verdict == "leak-free by construction"


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6))
def test_every_witness_holds(seed):
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(10, 10))

    def selector(X):
        return np.stack([x @ weights > 1 for x in X])

    report = quick(selector, X[:150], n_probes=600, random_state=seed)
    assert report.leaks
    w = report.witness
    first, second = selector(w.rows)
    assert (w.x[first] == w.x_other[first]).all()
    assert (first != second).any()


# Bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"support": "other"}, "'support' parameter of audit must be one of"),
        ({"false_alarm_rate": 0.0}, "'false_alarm_rate' parameter of audit must be a float"),
        ({"confidence": 95}, "'confidence' parameter"),
        ({"n_probes": 0}, "'n_probes' parameter of audit must be an int of at least 1"),
        ({"n_draws": 10}, "'n_draws' parameter of audit must be an int of at least 500"),
        ({"max_seconds": 0}, "'max_seconds' parameter of audit must be None or a positive number"),
        ({"confidence": "high"}, "'confidence' parameter of audit must be a float"),
        ({"max_rows": 1.5}, "'max_rows' parameter"),
        ({"y": [1, 2]}, "one label per row"),
        ({"feature_names": ["a"]}, "one name per column"),
        ({"groups": {"g": ["nope"]}}, "must name columns of X"),
    ],
)
def test_bad_parameters(options, message):
    with pytest.raises(ValueError, match=message):
        audit(honest, X, **options)


def test_bad_rows():
    with pytest.raises(TableError, match="Expected 2D array"):
        audit(honest, X[0])


def test_unfitted_estimators():
    class Unfitted(BaseEstimator):
        def fit(self, X, y=None):
            return self

        def select(self, X):
            return X > 0

    with pytest.raises(NotFittedError):
        audit(Unfitted(), X)


def test_groups_of_the_estimator_are_used():
    class Grouped:
        groups = [[0, 1], [2, 3]]

        def select(self, X):
            assert (X[:, 0] == -X[:, 1]).all()
            masks = np.zeros(X.shape, dtype=bool)
            masks[:, 2:] = X[:, :1] > 0
            return masks

    first = RNG.normal(size=200)
    data = np.column_stack([first, -first, RNG.normal(size=(200, 2))])
    report = quick(Grouped(), data)
    assert list(report.influence) == ["0 + 1"]


def test_no_torch_and_no_matplotlib_on_import():
    code = "import sys, suwr.audit; print({'torch', 'matplotlib'} & set(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "set()"
