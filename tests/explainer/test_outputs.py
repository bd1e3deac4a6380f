"""Queries of models of every kind."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from suwr.exceptions import ModelOutputError
from suwr.explainer.outputs import ModelOutputs, QueryCost

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 2))
Y = np.array(["no", "yes"])[(X[:, 0] > 0).astype(int)]


def query(model, rows=X, output="auto", classes=None, **options):
    outputs = ModelOutputs(model, output, classes)
    return outputs(rows, **options), outputs


def test_estimators_and_pipelines():
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, Y)
    found, outputs = query(model, batch_size=7)
    assert found == pytest.approx(model.predict_proba(X))
    assert outputs.classes.tolist() == ["no", "yes"]
    assert (outputs.n_queries, outputs.n_calls) == (40, 6)
    value = LinearRegression().fit(X, X[:, 0])
    found, outputs = query(value)
    assert found == pytest.approx(X[:, 0])
    assert outputs.kind == "value"
    assert outputs.classes is None


def test_labels_of_classifiers_without_probabilities():
    model = LinearSVC().fit(X, Y)
    found, outputs = query(model)
    assert (outputs.classes[found.argmax(axis=1)] == model.predict(X)).all()
    assert set(found.ravel()) == {0.0, 1.0}


def test_callables_by_kind_of_output():
    logits = np.column_stack([X[:, 0], np.zeros(40), -X[:, 0]])
    expected = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    table = {tuple(x): i for i, x in enumerate(X)}

    def rows_of(Z):
        return [table[tuple(z)] for z in Z]

    assert query(lambda Z: logits[rows_of(Z)], output="logit")[0] == pytest.approx(expected)
    found, outputs = query(lambda Z: expected[rows_of(Z)], classes=["a", "b", "c"])
    assert found == pytest.approx(expected)
    assert outputs.classes.tolist() == ["a", "b", "c"]
    p = expected[:, 0]
    found, _ = query(lambda Z: p[rows_of(Z)], output="probability")
    assert found == pytest.approx(np.column_stack([1 - p, p]))
    found, _ = query(lambda Z: X[rows_of(Z), 0], output="logit")
    assert found[:, 1] == pytest.approx(1 / (1 + np.exp(-X[:, 0])))


def test_torch_modules_are_queried_in_evaluation_mode():
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Dropout(0.5)).double()
    module.train()
    found, _ = query(module, output="logit")
    assert module.training
    module.eval()
    with torch.no_grad():
        expected = module(torch.as_tensor(X)).softmax(dim=1).numpy()
    assert found == pytest.approx(expected)
    frame = pd.DataFrame(X, columns=["a", "b"])
    assert query(module, frame, output="logit")[0] == pytest.approx(expected)


def test_objects_with_predict():
    class Booster:
        def predict(self, Z):
            return Z[:, 0]

    assert query(Booster())[0] == pytest.approx(X[:, 0])


def fails(Z):
    raise RuntimeError("no memory")


class Changing:
    calls = 0

    def __call__(self, Z):
        self.calls += 1
        return np.full((len(Z), 1 + self.calls), 1 / (1 + self.calls))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (fails, "failed on 10 rows after 0 successful queries: RuntimeError: no memory"),
        (lambda Z: np.where(Z[:, 0] > 9, 0, np.nan), "finite numbers"),
        (lambda Z: np.zeros(3), "one output per row"),
        (lambda Z: np.zeros((len(Z), 2, 2)), "one output per row"),
        (lambda Z: ["a"] * len(Z), "must return numbers"),
        (lambda Z: np.ones((len(Z), 2)), "no probabilities"),
        (Changing(), "changed its number of outputs: 2 in earlier calls, 3"),
    ],
)
def test_bad_outputs(model, message):
    with pytest.raises(ModelOutputError, match=message):
        query(model, batch_size=10)


def test_bad_models_and_classes():
    with pytest.raises(ValueError, match="'model' parameter of SUWRExplainer"):
        query(3)
    with pytest.raises(ValueError, match="'classes' parameter"):
        query(lambda Z: np.full((len(Z), 2), 0.5), classes=["a", "b", "c"])
    with pytest.raises(ModelOutputError, match="sum to 1"):
        query(lambda Z: np.ones((len(Z), 2)), output="probability")
    with pytest.raises(ModelOutputError, match="one number per row"):
        query(lambda Z: np.ones((len(Z), 2)), output="value")


def test_cost_of_queries():
    # 0.1 s a call and 1 ms a row.
    cost = QueryCost(0.101, 0.15, 50)
    assert cost.seconds(2048, 1024) == pytest.approx(0.2 + 2.048)
    assert QueryCost(0.2, 0.1, 50).seconds(100, 10) == pytest.approx(2.0)
