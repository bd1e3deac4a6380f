"""Forms of models that know columns at the start, or whose cells may be unrecorded."""

from itertools import product

import numpy as np
import pandas as pd
import pytest

from helpers.models import randomize
from helpers.tables import OBJECTS, poisoned_cells
from suwr import SUWRClassifier
from suwr.deploy import ModelPolicy, make_form, measure_regret, write_form
from suwr.deploy.forms import walk_rows

NAMES = [f"x{i}" for i in range(5)]
CUBE = pd.DataFrame(list(product([False, True], repeat=5)), columns=NAMES)
SMALL = {"max_epochs": 1, "training": {"hidden_size": 8}, "max_steps": 3, "random_state": 0}
pytestmark = pytest.mark.filterwarnings("ignore::suwr.exceptions.UninformativeModelWarning")


def fit_random(X, y, **params):
    model = SUWRClassifier(**SMALL, **params).fit(X, y)

    def differ():
        masks = model.select(CUBE)
        return len(np.unique(masks, axis=0)) > 2 and masks.mean() < 0.8

    return randomize(model, differ)


@pytest.fixture(scope="module")
def started():
    """A model that always knows 'x0' and 'x3', and 'x1' in some rows; 'x3' is in a group."""
    X = pd.concat([CUBE] * 3, ignore_index=True)
    known = {"x0": 1.0, "x1": 0.5, "x3": 1.0}
    model = fit_random(X, X["x0"] ^ X["x1"], known_at_start=known, groups={"g": ["x3", "x4"]})
    return model, CUBE


@pytest.fixture(scope="module")
def unrecorded():
    """A model of cells that may be unrecorded, and all rows with such cells."""
    rng = np.random.RandomState(0)
    X = pd.concat([CUBE] * 4, ignore_index=True)
    y, X = X["x0"] ^ X["x1"], X.astype(object).mask(rng.rand(*X.shape) < 0.2, None)
    return fit_random(X, y, missing="unrecorded"), X[:60]


MODELS = pytest.mark.parametrize("name", ["started", "unrecorded"])


@MODELS
def test_form_is_the_policy_on_a_finite_problem(name, request):
    model, X = request.getfixturevalue(name)
    policy = ModelPolicy(model)
    form = make_form(policy, max_pages=200)
    assert all(page.complete for page in form.pages if page.column is None)
    in_vain = 0
    for walk, narrative in zip(
        walk_rows(form, model, model._read(X)), model.explain(X), strict=True
    ):
        start = list(narrative.given.known) if narrative.given else []
        assert start == list(policy.start)
        asked = [c for step in narrative.steps for c in step.columns if c not in start]
        assert list(walk.columns) == start + asked
        assert all((page.unit is None) == (page.column in start) for page in walk.asked)
        assert walk.units == tuple(u for step in narrative.steps for u in step.units)
        np.testing.assert_allclose(walk.page.prediction, narrative.prediction, atol=1e-7)
        in_vain += any(v is None for step in narrative.steps for v in step.values.values())
    assert (in_vain > 5) == (name == "unrecorded")
    regret = measure_regret(form, model, X, model.predict(X))
    assert regret.disagreement == 0
    assert regret.form_cost == regret.policy_cost
    assert regret.regret == pytest.approx(0, abs=1e-7)


@MODELS
def test_form_reads_only_what_it_asks_for(name, request):
    model, X = request.getfixturevalue(name)
    form = make_form(ModelPolicy(model), max_pages=200)
    expected = walk_rows(form, model, model._read(X))
    mask = np.array([[name in walk.columns for name in X.columns] for walk in expected])
    assert (~mask).sum() > 20
    for seed in range(3):
        poisoned = pd.DataFrame(poisoned_cells(X, mask, OBJECTS, seed), dtype=object)
        assert walk_rows(form, model, model._read(poisoned)) == expected


@pytest.mark.parametrize("format", ["html", "xlsform", "surveyjs", "dot"])
def test_forms_can_be_written(started, format, tmp_path):
    if format == "xlsform":
        pytest.importorskip("openpyxl")
    form = make_form(ModelPolicy(started[0]), max_pages=200)
    write_form(form, tmp_path / "form", format)
    if format == "html":
        text = (tmp_path / "form").read_text()
        assert "<h2>1. x0 (known at the start)</h2>" in text
        n_start = sum(p.unit is None and p.column is not None for p in form.pages)
        assert text.count("Without an answer") == form.n_questions - n_start
