"""The figure of a single narrative."""

import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest

from suwr.exceptions import MissingExtraError
from suwr.narrative.explanation import Explanation, Narrative, Step
from suwr.plots import plot_narrative


def texts(ax):
    return [text.get_text() for text in ax.texts]


def test_steps_run_downwards_and_are_labelled_with_values(narrative):
    ax = narrative.plot()
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert labels == ["nothing revealed", "1. texture = 1", "2. radius = 2"]
    assert ax.get_yticks().tolist() == [0, 1, 2]
    bottom, top = ax.get_ylim()
    assert bottom > top
    assert ax.get_title(loc="left") == "Row 457: malignant (>99 %), from 2 of 5 features"


def test_one_line_per_class(narrative):
    ax = plot_narrative(narrative)
    lines = {line.get_label(): line for line in ax.get_lines()}
    np.testing.assert_allclose(lines["benign"].get_xdata(), [0.6, 0.3, 0.001])
    np.testing.assert_allclose(lines["malignant"].get_xdata(), [0.4, 0.7, 0.999])
    np.testing.assert_allclose(lines["malignant"].get_ydata(), [0, 1, 2])
    assert lines["benign"].get_color() != lines["malignant"].get_color()
    assert lines["benign"].get_marker() != lines["malignant"].get_marker()
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["benign", "malignant"]


def test_stop_probabilities_are_bars_with_labels(narrative):
    ax = plot_narrative(narrative)
    lengths = np.array([bar.get_width() for bar in ax.patches])
    np.testing.assert_allclose(lengths / lengths[-1], np.array([0, 0.25, 0.97]) / 0.97)
    assert texts(ax)[:3] == ["0 %", "25 %", "97 %"]
    # Right of the prediction scale and inside the axes.
    assert all(1.0 < bar.get_x() < ax.get_xlim()[1] for bar in ax.patches)


def test_given_axes_are_used(narrative):
    figure, axes = plt.subplots(1, 2)
    assert narrative.plot(axes[1]) is axes[1]
    assert not axes[0].lines
    assert len(plt.get_fignums()) == 1
    figure.canvas.draw()


def test_only_likely_classes_are_coloured():
    classes = tuple(range(10))
    after = (0.0, 0.0, 0.0, 0.55, 0.0, 0.0, 0.0, 0.0, 0.45, 0.0)
    step = Step({"g": {"a": 1, "b": None, "c": 2, "d": 3}}, 1.0, (0.1,) * 10, after)
    ax = Narrative(0, (0.1,) * 10, 0.0, (step,), "decision", classes, 4).plot()
    names = [t.get_text() for t in ax.get_legend().get_texts()]
    assert len(names) == 6
    assert {"3", "8", "other classes"} <= set(names)
    # A group of many columns is labelled by its name.
    assert ax.get_yticklabels()[1].get_text() == "1. g"


def test_all_classes_are_distinguishable():
    # There are seven colours, so classes 2 and 9 have the same one.
    start = (0.01, 0.02, 0.3, 0.01, 0.01, 0.2, 0.01, 0.0, 0.1, 0.34)
    ax = Narrative(0, start, 0.9, (), "decision", tuple(range(10)), 4).plot()
    lines = {line.get_label(): line for line in ax.get_lines() if line.get_marker() != "None"}
    assert set(lines) == {"1", "2", "5", "8", "9"}
    assert lines["2"].get_color() == lines["9"].get_color()
    assert len({(line.get_marker(), line.get_linestyle()) for line in lines.values()}) == 5


def test_regression():
    steps = (
        Step({"size": {"height": 3, "width": None}}, 0.5, (100.0,), (250.0,)),
        Step({"age": {"age": 1.23456789}}, 1.0, (250.0,), (240.0,)),
    )
    ax = Narrative("r", (100.0,), 0.25, steps, "budget", None, 4).plot()
    np.testing.assert_allclose(ax.get_lines()[0].get_xdata(), [100, 250, 240])
    assert ax.get_yticklabels()[1].get_text() == "1. height = 3, width = missing"
    against = "2. age = 1.23457\n▼ speaks against a higher value"
    assert ax.get_yticklabels()[2].get_text() == against
    assert ax.get_title(loc="left") == "Row r: 240, from 2 of 4 features"
    assert all(88 <= tick <= 262 for tick in ax.get_xticks())


def test_narrative_without_steps():
    ax = Narrative(7, (0.9, 0.1), 0.9, (), "decision", ("a", "b"), 3).plot()
    assert [t.get_text() for t in ax.get_yticklabels()] == ["nothing revealed"]
    ax = Narrative(7, (5.0,), 0.9, (), "decision", None, 3).plot()
    ax.figure.canvas.draw()


@pytest.mark.parametrize("name", ["$x$ $", "a$b", "_hidden", "two\nlines", "\\frac", "x" * 200])
def test_names_are_never_markup(name):
    step = Step({name: {name: name}}, 1.0, (0.5, 0.5), (0.1, 0.9))
    ax = Narrative(name, (0.5, 0.5), 0.0, (step,), "decision", (name, "other"), 1).plot()
    ax.figure.canvas.draw()
    label = ax.get_yticklabels()[1].get_text()
    assert len(label) < 70
    assert "\n" not in label
    assert len(ax.get_legend().get_texts()) == 2


def test_narrative_of_a_fitted_model(classifier, cancer):
    X = cancer[0].iloc[:1, :10]
    narrative = classifier.explain(X)[0]
    labels = [t.get_text() for t in narrative.plot().get_yticklabels()]
    for label, step in zip(labels[1:], narrative.steps, strict=True):
        (column,) = step.columns
        assert column in label
        assert f"{X.iloc[0][column]:.6g}" in label


def test_missing_matplotlib_names_the_extra(narrative, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'suwr\[plots\]'"):
        narrative.plot()


def test_an_explanation_is_not_a_narrative(narrative):
    with pytest.raises(ValueError, match=r"must be a Narrative, such as clf.explain\(X\)\[0\]"):
        plot_narrative(Explanation([narrative]))
