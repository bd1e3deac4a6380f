"""Fidelity of an explainer, against brute force."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from scipy.stats import entropy

from suwr import SUWRExplainer
from suwr.explainer.fidelity import (
    Fidelity,
    FidelityCurve,
    NumericView,
    fidelity_curve,
    make_attribution,
)
from suwr.plots import draw_figures, plot_fidelity

mpl.use("Agg")

X = np.random.default_rng(0).normal(size=(90, 3))


def model(Z):
    p = 1 / (1 + np.exp(-3 * np.asarray(Z)[:, 0]))
    return np.column_stack([1 - p, p])


class Evaluator:
    """Predicts perfectly if the first column is revealed."""

    def predict_masked(self, Z, masks):
        return np.where(masks[:, :1], model(Z), 0.5)


@pytest.fixture(scope="module")
def explainer():
    options = {"max_epochs": 12, "queries_per_row": 4, "random_state": 0}
    # Few updates: a fast policy and a short average.
    training = {"average_decay": 0.8, "policy_rate": 2e-2, "policy_dropout": 0.0, "hidden_size": 16}
    return SUWRExplainer(model, training=training, **options).fit(X)


def test_curves_match_brute_force(explainer):
    scores = {"first": lambda Z: np.tile([3.0, 2.0, 1.0], (len(Z), 1)),
              "last": lambda Z: np.tile([-1.0, 2.0, -3.0], (len(Z), 1))}  # fmt: skip
    rows = X[:30]
    found = explainer.fidelity(rows, compare=scores, max_features=2, evaluator=Evaluator())
    P, alone = model(rows), explainer.estimator_.predict_proba(rows)
    assert found.mean_cost == pytest.approx(explainer.cost(rows).mean())
    assert found.divergence == pytest.approx(entropy(P, alone, axis=1).mean(), rel=1e-4)
    assert found.agreement == np.mean(P.argmax(axis=1) == alone.argmax(axis=1))
    own = found.curves["SUWR"]
    nothing = explainer.predict_masked(rows, np.zeros(rows.shape, dtype=bool))
    assert own.cost[0] == 0
    assert own.divergence[0] == pytest.approx(entropy(P, nothing, axis=1).mean(), rel=1e-4)
    assert found.curves["first"].cost == (1.0, 2.0)
    assert found.curves["first"].divergence == pytest.approx((0.0, 0.0), abs=1e-9)
    unknown = entropy(P, np.full(P.shape, 0.5), axis=1).mean()
    # The largest absolute scores are the last and the second.
    assert found.curves["last"].divergence == pytest.approx((unknown, unknown))


def test_truncation_is_a_smaller_number_of_steps(explainer):
    rows = X[:30]
    curve = explainer.fidelity(rows).curves["SUWR"]
    limited = explainer.explain(rows, query=False)
    expected = np.mean([min(1, len(narrative.steps)) for narrative in limited])
    assert curve.cost[1] == pytest.approx(expected)


def test_points_of_a_range_of_weights():
    options = {
        "max_epochs": 2,
        "training": {"hidden_size": 8},
        "queries_per_row": 2,
        "random_state": 0,
    }
    explainer = SUWRExplainer(model, sparsity_weight=(1e-3, 0.1), **options).fit(X)
    found = explainer.fidelity(X[:20])
    assert found.mean_cost == pytest.approx(explainer.cost(X[:20]).mean())
    cost = found.curves["SUWR"].cost
    expected = explainer.estimator_.cost(X[:20], sparsity_weight=0.1).mean()
    assert min(abs(np.array(cost) - expected)) < 1e-12
    assert list(cost) == sorted(cost)


def test_values():
    outputs = np.array([1.0, 2.0, 3.0])
    curve = fidelity_curve(outputs, [0.0, 1.0], [np.full(3, 2.0), outputs])
    assert curve.divergence == pytest.approx((1.0, 0.0))
    assert curve.agreement == pytest.approx((0.0, 1.0))
    assert curve.at(0.5) == pytest.approx(0.5)
    assert np.isnan(curve.at(2.0))
    text = Fidelity({"SUWR": curve, "LIME": curve}, 3, 2, True).summary()
    assert text.splitlines() == [
        "From 1.00 of 2 features per row on average: R² 1.000 (3 rows).",
        "LIME, at the same cost: 1 - R² 0.0000.",
    ]


def test_forms_of_the_result(explainer, tmp_path):
    found = explainer.fidelity(X[:20])
    frame = found.to_frame()
    assert list(frame["method"].unique()) == ["SUWR"]
    assert frame["divergence"].iloc[-1] == found.divergence
    assert found.to_dict()["curves"]["SUWR"]["cost"][-1] == found.mean_cost
    assert found.summary() in found._repr_html_()
    ax = found.plot(measure="agreement")
    assert ax.get_ylabel() == "Agreement with the model"
    assert ax.lines[0].get_xdata()[-1] == found.mean_cost
    with pytest.raises(ValueError, match="'measure' parameter of plot_fidelity"):
        plot_fidelity(found, measure="loss")
    drawn = draw_figures(explainer, X[:20], model(X[:20]).argmax(axis=1), tmp_path, dpi=30)
    assert "fidelity.png" in [path.name for path in drawn]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["KernelSHAP", "LIME"])
def test_attributions_of_mixed_tables(name):
    pytest.importorskip("shap" if name == "KernelSHAP" else "lime")
    table = pd.DataFrame({"noise": X[:, 0], "city": np.where(X[:, 1] > 0, "Oslo", "Rome")})

    def predict(rows):
        p = np.where(rows["city"] == "Oslo", 0.9, 0.1)
        return np.column_stack([p, 1 - p])

    scores = make_attribution(name, None, predict, table, 0)(table[:4])
    assert (abs(scores[:, 1]) > 10 * abs(scores[:, 0])).all()


def test_tree_shap_of_a_tree():
    pytest.importorskip("shap")
    from sklearn.tree import DecisionTreeClassifier

    tree = DecisionTreeClassifier(max_depth=1).fit(X, X[:, 2] > 0)
    scores = make_attribution("TreeSHAP", tree, tree.predict_proba, X, 0)(X[:5])
    assert (scores.argmax(axis=1) == 2).all()
    with pytest.raises(ValueError, match="'compare' parameter of fidelity"):
        make_attribution("GradCAM", tree, tree.predict_proba, X, 0)


def test_numeric_view_of_arrays():
    view = NumericView(X)
    assert view.categorical == []
    assert np.array_equal(view.decode(view.encode(X[:3])), X[:3])


def test_curve_is_interpolated():
    assert FidelityCurve((0.0, 2.0), (0.4, 0.2), (0.5, 0.9)).at(1.0) == pytest.approx(0.3)
