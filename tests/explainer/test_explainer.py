"""`SUWRExplainer` from the model to the narrative."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils.estimator_checks import parametrize_with_checks

import suwr
from helpers.tables import OBJECTS, mixed_table, poisoned_cells
from suwr import SUWRClassifier, SUWRExplainer, SUWRRegressor
from suwr.estimators.verify import POISONS, poison_check, poisoned
from suwr.exceptions import (
    ModelOutputError,
    StochasticModelWarning,
    TableError,
    UninformativeModelWarning,
)
from suwr.narrative.explanation import Explanation, ModelNarrative

SMALL = {"max_epochs": 3, "training": {"hidden_size": 8}, "queries_per_row": 3, "random_state": 0}


class FirstColumn(BaseEstimator):
    """A model of tables of any shape."""

    def predict(self, X):
        return np.nan_to_num(np.asarray(X, dtype=float)[:, 0])


BRIEF = {"max_epochs": 1, "queries_per_row": 1, "training": {"hidden_size": 8}}


class Recorded:
    """Counts the rows of every call of a model."""

    def __init__(self, model):
        self.model, self.calls, self.classes_ = model, [], model.classes_

    def predict_proba(self, X):
        self.calls.append(len(X))
        return self.model.predict_proba(X)


@pytest.fixture(scope="module")
def mixed():
    X, y = mixed_table()
    coded = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["code", "city"]),
        ("passthrough", ["age", "member", "size"]),
    )
    model = make_pipeline(coded, LogisticRegression(max_iter=500)).fit(X, y)
    return X, Recorded(model)


@pytest.fixture(scope="module")
def explainer(mixed):
    X, model = mixed
    # Three steps, so that every row has hidden cells.
    options = SMALL | {"max_epochs": 8, "query_size": 100}
    return SUWRExplainer(model, max_steps=3, **options).fit(X)


@pytest.mark.parametrize(
    ("n_classes", "given", "expected"),
    [(2, "auto", 0.01 * np.log(2)), (3, "auto", 0.01 * np.log(2)), (3, 0.02, 0.02)],
)
def test_default_weight_does_not_grow_with_the_number_of_classes(n_classes, given, expected):
    X = np.random.RandomState(0).randn(60, 2)
    outputs = np.eye(n_classes)[np.arange(60) % n_classes]
    options = SMALL | {"max_epochs": 1, "queries_per_row": 1}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UninformativeModelWarning)
        found = SUWRExplainer(
            lambda rows: outputs[: len(rows)],
            output="probability",
            sparsity_weight=given,
            **options,
        ).fit(X)
    assert found.estimator_.sparsity_weight == expected


def test_steps_of_a_model_are_followed():
    """Outputs with many steps, as those of trees, which a smooth function cannot follow."""
    X = np.random.RandomState(0).rand(400, 2)

    def model(rows):
        return np.floor(8 * rows[:, 0]) % 2 * 0.8 + 0.1

    options = {"queries_per_row": 5, "max_epochs": 10, "random_state": 0}
    agreement = [
        SUWRExplainer(model, output="probability", training=training, **options)
        .fit(X)
        .fidelity(np.random.RandomState(1).rand(400, 2))
        .agreement
        for training in ({"hidden_size": 32}, {"hidden_size": 32, "n_bins": 0})
    ]
    assert agreement[0] > 0.9 > agreement[1] + 0.1


def test_queries_are_batched_and_bounded(explainer, mixed):
    X, model = mixed
    in_fit = model.calls[: explainer.n_calls_]
    assert sum(in_fit) == explainer.n_queries_ <= 3 * len(X)
    assert max(in_fit) <= 100
    assert len(explainer.queries_) == len(explainer.outputs_) > 2 * len(X)
    assert explainer.outputs_ == pytest.approx(model.model.predict_proba(explainer.queries_))


def test_narratives_end_with_the_output_of_the_model(explainer, mixed):
    X, model = mixed
    explanation = explainer.explain(X[:5])
    assert isinstance(explanation, Explanation)
    for narrative, p in zip(explanation, model.model.predict_proba(X[:5]), strict=True):
        place = int(p.argmax())
        assert narrative.model_output == pytest.approx(tuple(p))
        last = narrative.text().splitlines()[-1]
        assert last.startswith(f"The model says {model.classes_[place]} ")
        assert "; from these features alone: " in last
        assert narrative.comparison in narrative._repr_html_()
        assert narrative.agrees == (narrative.label == model.classes_[place])
    assert "The model says" in explanation._repr_html_()
    restored = Explanation.from_json(explanation.to_json())
    assert restored == explanation
    assert restored.text() == explanation.text()
    unqueried = explainer.explain(X[:5], query=False)
    assert Explanation.from_json(unqueried.to_json()) == unqueried


def test_percentages_of_the_comparison():
    narrative = suwr.Narrative(0, (0.19, 0.81), 0.9, (), "decision", ("deny", "grant"), 4)
    found = ModelNarrative.of(narrative, (0.17, 0.83))
    expected = "The model says grant 83 %; from these features alone: grant 81 %."
    assert found.text().endswith(expected)


def test_columns_are_described(mixed):
    X, model = mixed
    columns = {"age": suwr.Column("Age", "years")}
    options = SMALL | {"max_epochs": 20, "query_size": 100, "sparsity_weight": 0.0}
    explainer = SUWRExplainer(model, columns=columns, **options).fit(X)
    text = explainer.explain(X[:5]).text()
    assert "Age is " in text
    assert " years" in text
    with pytest.raises(ValueError, match="'columns' parameter of SUWRClassifier"):
        SUWRExplainer(model, columns={"nothing": {"label": "N"}}, **options).fit(X[:60])


def test_columns_in_another_order(explainer, mixed):
    X, _ = mixed
    assert np.array_equal(explainer.model_output(X[X.columns[::-1]]), explainer.model_output(X))


@pytest.mark.parametrize("loaded", [False, True])
def test_hidden_cells_have_no_influence(explainer, mixed, loaded, tmp_path):
    X = mixed[0][:40]
    if loaded:
        explainer.save(tmp_path / "e.suwr")
        explainer = SUWRExplainer.load(tmp_path / "e.suwr", mixed[1])
    assert poison_check(explainer.estimator_, X, random_state=0).passed
    masks = explainer.select(X)
    assert not masks.all(axis=1).any()
    expected = explainer.explain(X, query=False)
    rng = np.random.RandomState(0)
    tables = [poisoned(X, masks, poison, rng) for poison in POISONS]
    tables.append(pd.DataFrame(poisoned_cells(X, masks, OBJECTS), index=X.index))
    for table in tables:
        assert np.array_equal(explainer.select(table), masks)
        assert explainer.explain(table, query=False) == expected
        assert np.array_equal(explainer.predict(table), explainer.predict(X))
        assert np.array_equal(explainer.cost(table), explainer.cost(X))
    draws = {"policy": "sampled", "random_state": np.arange(40)}
    masks, expected = explainer.select(X, **draws), explainer.explain(X, query=False, **draws)
    for poison in POISONS:
        table = poisoned(X, masks, poison, rng)
        assert np.array_equal(explainer.select(table, **draws), masks)
        assert explainer.explain(table, query=False, **draws) == expected


def test_rows_alone_and_together(explainer, mixed):
    X = mixed[0][:20]
    alone = np.concatenate([explainer.select(X[i : i + 1]) for i in range(len(X))])
    assert np.array_equal(alone, explainer.select(X))


def test_audit_finds_no_leak(explainer, mixed):
    X, _ = mixed
    report = suwr.audit(explainer, X[:100], random_state=0)
    assert report.verdict == "leak-free by construction"


def test_values_of_a_callable():
    X = np.random.default_rng(0).normal(size=(60, 3))
    explainer = SUWRExplainer(lambda Z: 2 * Z[:, 0], **SMALL).fit(X)
    assert isinstance(explainer.estimator_, SUWRRegressor)
    last = explainer.explain(X[:1])[0].text().splitlines()[-1]
    assert last.startswith(f"The model says {2 * X[0, 0]:.4g}; from these features alone: ")
    session = explainer.acquire()
    assert session.done or session.next_unit in ("x0", "x1", "x2")


def test_fit_is_reproducible():
    X = np.random.default_rng(0).normal(size=(40, 2))
    model = LinearRegression().fit(X, X[:, 0])
    one, two = (SUWRExplainer(model, **SMALL | {"max_epochs": 1}).fit(X) for _ in range(2))
    assert np.array_equal(one.queries_, two.queries_)
    assert np.array_equal(one.predict(X), two.predict(X))


def test_stochastic_models_get_a_caution():
    X = np.random.default_rng(0).normal(size=(40, 2))
    rng = np.random.default_rng(1)
    explainer = SUWRExplainer(lambda Z: rng.normal(size=len(Z)), **SMALL | {"max_epochs": 1})
    with pytest.warns(StochasticModelWarning, match="repeated queries .* differ"):
        explainer.fit(X)
    assert len(explainer.cautions_) == 1


def test_what_slow_queries_will_cost(monkeypatch, capsys):
    X = np.random.default_rng(0).normal(size=(40, 2))
    clock = iter(np.arange(0, 1e6, 100.0))
    monkeypatch.setattr("suwr.explainer.outputs.time.perf_counter", lambda: next(clock))
    options = SMALL | {"max_epochs": 1, "query_size": 10, "queries_per_row": 2}
    explainer = SUWRExplainer(lambda Z: Z[:, 0], **options)
    # 80 queries, of which 39 time the model: 41 rows in calls of 10 rows and 100 s.
    expected = "Querying the model on 41 rows in 5 calls takes about 8 min"
    with pytest.warns(UserWarning, match=expected):
        explainer.fit(X)
    assert explainer.n_queries_ == 80
    explainer.set_params(verbose=1).fit(X)
    assert "takes about" in capsys.readouterr().err


def test_failing_models_leave_the_explainer_unfitted():
    X = np.random.default_rng(0).normal(size=(30, 2))

    def model(Z):
        return np.where(np.arange(len(Z)) == 20, np.nan, 1.0)

    explainer = SUWRExplainer(model, **SMALL)
    with pytest.raises(ModelOutputError, match="finite"):
        explainer.fit(X)
    assert not hasattr(explainer, "estimator_")


def test_a_refit_replaces_everything_at_once():
    """An interrupt, or a prediction in another thread, sees one fit or the other."""
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 3)), columns=list("abc"))
    assigned = []

    class Watched(SUWRExplainer):
        def __setattr__(self, name, value):
            assigned.append(name)
            super().__setattr__(name, value)

    explainer = Watched(FirstColumn(), **BRIEF).fit(X)
    before = explainer.predict(X)
    with pytest.raises(ModelOutputError, match="failed"):
        explainer.fit(np.full((9, 2), "a"))
    assert (explainer.predict(X) == before).all()
    assigned.clear()
    explainer.fit(X.to_numpy())
    assert assigned == ["__dict__"]
    assert not hasattr(explainer, "feature_names_in_")


def test_number_of_outputs_after_fit():
    X = np.random.default_rng(0).normal(size=(30, 2))
    n_outputs = [2]

    def model(Z):
        p = 1 / (1 + np.exp(-Z[:, 0]))
        rest = [(1 - p) / (n_outputs[0] - 1)] * (n_outputs[0] - 1)
        return np.column_stack([p, *rest])

    explainer = SUWRExplainer(model, **SMALL | {"max_epochs": 1}).fit(X)
    assert isinstance(explainer.estimator_, SUWRClassifier)
    n_outputs[0] = 3
    with pytest.raises(ModelOutputError, match="changed its number of outputs: 2"):
        explainer.explain(X)


@pytest.mark.parametrize(
    ("name", "value"), [("output", "odds"), ("queries_per_row", 0), ("query_size", 0.5)]
)
def test_invalid_parameters(name, value):
    with pytest.raises(ValueError, match=f"'{name}' parameter of SUWRExplainer"):
        SUWRExplainer(lambda Z: Z[:, 0], **{name: value}).fit(np.zeros((3, 1)))


def test_too_few_rows():
    with pytest.raises(TableError, match=r"1 sample\(s\) .* a minimum of 2 is required"):
        SUWRExplainer(lambda Z: Z[:, 0]).fit(np.zeros((1, 2)))


@parametrize_with_checks([SUWRExplainer(FirstColumn(), **BRIEF)])
def test_scikit_learn(estimator, check):
    check(estimator)


def test_a_clone_explains_the_same_fitted_model():
    X = np.random.RandomState(0).randn(40, 3)
    model = LogisticRegression().fit(X, X[:, 0] > 0)
    explainer = SUWRExplainer(model, groups=[[0, 1], [2]], **SMALL)
    again = clone(make_pipeline("passthrough", explainer)).steps[-1][1]
    assert again is not explainer
    assert again.model is model
    assert again.groups == explainer.groups
    assert again.groups is not explainer.groups
    assert again.fit(X).model_output(X) == pytest.approx(model.predict_proba(X))
