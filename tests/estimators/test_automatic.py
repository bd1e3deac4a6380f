"""Tests of the parameters that the estimators choose."""

import numpy as np
import pytest
import torch

from suwr import Patches, SUWRClassifier, SUWRRegressor
from suwr.training.config import default_bins


@pytest.mark.parametrize(
    ("n_rows", "n_columns", "n_bins"), [(100, 5, 8), (4_999, 64, 8), (5_000, 5, 0), (100, 65, 0)]
)
def test_tables_of_few_rows_and_columns_have_bins(n_rows, n_columns, n_bins):
    assert default_bins(n_rows, n_columns) == n_bins
    model = SUWRClassifier(teacher=None)
    assert model._n_bins(n_rows, n_columns, soft=False) == n_bins


@pytest.mark.parametrize(
    "params",
    [
        {"trainer": "lookahead"},
        {"trainer": "reinforce"},
        {"groups": Patches((4, 4), 2)},
        {"training": {"network": "conv"}, "groups": Patches((4, 4), 2)},
        {"predictor": object()},
        {"training": {"n_bins": 0}},
    ],
)
def test_other_models_have_no_bins(params):
    assert SUWRClassifier(**params)._n_bins(100, 16, soft=False) == 0


def test_given_bins_take_precedence():
    model = SUWRClassifier(training={"n_bins": 20}, trainer="lookahead")
    assert model._n_bins(10_000, 100, soft=False) == 20


@pytest.fixture(scope="module")
def table():
    rng = np.random.RandomState(0)
    X = rng.randn(300, 3)
    X[:, 2] = rng.randint(2, size=300)
    return X, (X[:, 0] > 0.3).astype(int)


@pytest.mark.parametrize("weight", [0.05, (0.01, 0.1)])
def test_every_second_predictor_reads_bins(table, weight):
    model = SUWRClassifier(sparsity_weight=weight, max_epochs=3, random_state=0).fit(*table)
    pieces = torch.as_tensor(model.encoder_.pieces)
    # A column of two values has no bins.
    assert [code.n_bins for code in model.encoder_.codes] == [8, 8, 0]
    network = model.policy_.network
    read = network.predictor.weights[0][:, : len(pieces)][:, pieces] != 0
    assert read.flatten(1).float().mean(dim=1).tolist() == [0, 1, 0, 1]
    assert not network.policy.weights[0][:, : len(pieces)][:, pieces].any()
    assert network.policy.weights[0][:, : len(pieces)][:, ~pieces].all()
    assert model.choices_["n_bins"].startswith("8 for every second predictor")


def test_given_bins_are_read_by_all_networks(table):
    X = table[0]
    model = SUWRRegressor(max_epochs=2, training={"n_bins": 4}, random_state=0).fit(X, X[:, 0])
    network, n = model.policy_.network, len(model.encoder_.column_of)
    assert network.predictor.weights[0][:, :n].all()
    assert network.policy.weights[0][:, :n].all()
    assert "n_bins" not in model.choices_


def test_choices_state_their_reason(table):
    model = SUWRClassifier(max_epochs=2, random_state=0).fit(*table)
    assert model.choices_ == {
        "trainer": "actor, for 3 units",
        "n_predictors": "4, for 270 training rows",
        "n_bins": "8 for every second predictor, for 270 training rows",
    }


@pytest.mark.parametrize(
    ("n_rows", "params", "n_folds"),
    [
        (200, {}, 4),
        (200, {"training": {"n_predictors": 8}}, 4),
        (200, {"training": {"n_predictors": 6}}, 2),
        (200, {"training": {"n_predictors": 4}, "trainer": "lookahead"}, 2),
        (200, {"trainer": "reinforce"}, 2),
        (6300, {"training": {"n_predictors": 4}}, 2),
    ],
)
def test_tables_of_few_rows_have_four_folds(n_rows, params, n_folds):
    X = np.random.RandomState(0).randn(n_rows, 2)
    model = SUWRClassifier(random_state=0, **params)
    data = model._prepare(X, X[:, 0] > 0, None)
    plan = model._plan(data, torch.Generator().manual_seed(0))
    assert plan.task.settings.n_folds == n_folds
