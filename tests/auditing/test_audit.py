"""Parameters, containers and verdicts of audits."""

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

import suwr
from suwr.auditing import audit
from suwr.exceptions import TableError
from suwr_experiments.zoo import TreeWalker, gaussian_rows

RNG = np.random.default_rng(0)
X, Y = gaussian_rows(0)


def leaky(X):
    """Reveals x0, and x1 if the hidden x5 is large."""
    masks = np.zeros(X.shape, dtype=bool)
    masks[:, 0] = True
    masks[:, 1] = X[:, 5] > 0.5
    return masks


def leak_free(X):
    """Reveals x0, and x1 if the revealed x0 is positive."""
    masks = np.zeros(X.shape, dtype=bool)
    masks[:, 0] = True
    masks[:, 1] = X[:, 0] > 0
    return masks


def quick(selector, X, y=None, **options):
    return audit(selector, X, y, **{"random_state": 0, "gaps": False, **options})


def test_the_function_is_a_name_of_the_package():
    assert suwr.audit is audit


def test_the_witness_changes_a_single_unit():
    witness = quick(leaky, X).witness
    assert witness.changed == ["x5"]
    assert witness.revealed[0] == "x0"
    assert witness.support == "product"
    np.testing.assert_array_equal(witness.x, X[witness.row])


def test_reports_are_reproducible():
    first, second = (quick(leaky, X, random_state=5).to_dict() for _ in range(2))
    first.pop("cost"), second.pop("cost")
    assert first == second


def test_queries_are_counted():
    batch_sizes = []

    def counted(X):
        batch_sizes.append(len(X))
        return leak_free(X)

    report = quick(counted, X)
    assert report.n_calls == len(batch_sizes)
    assert report.n_queries == sum(batch_sizes)
    assert report.n_probes <= 16 * len(X)


def test_the_query_budget_is_respected():
    report = quick(leak_free, X, n_probes=100)
    assert report.n_probes <= 100
    assert report.n_uniform == 50
    assert report.detectable_rate == pytest.approx(1 - 0.05 ** (1 / 50))


def test_time_limit():
    report = quick(leak_free, X, max_seconds=1e-9)
    assert report.n_probes == 0
    assert any("time" in caution for caution in report.cautions)


def test_time_limit_of_a_stochastic_selector():
    report = quick(lambda X, rng: rng.random(X.shape) < 0.5, X, max_seconds=1e-9)
    assert report.verdict == "no leak found"
    assert report.p_value is None
    assert any("time" in caution for caution in report.cautions)


def test_large_data_are_subsampled():
    report = quick(leaky, X, max_rows=100)
    assert report.n_rows == 100
    np.testing.assert_array_equal(X[report.witness.row], report.witness.x)
    assert any("random subset" in caution for caution in report.cautions)


# Support -------------------------------------------------------------------------------------


def leaks_on_product_support(X):
    """Depends on the hidden x1, which equals the revealed x0 in the data."""
    masks = np.zeros(X.shape, dtype=bool)
    masks[:, 0] = True
    masks[:, 2] = X[:, 1] > 0
    return masks


@pytest.fixture
def duplicated():
    first = RNG.integers(-1, 2, size=600)
    return np.stack([first, first, RNG.integers(3, size=600), RNG.integers(3, size=600)], axis=1)


def test_no_leak_on_the_empirical_support(duplicated):
    report = quick(leaks_on_product_support, duplicated, support="empirical")
    assert report.verdict == "no leak found"
    assert report.exact
    assert report.support == "empirical"


def test_leak_on_the_product_support(duplicated):
    report = quick(leaks_on_product_support, duplicated, support="product")
    assert report.leaks
    assert report.witness.support == "product"
    assert report.witness.row_other is None


def test_observed_rows_are_compared_first(duplicated):
    report = quick(lambda X: np.stack([X[:, 2] > 0] + [X[:, 0] > 9] * 3, axis=1), duplicated)
    assert report.leaks
    wide = np.concatenate([X[:, :1], duplicated[: len(X)].repeat(2, axis=0)[: len(X)]], axis=1)
    report = quick(lambda X: np.stack([X[:, 3] > 9] * 4 + [X[:, 3] > 0], axis=1), wide)
    assert report.witness.support == "empirical"
    assert report.witness.row_other is not None
    np.testing.assert_array_equal(report.witness.x_other, wide[report.witness.row_other])


