"""scikit-learn's metadata routing: λ and sample weights through a Pipeline and GridSearchCV."""

import numpy as np
import pytest
from sklearn import config_context
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from helpers.models import randomize
from suwr import SUWRClassifier, SUWRRegressor

LOW, HIGH = 0.001, 0.5


@pytest.fixture(scope="module", autouse=True)
def routing():
    with config_context(enable_metadata_routing=True):
        yield


@pytest.fixture(scope="module")
def data():
    X = np.random.RandomState(0).randn(80, 4)
    return X, X[:, 0] + X[:, 1] * (X[:, 2] > 0)


def pipeline(model):
    scaler = StandardScaler().set_fit_request(sample_weight=False)
    return Pipeline([("scale", scaler), ("model", model)])


def parameters(**changes):
    return {"sparsity_weight": (LOW, HIGH), "max_epochs": 6, "training": {"hidden_size": 8},
            "random_state": 0, **changes}  # fmt: skip


@pytest.fixture(scope="module")
def fitted(data):
    X, y = data
    model = (
        SUWRClassifier(**parameters())
        .set_predict_request(sparsity_weight=True)
        .set_predict_proba_request(sparsity_weight=True)
        .set_score_request(sparsity_weight=True)
    )
    return pipeline(model).fit(X, y > 0)


def test_pipeline_routes_the_weight_to_every_method(fitted, data):
    X, y = data
    model, scaled = fitted["model"], fitted["scale"].transform(X)
    found = [fitted.predict_proba(X, sparsity_weight=w) for w in (LOW, HIGH)]
    assert not np.array_equal(*found)
    for weight, probabilities in zip((LOW, HIGH), found, strict=True):
        expected = model.predict_proba(scaled, sparsity_weight=weight)
        np.testing.assert_array_equal(probabilities, expected)
        labels = fitted.predict(X, sparsity_weight=weight)
        np.testing.assert_array_equal(labels, model.predict(scaled, sparsity_weight=weight))
        score = fitted.score(X, y > 0, sparsity_weight=weight)
        assert score == model.score(scaled, y > 0, sparsity_weight=weight)


def test_alias_of_the_weight(data):
    X, y = data
    model = SUWRRegressor(**parameters()).set_predict_request(sparsity_weight="price")
    fitted = pipeline(model).fit(X, y)
    model, scaled = fitted["model"], fitted["scale"].transform(X)

    def predictions():
        return [model.predict(scaled, sparsity_weight=w) for w in (LOW, HIGH)]

    randomize(model, lambda: not np.array_equal(*predictions()))
    for weight, expected in zip((LOW, HIGH), predictions(), strict=True):
        np.testing.assert_array_equal(fitted.predict(X, price=weight), expected)


def test_unrequested_metadata_is_refused(fitted, data):
    X, y = data
    with pytest.raises((UnsetMetadataPassedError, TypeError), match="mean_features"):
        fitted.predict(X, mean_features=1.0)
    with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
        pipeline(SUWRClassifier(**parameters())).fit(X, y > 0, sample_weight=np.ones(len(X)))


def test_grid_search_routes_weights_to_fit_and_score(data):
    X, y = data
    weight = np.where(y > 0, 1.0, 3.0)
    model = (
        SUWRClassifier(**parameters())
        .set_fit_request(sample_weight=True)
        .set_score_request(sample_weight=True, sparsity_weight=True)
    )
    search = GridSearchCV(
        pipeline(model), {"model__training": [{"hidden_size": 4}, {"hidden_size": 8}]}, cv=2
    )
    search.fit(X, y > 0, sample_weight=weight, sparsity_weight=HIGH)
    best = search.best_estimator_
    scaled = best["scale"].transform(X)
    for chosen in (LOW, HIGH):
        score = search.score(X, y > 0, sample_weight=weight, sparsity_weight=chosen)
        expected = best["model"].score(scaled, y > 0, sample_weight=weight, sparsity_weight=chosen)
        assert score == expected
    # The same fit by hand: the weights arrived.
    again = SUWRClassifier(**parameters(training=best["model"].training))
    again.fit(scaled, y > 0, sample_weight=weight)
    np.testing.assert_array_equal(again.predict_proba(scaled), best["model"].predict_proba(scaled))


@pytest.mark.filterwarnings("ignore::suwr.exceptions.UninformativeModelWarning")
def test_grid_search_divides_the_costs_of_rows(data):
    X, y = data
    costs = np.arange(1.0, 81.0)[:, None] * np.ones((1, 4))
    model = SUWRRegressor(**parameters(sparsity_weight=0.001, max_epochs=1))
    search = GridSearchCV(
        model.set_fit_request(costs=True), {"training": [{"hidden_size": 8}]}, cv=2
    )
    found = search.fit(X, y, costs=costs).best_estimator_
    np.testing.assert_allclose(found.units_.costs, costs.mean(axis=0))
