"""Published selectors are detected, and sequential ones are not reported to leak.

The fits are small: the accuracy of a model does not matter here, only whether its masks depend on
hidden values. Witnesses are verified by querying the model directly.
"""

from itertools import product

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

from suwr import SUWRClassifier, baselines
from suwr.auditing import audit
from suwr_experiments.synthetic import synthetic

QUICK = {"max_epochs": 3, "random_state": 0}
SMALL = {**QUICK, "hidden_size": 16, "n_layers": 2}
LEAKY = {
    "L2X": {**SMALL, "max_steps": 2},
    "INVASE": {**SMALL, "sparsity_weight": 0.01},
    "REALX": {**SMALL, "sparsity_weight": 0.01},
}
LEAK_FREE = {
    "GDFS": {**SMALL, "max_steps": 2},
    "DIME": {**SMALL, "max_steps": 2},
    "SEFA": {**SMALL, "max_steps": 2, "n_samples": 5},
    "CAE": {**SMALL, "max_steps": 2},
    "AllFeatures": SMALL,
}


def toy():
    """All binary rows of six columns, repeated; x0 determines whether x1 or x2 is the label."""
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


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("Syn4", "Syn5", "Syn6")]


@pytest.mark.parametrize("method", [*LEAKY, pytest.param("TabNet", marks=pytest.mark.slow)])
@pytest.mark.parametrize("data", ["toy", *SLOW, "breast cancer"])
def test_leaks_of_published_selectors_are_detected(data, method):
    X, y = rows_of(data)
    model = model_of(method, LEAKY.get(method, QUICK), X, y)
    # The columns of Syn4 to Syn6 are drawn independently; those of the tumours are not.
    support = "product" if data.startswith("Syn") else "auto"
    report = audit(model, X, y, random_state=0, gaps=False, support=support)
    if data == "breast cancer":
        assert report.verdict == "leaks if columns vary independently"
        assert report.evidence == "combined rows"
    else:
        assert report.verdict == "leaks"
        assert report.evidence == "proof"
    x, other = (np.asarray(row, dtype=float) for row in (report.witness.x, report.witness.x_other))
    (mask,), (mask_other,) = model.select(x[None]), model.select(other[None])
    np.testing.assert_array_equal(x[mask], other[mask])
    assert (mask != mask_other).any()
    assert not np.array_equal(x, other)
    # x is a row of the data, and x_other combines observed values.
    np.testing.assert_array_equal(x, X[report.witness.row])
    assert all(value in X[:, j] for j, value in enumerate(other))


@pytest.mark.parametrize("method", LEAK_FREE)
@pytest.mark.parametrize("data", ["toy", *SLOW[:1]])
def test_sequential_and_global_selectors_do_not_leak(data, method):
    X, y = rows_of(data)
    model = model_of(method, LEAK_FREE[method], X, y)
    report = audit(model, X, y, random_state=0, gaps=False)
    assert report.verdict == "leak-free by construction"
    assert report.n_probes > 0
    assert report.exact == (data == "toy")


def test_the_global_optimum_does_not_leak():
    X, y = rows_of("toy")
    model = baselines.GlobalOptimumClassifier(**SMALL).fit(X, y)
    report = audit(model, X, y, random_state=0, gaps=False)
    assert report.verdict == "leak-free by construction"
    assert report.exact


@pytest.fixture(scope="module")
def trained():
    X, _ = toy()
    y = (X[:, 0] * X[:, 1]).astype(int)
    training = {"hidden_size": 16, "n_layers": 2, "batch_size": 32}
    params = {**QUICK, "max_epochs": 8, "max_steps": 3, "sparsity_weight": 0.0}
    return SUWRClassifier(training=training, **params).fit(X, y), X, y


@pytest.mark.parametrize("policy", ["greedy", pytest.param("sampled", marks=pytest.mark.slow)])
def test_suwr_does_not_leak(trained, policy):
    model, X, y = trained
    report = audit(model, X, y, random_state=0, gaps=False, policy=policy)
    assert report.verdict == "leak-free by construction"
    assert report.stochastic == (policy == "sampled")
    assert report.exact
    assert report.mean_features > 0


def test_sampled_decisions_of_one_seed_are_a_function_of_the_row(trained):
    model, X, y = trained
    report = audit(
        lambda X: model.select(X, policy="sampled", random_state=np.full(len(X), 3)),
        X, y, random_state=0, gaps=False,
    )  # fmt: skip
    assert not report.leaks
    assert report.exact
    assert not report.stochastic
    assert not report.batch_dependent
    assert report.mean_features > 0
