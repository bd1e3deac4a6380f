"""The published selectors are caught, and those that decide step by step are not accused.

Fits are tiny: how well a model predicts does not matter here, only whether it reads what it hides.
A witness is verified by asking the model itself about two rows, with no help of the auditor.
"""

from itertools import product

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

from suwr import SUWRClassifier, baselines
from suwr.audit import audit
from suwr_experiments.synthetic import synthetic

QUICK = {"max_epochs": 3, "random_state": 0}
SMALL = {**QUICK, "hidden_size": 16, "n_layers": 2}
LEAKY = {
    "L2X": {**SMALL, "max_steps": 2},
    "INVASE": {**SMALL, "sparsity_weight": 0.01},
    "REALX": {**SMALL, "sparsity_weight": 0.01},
    "TabNet": QUICK,
}
CLEAN = {
    "GDFS": {**SMALL, "max_steps": 2},
    "DIME": {**SMALL, "max_steps": 2},
    "CAE": {**SMALL, "max_steps": 2},
    "AllFeatures": SMALL,
}


def toy():
    """All binary rows of six columns, many times: the first says which of two others matters."""
    cube = np.array(list(product([0.0, 1.0], repeat=6)))
    X = np.repeat(cube, 8, axis=0)
    return X, np.where(X[:, 0] > 0, X[:, 1], X[:, 2]).astype(int)


def rows_of(name):
    if name == "toy":
        return toy()
    if name == "breast cancer":
        X, y = load_breast_cancer(return_X_y=True)
        return X[:400], y[:400]
    data = synthetic(int(name[-1]), 400, seed=0)
    return data.X, data.y


def model_of(method, params, X, y):
    if method == "TabNet":
        pytest.importorskip("pytorch_tabnet", reason="TabNet needs the extra 'baselines'")
    return getattr(baselines, f"{method}Classifier")(**params).fit(X, y)


@pytest.mark.parametrize("method", LEAKY)
@pytest.mark.parametrize("data", ["toy", "Syn4", "Syn5", "Syn6", "breast cancer"])
def test_published_selectors_are_caught(data, method):
    X, y = rows_of(data)
    model = model_of(method, LEAKY[method], X, y)
    report = audit(model, X, y, random_state=0, gaps=False)
    assert report.verdict == "leaks"
    assert report.evidence == "proof"
    x, other = (np.asarray(row, dtype=float) for row in (report.witness.x, report.witness.x_other))
    (mask,), (mask_other,) = model.select(x[None]), model.select(other[None])
    np.testing.assert_array_equal(x[mask], other[mask])
    assert (mask != mask_other).any()
    assert not np.array_equal(x, other)
    # Nothing but values that occur, and the first row is a row of the data.
    np.testing.assert_array_equal(x, X[report.witness.row])
    assert all(value in X[:, j] for j, value in enumerate(other))


@pytest.mark.parametrize("method", CLEAN)
@pytest.mark.parametrize("data", ["toy", "Syn4"])
def test_the_others_are_not_accused(data, method):
    X, y = rows_of(data)
    model = model_of(method, CLEAN[method], X, y)
    report = audit(model, X, y, random_state=0, gaps=False)
    assert report.verdict == "leak-free by construction"
    assert report.n_probes > 0
    assert report.exact == (data == "toy")


def test_the_best_fixed_set_is_not_accused():
    X, y = rows_of("toy")
    model = baselines.GlobalOptimumClassifier(**SMALL).fit(X, y)
    report = audit(model, X, y, random_state=0, gaps=False)
    assert report.verdict == "leak-free by construction"
    assert report.exact


@pytest.fixture(scope="module")
def trained():
    X, _ = toy()
    y = (X[:, 0] * X[:, 1]).astype(int)
    params = {**SMALL, "max_epochs": 8, "batch_size": 32, "max_steps": 3, "sparsity_weight": 0.0}
    return SUWRClassifier(**params).fit(X, y), X, y


@pytest.mark.parametrize("policy", ["greedy", "sampled"])
def test_suwr_is_not_accused(trained, policy):
    model, X, y = trained
    report = audit(model, X, y, random_state=0, gaps=False, policy=policy)
    assert report.verdict == "leak-free by construction"
    assert report.stochastic == (policy == "sampled")
    assert report.exact
    assert report.mean_features > 0