def test_a_leak_of_unobserved_rows_is_conditional():
    report = quick(leaky, X)
    assert report.verdict == "leaks if columns vary independently"
    assert not report.leaks
    assert report.leaks_if_independent
    assert report.evidence == "combined rows"
    assert report.assumed_independent == ["x5"]
    assert "`x5` can take the values of x'" in report.assumptions[0]
    text = report.summary()
    assert "INDEPENDENTLY (`x5`)" in text
    assert "Proof" not in text
    proven = quick(leaky, X, support="product")
    assert proven.leaks
    assert not proven.leaks_if_independent
    assert proven.evidence == "proof"
    assert proven.assumed_independent == proven.assumptions == []


def test_a_leak_of_observed_rows_needs_no_assumption():
    discrete = RNG.integers(2, size=(400, 14))

    def by_hidden_bit(X):
        masks = np.zeros(X.shape, dtype=bool)
        masks[:, 0] = True
        masks[:, 1] = X[:, 5] > 0
        return masks

    report = quick(by_hidden_bit, discrete)
    assert report.leaks
    assert report.evidence == "proof"
    assert report.support == report.witness.support == "empirical"
    assert None not in (report.witness.row, report.witness.row_other)


def test_training_rows_can_prove_a_conditional_leak():
    discrete = RNG.integers(2, size=(400, 9)).astype(float)

    def by_hidden_bit(X):
        masks = np.zeros(X.shape, dtype=bool)
        masks[:, 0] = True
        masks[:, 1] = X[:, 5] > 0.5
        return masks

    continuous = discrete + RNG.normal(size=discrete.shape)
    report = quick(by_hidden_bit, continuous, n_probes=600)
    assert report.leaks_if_independent
    report = quick(by_hidden_bit, continuous, n_probes=600, training_rows=discrete)
    assert report.leaks
    assert report.witness.support == "empirical"


class Shifted:
    """Reveals x0 with a probability that depends on the hidden x5."""

    def probability(self, X):
        return 0.4 + 0.2 * (np.asarray(X)[:, 5] > 0)

    def select(self, X, random_state=None):
        masks = np.zeros(X.shape, dtype=bool)
        masks[:, 0] = np.random.default_rng(random_state).random(len(X)) < self.probability(X)
        return masks


class Stated(Shifted):
    """The same with stated probabilities."""

    def mask_probability(self, X, masks):
        p = self.probability(X)
        p = p[:, None] if masks.ndim == 3 else p
        return np.where(masks[..., 0], p, 1 - p) * ~masks[..., 1:].any(axis=-1)


@pytest.mark.parametrize(("selector", "evidence"), [(Shifted(), "test"), (Stated(), "proof")])
def test_stochastic_leaks_of_observed_rows_need_no_assumption(selector, evidence):
    report = quick(selector, RNG.integers(2, size=(400, 14)), n_draws=40_000)
    assert report.leaks
    assert report.evidence == evidence
    assert report.witness.support == "empirical"
    continuous = RNG.normal(size=(400, 14))
    continuous[:, 0] = RNG.integers(2, size=400)
    continuous = continuous + np.eye(14)[0] * 1e-9 * RNG.normal(size=(400, 1))

    class AlsoRevealsX1(type(selector)):
        def select(self, X, random_state=None):
            masks = super().select(X, random_state)
            masks[:, 1] = True
            return masks

        def mask_probability(self, X, masks):
            shown = masks[..., 1]
            masks = masks & (np.arange(masks.shape[-1]) != 1)
            return super().mask_probability(X, masks) * shown

    if evidence == "test":
        del AlsoRevealsX1.mask_probability
    report = quick(AlsoRevealsX1(), continuous, n_draws=40_000)
    assert report.leaks_if_independent
    assert report.evidence == ("test" if evidence == "test" else "combined rows")
    assert quick(AlsoRevealsX1(), continuous, n_draws=40_000, support="product").leaks


def test_the_paper_s_one_hot_policy():
    codes = np.eye(3)[RNG.integers(3, size=300)]
    report = quick(lambda X: X > 0, codes)
    assert report.verdict == "no leak found"
    assert report.exact
    few = quick(lambda X: X > 0, np.eye(3))
    assert not few.leaks  # three rows do not show that others are impossible
    assert "Proof" not in few.summary()


