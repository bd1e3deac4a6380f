import pytest

from suwr.estimators.evaluate import Calibration, Evaluation
from suwr.plots import plot_calibration


def test_points_and_intervals():
    bins = Calibration((0.1, 0.8), (0.0, 0.75), (0.5, 0.5), (20, 20))
    ax = plot_calibration(Evaluation(40, 0.95, {}, {}, None, bins))
    line = ax.lines[1]
    assert line.get_xydata().tolist() == [[0.1, 0.0], [0.8, 0.75]]
    low, high = ax.collections[0].get_segments()[0]
    assert low[1] == 0.0
    assert high[1] == pytest.approx(0.161, abs=1e-3)  # Wilson, 0 of 20
    assert ax.get_xlabel() == "Predicted probability"


def test_the_class_is_named():
    bins = Calibration((0.1, 0.8), (0.0, 0.75), (0.5, 0.5), (20, 20), "ill")
    found = Evaluation(40, 0.95, {}, {}, None, bins)
    assert plot_calibration(found).get_xlabel() == "Predicted probability of ill"
    assert Evaluation.from_dict(found.to_dict()) == found


def test_regression_has_no_calibration():
    with pytest.raises(ValueError, match="'evaluation' parameter of plot_calibration"):
        plot_calibration(Evaluation(40, 0.95, {}, {}, None))
