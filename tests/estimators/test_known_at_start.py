"""Models that are trained to know columns at the start of every row."""

import warnings
from itertools import product

import numpy as np
import pytest
import torch
from sklearn.base import clone

import suwr
from suwr import SUWRClassifier, SUWRRegressor, verify
from suwr.estimators.verify import poison_check
from suwr.exceptions import StartWarning, UnsupportedModelError

SMALL = {"max_epochs": 3, "training": {"hidden_size": 16, "n_predictors": 2}, "random_state": 0}
CUBE = np.array(list(product([0.0, 1.0], repeat=4)))
pytestmark = pytest.mark.filterwarnings("ignore::suwr.exceptions.UninformativeModelWarning")


@pytest.fixture(scope="module")
def model():
    """y = x0 + x1, where x0 is known, and x2 in half of the rows."""
    X = np.repeat(CUBE, 10, axis=0)
    chance = {"x0": 1.0, "x2": 0.5}
    model = SUWRRegressor(known_at_start=chance, **SMALL)
    return model.fit(X, X[:, 0] + X[:, 1])


def test_columns_that_are_always_known_are_revealed_at_no_cost(model):
    masks, costs = model.select(CUBE), model.cost(CUBE)
    assert masks[:, 0].all()
    np.testing.assert_array_equal(costs, masks[:, 1:].sum(axis=1))
    narrative = model.explain(CUBE)[9]
    assert narrative.given.known == {"x0": 1}
    assert "x0" not in {unit for step in narrative.steps for unit in step.units}
    assert verify(narrative.receipt(), model)
    assert poison_check(model, CUBE, random_state=0).passed
    # An explicit start replaces the usual one.
    with pytest.warns(StartWarning):
        assert not model.select(CUBE, known=[], exactly=0).any()


def test_the_policy_does_not_ask_for_what_is_known():
    X = np.repeat(CUBE, 10, axis=0)
    settings = {**SMALL, "max_epochs": 10, "sparsity_weight": 0.1}
    known = SUWRClassifier(known_at_start=["x0"], **settings).fit(X, X[:, 0])
    assert (known.predict(CUBE) == CUBE[:, 0]).all()
    assert known.cost(CUBE).max() == 0


def test_starts_that_training_has_visited_give_no_warning(model):
    for known in (["x0"], ["x0", "x2"]):
        assert model.start_distance(CUBE, known).max() == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(CUBE, known=["x0", "x2"])
        model.acquire(known={"x0": 1, "x2": 0})
    assert model.start_distance(CUBE, ["x2"]).tolist() == [1] * 16
    assert model.start_distance(CUBE, []).tolist() == [1] * 16


def test_sessions_need_the_values_that_are_always_known(model):
    with pytest.raises(ValueError, match=r"must have the values of \['x0'\]"):
        model.acquire()
    for row in CUBE:
        session = model.acquire(known={"x0": row[0]})
        while not session.done:
            session.observe({c: row[int(c[1])] for c in session.next_columns})
        expected = model.explain(row[None])[0]
        assert session.narrative(0) == expected


def test_mask_probabilities_start_from_the_known_columns(model):
    masks = CUBE.astype(bool)
    for policy in ("greedy", "sampled"):
        table = model.mask_probability(CUBE, masks[None], policy=policy)
        np.testing.assert_allclose(table.sum(axis=1), 1, atol=1e-6)
        assert (table[:, ~masks[:, 0]] == 0).all()


@pytest.mark.filterwarnings("ignore::suwr.exceptions.CertificationWarning")
def test_files_pages_and_certificates(model, tmp_path):
    model.save(tmp_path / "m.suwr")
    loaded = suwr.load(tmp_path / "m.suwr")
    assert loaded.known_at_start == {"x0": 1.0, "x2": 0.5}
    np.testing.assert_array_equal(loaded.predict(CUBE), model.predict(CUBE))
    model.explain(CUBE).to_html(tmp_path / "page.html", model=True)
    for start in ({"known": ["x0", "x2"]}, {"max_cost": 1}):
        explanation = model.explain(CUBE[:1], **start)
        with pytest.raises(UnsupportedModelError, match="start from nothing, or from the columns"):
            explanation.to_html(tmp_path / "page.html", model=True)
    certified = model.certify(np.repeat(CUBE, 20, axis=0), level=0.5, tolerance=0.5)
    assert certified.select(CUBE)[:, 0].all()
    for row in CUBE:
        session = certified.acquire(known={"x0": row[0]})
        while not session.done:
            session.observe({c: row[int(c[1])] for c in session.next_columns})
        assert session.narrative(0) == certified.explain(row[None])[0]
    with pytest.raises(ValueError, match="certified for one policy on whole rows"):
        certified.acquire(known={"x0": 0.0, "x2": 1.0})


@pytest.mark.parametrize("trainer", ["lookahead", "reinforce"])
def test_every_trainer_starts_from_the_known_columns(trainer):
    X = np.repeat(CUBE, 4, axis=0)
    settings = {**SMALL, "max_epochs": 1, "training": {"hidden_size": 8, "n_predictors": 2}}
    model = SUWRClassifier(known_at_start=["x1"], trainer=trainer, **settings).fit(X, X[:, 1])
    assert model.select(CUBE)[:, 1].all()
    assert poison_check(model, CUBE, random_state=0).passed


def test_known_columns_are_drawn_with_their_probability(model):
    drawn = model.policy_.inputs.first_masks((4000,), torch.Generator().manual_seed(0))
    np.testing.assert_allclose(drawn.double().mean(dim=0), [1, 0, 0.5, 0], atol=0.03)


def test_masks_to_draw_from(tmp_path):
    masks = np.array([[True, True, True, False], [True, False, False, False]])
    X = np.repeat(CUBE, 4, axis=0)
    settings = {**SMALL, "max_epochs": 1, "training": {"hidden_size": 8, "n_predictors": 2}}
    model = SUWRClassifier(known_at_start=masks, **settings).fit(X, X[:, 1])
    drawn = model.policy_.inputs.first_masks((3000,), torch.Generator().manual_seed(0))
    found, counts = np.unique(drawn.numpy(), axis=0, return_counts=True)
    np.testing.assert_array_equal(found, masks[::-1])
    assert abs(counts[0] / 3000 - 0.5) < 0.05
    assert model.select(CUBE)[:, 0].all()
    model.save(tmp_path / "m.suwr")
    loaded = suwr.load(tmp_path / "m.suwr")
    np.testing.assert_array_equal(loaded.policy_.inputs.known_masks, masks)
    np.testing.assert_array_equal(loaded.select(CUBE), model.select(CUBE))
    with pytest.raises(ValueError, match=r"masks of shape \(n_masks, 4\). Got 'shape \(2, 3\)'"):
        SUWRClassifier(known_at_start=masks[:, :3], **settings).fit(X, X[:, 1])


@pytest.mark.parametrize("value", ["x0", ["x9"], {"x0": 2}, {"x0": "often"}, 3, [1]])
def test_invalid_parameters(value):
    with pytest.raises(ValueError, match="'known_at_start' parameter of SUWRClassifier must be"):
        SUWRClassifier(known_at_start=value, **SMALL).fit(CUBE, CUBE[:, 0])


def test_clone(model):
    assert clone(model).known_at_start == model.known_at_start
