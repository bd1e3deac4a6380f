"""The figure of a training history."""

from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pytest

from suwr.plots import plot_history


def make_history(**costs):
    """Three epochs per phase, with the given mean cost or without one."""
    return [
        {
            "epoch": epoch + 1,
            "phase": phase,
            "training_loss": 0.5 - epoch / 10,
            "validation_objective": 0.6 - epoch / 10,
            "mean_cost": None if cost is None else cost - epoch,
        }
        for phase, cost in costs.items()
        for epoch in range(3)
    ]


@pytest.fixture
def history():
    return make_history(predictor=None, policy=8.0)


def points(ax, label=None):
    return [
        line.get_xydata().tolist()
        for line in ax.get_lines()
        if label is None or line.get_label() == label
    ]


def test_every_phase_has_its_own_curves(history):
    losses = plot_history(history)
    costs = losses.figure.axes[1]
    # Two phases and two losses; epochs are counted over all phases.
    assert len(losses.get_lines()) == 4
    np.testing.assert_allclose(
        points(losses, "validation objective"), [[[1, 0.6], [2, 0.5], [3, 0.4]]]
    )
    np.testing.assert_allclose(losses.get_lines()[1].get_xydata()[:, 0], [4, 5, 6])
    # The first phase does not measure the cost.
    np.testing.assert_allclose(points(costs), [[[4, 8.0], [5, 7.0], [6, 6.0]]])
    assert [text.get_text() for text in losses.texts] == ["predictor", "policy"]
    assert losses.get_legend_handles_labels()[1] == ["training loss", "validation objective"]


def test_a_fitted_model_is_accepted(history):
    model = SimpleNamespace(history_=history)
    assert points(plot_history(model)) == points(plot_history(history))


def test_without_costs_there_is_one_panel():
    ax = plot_history(make_history(predictor=None))
    assert ax.figure.axes == [ax]
    assert ax.get_xlabel() == "Epoch"


def test_given_axes_are_used(history):
    figure, panels = plt.subplots(2, 1)
    assert plot_history(history, panels) is panels[0]
    assert panels[1].get_ylabel() == "Mean cost"
    _, single = plt.subplots()
    assert plot_history(history, single) is single
    assert len(plt.get_fignums()) == 2
    figure.canvas.draw()


def test_missing_values_are_left_out(history):
    for entry in history[:3]:
        entry["training_loss"] = float("nan")
    assert len(points(plot_history(history))) == 3


def test_invalid_history(history):
    with pytest.raises(ValueError, match="at least one epoch"):
        plot_history([])
    for invalid in (None, "history", [{"epoch": 1}], SimpleNamespace(history_=None)):
        with pytest.raises(ValueError, match="'model_or_history' parameter of plot_history"):
            plot_history(invalid)
    with pytest.raises(ValueError, match="one or two matplotlib Axes"):
        plot_history(history, plt.subplots(3)[1])