def test_unobserved_combinations_of_few_values_are_conditional(duplicated):
    few = duplicated[:30, :2]
    few[:2] = [[0, 1], [1, 0]]  # the columns are no copies

    def select(X):
        masks = np.zeros(X.shape, dtype=bool)
        masks[:, 0] = (X == [[-1, 1]]).all(axis=1)
        return masks

    assert not ((few == [[-1, 1]]).all(axis=1)).any()
    report = quick(select, few)
    assert report.verdict == "leaks if columns vary independently"
    assert report.exact
    assert report.exact_bits == {}
    assert "All combinations of observed values were queried." in report.summary()
    assert "bits" not in report.summary()
    assert quick(select, few, support="empirical").verdict == "no leak found"


def test_caution_if_few_rows_can_be_compared():
    report = quick(leak_free, X, support="empirical")
    assert report.verdict == "no leak found"
    assert not report.exact
    assert any("little power" in caution for caution in report.cautions)


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


def test_groups_are_resampled_together():
    kind = RNG.integers(3, size=500)
    X = np.column_stack([RNG.normal(size=500), np.eye(3)[kind], RNG.normal(size=500)])

    def selector(X):
        assert (X[:, 1:4].sum(axis=1) == 1).all()  # a valid one-hot code
        masks = np.zeros(X.shape, dtype=bool)
        masks[:, 4] = X[:, 2] == 1
        return masks

    names = ["age", "ward_a", "ward_b", "ward_c", "lab"]
    report = quick(
        selector, X, feature_names=names, groups={"ward": ["ward_a", "ward_b", "ward_c"]}
    )
    assert report.leaks
    assert list(report.influence) == ["ward"]


def test_masks_over_groups():
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
    report = quick(lambda X: np.repeat(fixed[None], len(X), axis=0), images, n_probes=3000)
    assert report.verdict == "no leak found"


# Behaviour -----------------------------------------------------------------------------------


def test_claims_of_leak_freeness_are_tested():
    walker = TreeWalker(3, 10, 0)
    assert quick(walker, X).verdict == "leak-free by construction"

    class FalseClaim:
        leak_free_by_construction = True
        select = staticmethod(leaky)

    report = quick(FalseClaim(), X)
    assert report.verdict == "leaks if columns vary independently"
    assert any("refute" in caution for caution in report.cautions)
    report = quick(FalseClaim(), X, support="product")
    assert report.verdict == "leaks"
    assert any("refute" in caution for caution in report.cautions)


def test_batch_dependence_is_a_caution_but_no_leak():
    def standardised(X):
        masks = leak_free(X)
        masks[:, 1] = X[:, 0].mean() < X[:, 0]  # depends on the other rows, but on revealed values
        return masks

    report = quick(standardised, X[:150], n_probes=300)
    assert any("depend on the batch" in caution for caution in report.cautions)
    assert report.verdict == "no leak found"


def test_training_rows_are_queried_if_they_are_given():
    known = {row.tobytes() for row in X[:200]}

    def recognises(rows):
        masks = leak_free(rows)
        masks[:, 2] = [row.tobytes() in known and row[5] > 0 for row in rows]
        return masks

    unseen = X[200:400]
    options = {"n_probes": 600, "support": "product"}
    report = quick(recognises, unseen, **options)
    assert not report.leaks
    assert any("training_rows" in text for text in report.assumptions)
    assert "training_rows" in report.summary()
    report = quick(recognises, unseen, training_rows=X[:200], **options)
    assert report.leaks
    assert report.assumptions == []
    assert "found on the training rows" in report.summary()
    np.testing.assert_array_equal(report.witness.x, X[report.witness.row])
    report = quick(leak_free, unseen, training_rows=X[:200], **options)
    assert not report.leaks
    assert report.n_training_rows == 200
    assert not any("training_rows" in text for text in report.assumptions)


def test_groups_that_the_selector_declares_are_verified():
    class OneGroup:
        groups = (tuple(range(10)),)

        def select(self, X, rng):
            masks = np.zeros(X.shape, dtype=bool)
            masks[:, 0] = True
            masks[:, 1] = rng.random(len(X)) < 0.5 + 0.2 * np.sign(X[:, 5])
            return masks

    report = quick(OneGroup(), X, n_draws=20_000, support="product")
    assert report.leaks
    assert any("groups of the selector were not used" in caution for caution in report.cautions)


