"""Screening of the units of wide tables."""

import numpy as np
import pytest

from suwr import SUWRClassifier, SUWRRegressor, load
from suwr.training.screening import MIN_KEPT, MIN_UNITS, _bins, relevant_units


def wide_table(n=600, d=40, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, rng


def single_columns(d):
    return np.eye(d, dtype=bool)


def test_main_effects_are_kept():
    X, rng = wide_table()
    y = (X[:, 5] - X[:, 17] + 0.3 * rng.normal(size=len(X)) > 0).astype(int)
    kept = relevant_units(X, y, single_columns(40))
    assert kept[[5, 17]].all()
    assert kept.sum() <= MIN_KEPT + 5


def test_columns_that_are_mostly_zero_are_kept():
    X, rng = wide_table()
    # Zero in nine of ten rows; otherwise positive values, of which only the size matters in 17.
    X = np.where(rng.random(X.shape) < 0.9, 0.0, np.exp(X))
    y = ((X[:, 5] > 0) | (X[:, 17] > 1)).astype(int)
    kept = relevant_units(X, y, single_columns(40))
    assert kept[[5, 17]].all()
    assert kept.sum() <= MIN_KEPT + 5
    # A frequent value in the middle has a bin of its own, too.
    bins = _bins(np.array([-2.0, -1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 2.0]))
    assert len(set(bins[2:6])) == 1
    assert bins[2] not in (bins[0], bins[7])
    assert bins[0] != bins[7]


def test_a_pair_without_main_effects_is_kept():
    X, rng = wide_table(n=2_000, d=200)
    y = (X[:, 3] * X[:, 150] + 0.3 * rng.normal(size=len(X)) > 0).astype(int)
    kept = relevant_units(X, y, single_columns(200))
    assert kept[[3, 150]].all()
    assert kept.sum() == MIN_KEPT


def test_pair_statistics_match_explicit_likelihood_ratio_tests():
    from scipy.stats import chi2

    from suwr.training.screening import _pair_p_values

    rng = np.random.default_rng(1)
    bins = rng.integers(0, 3, size=(500, 2))
    y = (bins[:, 0] == bins[:, 1]).astype(int) ^ (rng.random(500) < 0.3)
    one_hot = np.concatenate([np.eye(3)[bins[:, 0]], np.eye(3)[bins[:, 1]]], axis=1)

    def log_likelihood(cells):
        total = 0.0
        for cell in np.unique(cells):
            counts = np.bincount(y[cells == cell], minlength=2)
            counts = counts[counts > 0]
            total += (counts * np.log(counts / counts.sum())).sum()
        return total

    joint = log_likelihood(3 * bins[:, 0] + bins[:, 1])
    alone = [log_likelihood(bins[:, j]) for j in (0, 1)]
    statistic = 2 * (joint - sum(alone) + log_likelihood(np.zeros(500)))
    found = _pair_p_values(
        one_hot.astype(np.float32), y.astype(np.intp), np.array([0, 3, 6]), np.array([3, 3]), 2
    )
    assert found[0, 1] == pytest.approx(chi2.sf(statistic, 4), rel=1e-4)


@pytest.fixture(scope="module")
def screened():
    X, rng = wide_table(n=300, d=MIN_UNITS + 14)
    y = (X[:, 2] + X[:, 9] + 0.3 * rng.normal(size=len(X)) > 0).astype(int)
    return SUWRClassifier(max_epochs=3, hidden_size=16, random_state=0).fit(X, y), X, y


def test_units_that_are_left_out_are_never_selected_or_read(screened):
    model, X, _ = screened
    out = ~model.selectable_units_
    assert 0 < out.sum() < len(out)
    assert model.selectable_units_[[2, 9]].all()
    assert not model.select(X)[:, out].any()
    assert model.max_steps_ <= model.selectable_units_.sum()
    everything = np.ones((1, X.shape[1]), dtype=bool)
    poisoned = X.copy()
    poisoned[:, out] = 1e30
    assert np.array_equal(
        model.predict_masked(X, everything), model.predict_masked(poisoned, everything)
    )
    assert "screening" in model.choices_


def test_probabilities_of_masks_sum_to_one(screened):
    model, X, _ = screened

    draws = np.stack([model.select(X[:1], policy="sampled", random_state=s)[0] for s in range(30)])
    masks = np.unique(draws, axis=0)
    total = model.mask_probability(X[:1], masks[None], policy="sampled").sum()
    assert 0.0 < total <= 1.0 + 1e-6
    with_excluded = masks[0] | ~model.selectable_units_
    assert model.mask_probability(X[:1], with_excluded[None, None], policy="sampled") == 0.0


def test_a_screened_model_survives_its_file(screened, tmp_path):
    model, X, _ = screened
    model.save(tmp_path / "m.suwr")
    loaded = load(tmp_path / "m.suwr")
    assert np.array_equal(loaded.selectable_units_, model.selectable_units_)
    assert np.array_equal(loaded.select(X), model.select(X))
    assert np.array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert loaded.choices_ == model.choices_
    assert loaded.validation_ == model.validation_


def test_a_range_of_sparsity_weights_and_regression_are_screened():
    X, rng = wide_table(n=200, d=20)
    y = 2 * X[:, 1] + 0.1 * rng.normal(size=len(X))
    model = SUWRRegressor(
        max_epochs=2, hidden_size=8, sparsity_weight=(0.01, 0.5), random_state=0
    ).fit(X, y)
    assert model.selectable_units_[1]
    assert not model.selectable_units_.all()
    for weight in (0.01, 0.5):
        assert not model.select(X, sparsity_weight=weight)[:, ~model.selectable_units_].any()


def test_narrow_tables_are_not_screened():
    X, _ = wide_table(n=60, d=MIN_UNITS)
    model = SUWRClassifier(max_epochs=1, hidden_size=8, random_state=0).fit(X, X[:, 0] > 0)
    assert model.selectable_units_.all()
    assert "screening" not in model.choices_
