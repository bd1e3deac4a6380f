import numpy as np
import pytest
from sklearn.datasets import make_classification, make_regression

from suwr import SUWRClassifier, SUWRRegressor, sparsity_path
from suwr.estimators.selection import SparsityPath

SMALL = {"max_epochs": 6, "training": {"hidden_size": 16}, "random_state": 0}


# Workers of several jobs import torch.
@pytest.mark.parametrize("n_jobs", [None, pytest.param(2, marks=pytest.mark.slow)])
def test_a_larger_weight_selects_fewer_features(n_jobs):
    X, y = make_classification(150, 5, random_state=0)
    path = sparsity_path(SUWRClassifier(**SMALL), X, y, [0.0, 100.0], n_jobs=n_jobs)
    assert path.n_selected[1] == path.cost[1] == 0
    assert path.n_selected[0] > 0
    assert [m.sparsity_weight for m in path.estimators] == [0.0, 100.0]
    assert path.to_frame().columns.tolist() == [
        "sparsity_weight", "score", "score_error", "n_selected", "cost",
    ]  # fmt: skip


def test_regression_and_costs():
    X, y = make_regression(100, 4, random_state=0)
    path = sparsity_path(SUWRRegressor(**SMALL, costs=[2, 2, 2, 2]), X, y, [0.0])
    assert path.cost[0] == pytest.approx(2 * path.n_selected[0])


@pytest.mark.parametrize("weights", [[], [-1.0], [np.nan], [np.inf]])
def test_invalid_weights(weights):
    with pytest.raises(ValueError, match="'sparsity_weights' must be"):
        sparsity_path(SUWRClassifier(), np.ones((4, 2)), [0, 1, 0, 1], weights)


@pytest.mark.parametrize("verbose", [0, 1, 2])
def test_verbose_shows_the_progress_of_the_fits(capsys, verbose):
    X, y = make_classification(40, 4, random_state=0)
    model = SUWRClassifier(max_epochs=1, training={"hidden_size": 4}, random_state=0)
    sparsity_path(model, X, y, [0.1, 0.2], verbose=verbose)
    shown = capsys.readouterr().err
    if verbose == 2:
        assert len(shown.splitlines()) == 2
    else:
        assert ("2/2" in shown) == bool(verbose)


def test_best_within_one_standard_error():
    score, cost = np.array([0.95, 0.93, 0.90]), np.array([8.0, 4.0, 1.0])
    models = ["dense", "middle", "sparse"]
    path = SparsityPath(cost, score, cost, cost, models, np.full(3, 0.03))
    assert path.best() == "middle"
    assert path.best("score") == "dense"
    assert SparsityPath(cost, score, cost, cost, models, np.full(3, 0.06)).best() == "sparse"
    assert SparsityPath(cost, score, cost, cost, models).best() == "dense"
    with pytest.raises(ValueError, match="'rule' parameter"):
        path.best("2se")


def test_default_grid_is_relative_to_the_constant_loss():
    X, y = make_regression(40, 3, random_state=0)
    path = sparsity_path(
        SUWRRegressor(max_epochs=1, training={"hidden_size": 4}, random_state=0), X, y
    )
    assert path.sparsity_weight / y.var() == pytest.approx([0.001, 0.003, 0.01, 0.03, 0.1, 0.3])
    labels = np.repeat([0, 1], 20)
    path = sparsity_path(
        SUWRClassifier(max_epochs=1, training={"hidden_size": 4}, random_state=0), X, labels
    )
    assert path.sparsity_weight[2] == pytest.approx(0.01 * np.log(2))
    assert (path.score_error >= 0).all()


def test_estimator_is_checked():
    with pytest.raises(ValueError, match="'estimator' parameter of sparsity_path"):
        sparsity_path("model", [[1]], [1], [1.0])


def test_printed_as_a_table():
    cost = np.array([12.0, 4.0, 0.5])
    path = SparsityPath(
        np.array([0.00135, 0.05, 12345.0]), np.array([0.9, 0.89, 0.5]), cost, cost, list("abc"),
        np.full(3, 0.02),
    )  # fmt: skip
    assert str(path).splitlines() == [
        "sparsity weight  score          features  cost",
        "0.00135          0.900 ± 0.020  12.00     12.00",
        "0.05             0.890 ± 0.020  4.00      4.00   ← best()",
        "12,300           0.500 ± 0.020  0.50      0.50",
    ]