def test_numerical_noise_from_the_batch_size_is_no_leak():
    def noisy(X):
        # Like a network whose rounding errors depend on the batch size.
        tie = np.zeros(len(X), dtype=bool) if len(X) % 2 else X[:, 0] > 2.3
        masks = leak_free(X)
        masks[:, 2] = tie
        return masks

    report = quick(noisy, X, n_draws=4000)
    assert report.verdict == "no leak found"


def test_rare_random_masks_are_no_leak():
    rng = np.random.default_rng(1)

    def nearly_deterministic(X):
        masks = leak_free(X)
        masks[:, 2] = rng.random(len(X)) < 2e-4
        return masks

    for seed in range(5):
        report = quick(nearly_deterministic, X, random_state=seed, n_draws=20_000)
        assert report.verdict == "no leak found"


def test_stated_probabilities_are_compared_with_samples():
    class Misstated:
        def select(self, X, random_state=None):
            masks = np.zeros(X.shape, dtype=bool)
            masks[:, 0] = np.random.default_rng(random_state).random(len(X)) < 0.2 + 0.6 * (
                X[:, 1] >= 0
            )
            return masks

        def mask_probability(self, X, masks):
            return 0.5 * np.broadcast_to(~masks[..., 1:].any(axis=-1), (len(X), *masks.shape[1:-1]))

    discrete = RNG.integers(-1, 1, size=(300, 3))  # few enough rows for an exact verdict
    for data, support in ((X, "product"), (discrete, "auto")):
        report = quick(Misstated(), data, support=support)
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
    report = quick(
        lambda X, rng: rng.random(X.shape) < 0.1, data, support="empirical", n_draws=40_000
    )
    assert not report.leaks


@settings(max_examples=15)
@given(st.integers(0, 10**6))
def test_sequential_policies_do_not_leak(seed):
    report = quick(TreeWalker(4, 10, seed), X[:150], n_probes=600, random_state=seed)
    assert report.verdict == "leak-free by construction"


@settings(max_examples=15)
@given(st.integers(0, 10**6))
def test_witnesses_are_valid(seed):
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(10, 10))

    def selector(X):
        return np.stack([x @ weights > 1 for x in X])

    report = quick(selector, X[:150], n_probes=600, random_state=seed, support="product")
    assert report.leaks
    w = report.witness
    first, second = selector(w.rows)
    assert (w.x[first] == w.x_other[first]).all()
    assert (first != second).any()


# Invalid input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"support": "other"}, "'support' parameter of audit must be one of"),
        ({"false_alarm_rate": 0.0}, "'false_alarm_rate' parameter of audit must be a float"),
        ({"confidence": 95}, "'confidence' parameter"),
        (
            {"n_probes": 0},
            r"'n_probes' parameter of audit must be None or an int in the range \[1, inf\)",
        ),
        ({"n_draws": 10}, r"'n_draws' parameter of audit must be an int in the range \[500, inf\)"),
        (
            {"max_seconds": 0},
            r"'max_seconds' parameter of audit must be None or a float in the range \(0, inf\)",
        ),
        ({"confidence": "high"}, "'confidence' parameter of audit must be a float"),
        ({"max_rows": 1.5}, "'max_rows' parameter"),
        ({"y": [1, 2]}, "one label per row"),
        ({"feature_names": ["a"]}, "one name per column"),
        ({"groups": {"g": ["nope"]}}, "must name columns of X"),
    ],
)
def test_invalid_parameters(options, message):
    with pytest.raises(ValueError, match=message):
        audit(leak_free, X, **options)


def test_one_dimensional_data():
    with pytest.raises(TableError, match="Expected 2D array"):
        audit(leak_free, X[0])


def test_unfitted_estimators():
    class Unfitted(BaseEstimator):
        def fit(self, X, y=None):
            return self

        def select(self, X):
            return X > 0

    with pytest.raises(NotFittedError):
        audit(Unfitted(), X)


def test_groups_of_the_selector_are_used():
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


def test_import_loads_neither_torch_nor_matplotlib():
    code = "import sys, suwr.auditing; print({'torch', 'matplotlib'} & set(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "set()"
