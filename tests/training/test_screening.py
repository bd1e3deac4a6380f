"""Screening of the units of wide tables."""

import numpy as np
import pytest

from suwr import SUWRClassifier, SUWRRegressor, load
from suwr.training.registry import MAX_ACTOR_UNITS
from suwr.training.screening import MIN_KEPT, MIN_UNITS, relevant_units, unit_scores


def wide_table(n=600, d=40, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, rng


def single_columns(d):
    return np.eye(d, dtype=bool)


def test_main_effects_are_kept():
    X, rng = wide_table()
    y = (X[:, 5] - X[:, 17] + 0.3 * rng.normal(size=len(X)) > 0).astype(int)
    kept = relevant_units(unit_scores(X, y, single_columns(40)))
    assert kept[[5, 17]].all()
    assert kept.sum() <= MIN_KEPT + 5


def test_a_pair_without_main_effects_is_kept():
    X, rng = wide_table(n=2_000, d=200)
    y = (X[:, 3] * X[:, 150] + 0.3 * rng.normal(size=len(X)) > 0).astype(int)
    kept = relevant_units(unit_scores(X, y, single_columns(200)))
    assert kept[[3, 150]].all()
    assert kept.sum() == MIN_KEPT


def test_the_limit_keeps_the_units_with_the_strongest_evidence():
    scores = np.random.default_rng(0).permutation(np.linspace(0.0, 0.9, 60))
    kept = relevant_units(scores, limit=20)
    assert sorted(scores[kept]) == sorted(scores)[:20]
    assert np.array_equal(relevant_units(scores, limit=60), relevant_units(scores))


def test_units_with_equal_evidence_are_taken_from_the_whole_table():
    kept = relevant_units(np.zeros(600), limit=60)
    assert kept.sum() == 60
    assert [part.sum() for part in np.split(kept, 6)] == pytest.approx([10] * 6, abs=2)


@pytest.mark.parametrize(
    ("many_rows", "trainer"),
    [pytest.param(5_000, "actor", marks=pytest.mark.slow), (100, "lookahead")],
)
def test_few_rows_are_trained_on_a_limited_number_of_relevant_units(
    monkeypatch, many_rows, trainer
):
    monkeypatch.setattr("suwr.training.registry.MANY_ROWS", many_rows)
    limit = MAX_ACTOR_UNITS["columns"]
    rng = np.random.default_rng(0)
    factor = rng.normal(size=(120, 1))
    X = factor + 0.3 * rng.normal(size=(120, limit + 20))
    y = (factor[:, 0] > 0).astype(int)
    model = SUWRClassifier(
        max_epochs=1, training={"hidden_size": 4}, max_steps=2, teacher=None, random_state=0
    ).fit(X, y)
    assert model.choices_["trainer"].startswith(trainer)
    expected = limit if trainer == "actor" else X.shape[1]
    assert model.selectable_units_.sum() == expected
    poisoned = np.where(model.selectable_units_, X, 1e30)
    assert np.array_equal(model.select(X), model.select(poisoned))
    assert np.array_equal(model.predict_proba(X), model.predict_proba(poisoned))


@pytest.fixture(scope="module")
def screened():
    X, rng = wide_table(n=300, d=MIN_UNITS + 14)
    y = (X[:, 2] + X[:, 9] + 0.3 * rng.normal(size=len(X)) > 0).astype(int)
    model = SUWRClassifier(max_epochs=3, training={"hidden_size": 16}, teacher=None, random_state=0)
    return model.fit(X, y), X, y


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
        max_epochs=2,
        training={"hidden_size": 8},
        sparsity_weight=(0.01, 0.5),
        teacher=None,
        random_state=0,
    ).fit(X, y)
    assert model.selectable_units_[1]
    assert not model.selectable_units_.all()
    for weight in (0.01, 0.5):
        assert not model.select(X, sparsity_weight=weight)[:, ~model.selectable_units_].any()


def test_narrow_tables_are_not_screened():
    X, _ = wide_table(n=60, d=MIN_UNITS)
    model = SUWRClassifier(max_epochs=1, training={"hidden_size": 8}, teacher=None, random_state=0)
    model.fit(X, X[:, 0] > 0)
    assert model.selectable_units_.all()
    assert "screening" not in model.choices_
