import sys

import matplotlib as mpl
import numpy as np
import pytest
from sklearn.datasets import load_iris

from helpers.models import fit_random_policy
from suwr import Column
from suwr.exceptions import MissingExtraError
from suwr.narrative.explanation import Explanation, Narrative, Step

mpl.use("Agg")

import matplotlib.pyplot as plt

shap = pytest.importorskip("shap", reason="requires the extra 'audit'")


def regression():
    """One row: a group, then two units in one step."""
    steps = (
        Step({"size": {"height": 3, "width": None}}, 0.25, (1.0,), (2.5,)),
        Step({"age": {"age": 40}, "city": {"city": "Oslo"}}, 1.0, (2.5,), (2.0,)),
    )
    return Narrative(0, (1.0,), 0.25, steps, "budget", None, 4)


@pytest.fixture(scope="module")
def explanation():
    X, y = load_iris(return_X_y=True, as_frame=True)
    clf = fit_random_policy(X, np.array(["setosa", "versicolor", "virginica"])[y])
    return clf.set_params(columns={"petal length (cm)": Column("Petal length")}).explain(X)


def test_effects_are_those_of_the_steps():
    found = Explanation([regression()]).to_shap()
    assert found.feature_names == ["size", "age", "city"]
    np.testing.assert_array_equal(found.values, [[1.5, -0.25, -0.25]])
    np.testing.assert_array_equal(found.base_values, [1.0])
    np.testing.assert_array_equal(found.data, [[np.nan, 40, np.nan]])
    assert found.display_data.tolist() == [["3, missing", "40", "Oslo"]]


def test_effects_and_base_value_add_up_to_the_prediction(explanation):
    found = explanation.to_shap()
    assert found.values.shape == (150, 4, 3)
    assert found.output_names == ["setosa", "versicolor", "virginica"]
    np.testing.assert_array_equal(found.base_values, [n.start for n in explanation])
    total = found.base_values + found.values.sum(axis=1)
    # Float64 probabilities below 1: their differences have rounding errors of at most 1e-16 each.
    np.testing.assert_allclose(total, [n.prediction for n in explanation], rtol=0, atol=1e-15)


def test_units_that_are_not_revealed_have_no_effect_and_no_value(explanation):
    found = explanation.to_shap()
    assert found.feature_names[2] == "Petal length"
    units = ["sepal length (cm)", "sepal width (cm)", "petal length (cm)", "petal width (cm)"]
    revealed = np.array([[u in {s.unit for s in n.steps} for u in units] for n in explanation])
    assert revealed.any()
    assert not revealed.all()
    assert not found.values[~revealed].any()
    assert np.isnan(found.data[~revealed]).all()
    assert set(found.display_data[~revealed]) == {"not revealed"}
    assert (np.isnan(found.data) == ~revealed).all()


def test_narratives_of_a_file_have_the_revealed_units(explanation):
    again = Explanation.from_json(explanation.to_json()).to_shap()
    found = explanation.to_shap()
    assert set(again.feature_names) <= set(found.feature_names)
    places = [found.feature_names.index(name) for name in again.feature_names]
    np.testing.assert_array_equal(again.values, found.values[:, places])


def test_waterfall_of_shap_draws_the_steps(explanation):
    number = max(range(150), key=lambda row: explanation[row].n_used)
    narrative = explanation[number]
    row = explanation.to_shap()[:, :, "virginica"][number]
    axes = shap.plots.waterfall(row, show=False)
    texts = {label.get_text() for label in axes.get_yticklabels()}
    plt.close("all")
    for step in narrative.steps:
        label = narrative.description.step_label(step)
        value = narrative.description.column(step.unit).value_text(step.values[step.unit])
        assert f"{value} = {label}" in texts


def test_an_empty_explanation_is_an_error():
    with pytest.raises(ValueError, match="at least one row"):
        Explanation([]).to_shap()


def test_without_shap_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "shap", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'suwr\[audit\]'"):
        Explanation([regression()]).to_shap()
