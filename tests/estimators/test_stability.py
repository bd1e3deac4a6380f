"""Agreement of fits that differ in their seeds."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification, make_regression

from suwr import SUWRClassifier, SUWRRegressor, stability
from suwr.estimators.fitted import Scores
from suwr.estimators.selection import _agreement, _unit_stability
from suwr.exceptions import UninformativeModelWarning

FAST = {
    "trainer": "reinforce",
    "max_epochs": 1,
    "training": {"hidden_size": 8},
    "sparsity_weight": 0.0,
}


def scores(prediction, order, probability=None):
    order = np.array(order)[:, :, None]
    return Scores(np.array(prediction), probability, np.zeros((len(order), 3), bool), order)


def test_known_agreement():
    p = np.array([[0.5, 0.5], [1.0, 0.0]])
    found = (
        scores(["a", "b"], [[0, 1], [-1, -1]], p),
        scores(["a", "a"], [[1, 0], [2, -1]], p[::-1]),
        scores(["a", "b"], [[0, 1], [-1, -1]], p),
    )
    assert _agreement(found, 1.0) == pytest.approx(
        {
            # Pairs (0, 1), (0, 2), (1, 2).
            "same_prediction": (0.5 + 1 + 0.5) / 3,
            "prediction_difference": (0.5 + 0 + 0.5) / 3,
            "same_first_step": (0 + 1 + 0) / 3,
            "same_features": (0.5 + 1 + 0.5) / 3,
            "overlap": (0.5 + 1 + 0.5) / 3,
        }
    )
    units = _unit_stability(found, ("x", "y", "z"))
    assert [(u.unit, u.n_fits) for u in units] == [("x", 3), ("y", 3), ("z", 1)]
    assert units[0].share_of_rows == pytest.approx(0.5)
    assert units[0].share_of_first_steps == pytest.approx((0.5 + 0 + 0.5) / 3)
    assert (units[2].lowest, units[2].highest) == (0.0, 0.5)
    assert units[2].share_of_first_steps == pytest.approx(0.5 / 3)


def test_regression_differences_are_in_standard_deviations():
    found = (scores([1.0, 2.0], [[0], [0]]), scores([3.0, 2.0], [[0], [1]]))
    agreement = _agreement(found, 4.0)
    assert agreement["same_prediction"] is None
    assert agreement["prediction_difference"] == pytest.approx((0.5 + 0.0) / 2)


def test_rows_that_reveal_nothing_agree():
    empty = Scores(np.array([0.0]), None, np.zeros((1, 2), bool), np.zeros((1, 0, 1), int))
    agreement = _agreement((empty, empty), 1.0)
    assert agreement["overlap"] == agreement["same_features"] == agreement["same_first_step"] == 1
    assert _unit_stability((empty, empty), ("x", "y")) == ()


@pytest.mark.slow
def test_classifier_with_text_table_and_progress(capsys):
    X, y = make_classification(80, 4, random_state=0)
    model = SUWRClassifier(random_state=0, **FAST)
    found = stability(model, X, y, n_seeds=2, verbose=1)
    assert "2/2" in capsys.readouterr().err
    assert (found.n_seeds, found.n_rows) == (2, 20)
    assert len({m.random_state for m in found.estimators}) == 2
    frame = found.to_frame()
    assert frame["unit"].tolist() == [u.unit for u in found.units]
    assert frame["share_of_rows"].is_monotonic_decreasing
    text = found.text()
    assert text == str(found)
    assert text.startswith("2 fits with different seeds, compared on 20 rows.\nSame prediction:")
    assert all(unit.unit in text for unit in found.units)
    again = stability(model, X, y, n_seeds=2)
    assert again.text() == text


def test_regressor():
    X, y = make_regression(80, 4, random_state=0)
    found = stability(SUWRRegressor(random_state=0, **FAST), X, y, n_seeds=2)
    assert found.same_prediction is None
    assert "standard deviations of the target" in found.text()


def test_fits_have_a_single_warning():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(80, 3)), rng.integers(2, size=80)
    model = SUWRClassifier(random_state=0, **FAST)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = stability(model, X, y, n_seeds=3)
    alone = []
    for fitted in found.estimators:
        refit = clone(fitted)
        with warnings.catch_warnings(record=True) as own:
            warnings.simplefilter("always")
            refit.fit(X[:60], y[:60])
        alone.append(any(w.category is UninformativeModelWarning for w in own))
    assert all(alone)
    [message] = [w for w in caught if w.category is UninformativeModelWarning]
    assert str(message.message).startswith("3 of 3 fits have warned, the first as follows. The pol")
    assert message.filename == __file__


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_seeds": 1}, "'n_seeds' parameter of stability"),
        ({"test_size": 1.0}, "'test_size' parameter of stability"),
        ({"estimator": "model"}, "'estimator' parameter of stability"),
    ],
)
def test_invalid_parameters(change, message):
    given = {"estimator": SUWRClassifier(), "X": np.ones((4, 2)), "y": [0, 1, 0, 1], **change}
    with pytest.raises(ValueError, match=message):
        stability(**given)
