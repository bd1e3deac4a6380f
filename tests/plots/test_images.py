"""Figures of images: steps, narratives, predictions and pixel usage."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from suwr import Patches
from suwr.narrative.explanation import Explanation, Narrative, Step
from suwr.plots import (
    plot_image_narrative,
    plot_image_step,
    plot_image_usage,
    plot_prediction,
)
from suwr.plots._style import BLUE, VERMILLION

IMAGE = np.arange(24.0)


def squares(ax):
    """(left, top, width, height) → colour of every drawn patch."""
    return {
        (*p.get_xy(), p.get_width(), p.get_height()): to_hex(p.get_edgecolor()).upper()
        for p in ax.patches
        if isinstance(p, Rectangle)
    }


def numbers(ax):
    return {text.get_position(): text.get_text() for text in ax.texts if text.get_text()}


def test_current_step_is_red_and_earlier_ones_are_blue(image_narrative, patches):
    ax = plot_image_step(image_narrative, IMAGE, patches, step=2)
    assert squares(ax) == {(-0.5, -0.5, 2, 2): BLUE, (3.5, -0.5, 2, 2): VERMILLION}
    assert numbers(ax) == {(0.5, 0.5): "1", (4.5, 0.5): "2"}
    widths = [p.get_linewidth() for p in ax.patches]
    assert widths[1] > widths[0]  # distinguishable without colour


def test_units_of_one_step_have_the_same_number(image_narrative, patches):
    ax = plot_image_step(image_narrative, IMAGE, patches, step=3)
    assert sorted(numbers(ax).values()) == ["1", "2", "3", "3"]
    assert list(squares(ax).values()).count(VERMILLION) == 2


def test_complete_selection_is_red(image_narrative, patches):
    ax = plot_image_step(image_narrative, IMAGE.reshape(4, 6), patches)
    assert set(squares(ax).values()) == {VERMILLION}
    assert len(squares(ax)) == 4


def test_hidden_pixels_are_faint(image_narrative, patches):
    ax = plot_image_step(image_narrative, IMAGE, patches, step=1)
    (picture,) = ax.images
    alpha = np.asarray(picture.get_alpha())
    assert alpha.shape == (4, 6)
    assert (alpha[:2, :2] == 1).all()
    assert (np.delete(alpha, [0, 1], axis=1) < 0.5).all()
    np.testing.assert_allclose(picture.get_array(), IMAGE.reshape(4, 6) / 23)


def test_patches_are_clipped_at_the_border():
    patches = Patches((4, 4), size=3)
    step = Step({patches.names[0]: {"p": 0}}, 1.0, (0.5, 0.5), (0.5, 0.5))
    narrative = Narrative(0, (0.5, 0.5), 0.0, (step,), "decision", (0, 1), 16)
    assert list(squares(plot_image_step(narrative, np.zeros(16), patches))) == [(-0.5, -0.5, 2, 2)]


def test_colour_images(image_narrative):
    patches = Patches((4, 6, 3), size=2, stride=2)
    ax = plot_image_step(image_narrative, np.arange(72.0), patches, step=1)
    assert ax.images[0].get_array().shape == (4, 6, 3)
    assert len(squares(ax)) == 1
    ax.figure.canvas.draw()


def test_steps_are_drawn_with_class_probabilities(image_narrative, patches):
    axes = plot_image_narrative(image_narrative, IMAGE, patches)
    assert axes.shape == (6,)
    assert [axes[i].get_title() for i in (0, 2, 4)] == ["step 1", "step 2", "step 3"]
    assert [axes[i].get_xlabel() for i in (0, 2, 4)] == ["stop: 10 %", "stop: 20 %", "stop: 90 %"]
    bars = [bar.get_width() for bar in axes[3].patches]
    np.testing.assert_allclose(bars, [0.8, 0.2])
    assert [t.get_text() for t in axes[3].get_yticklabels()] == ["3", "8"]
    assert len(squares(axes[4])) == 4
    axes[0].figure.canvas.draw()


def test_selected_steps_on_given_axes(image_narrative, patches):
    _, axes = plt.subplots(1, 4)
    assert plot_image_narrative(image_narrative, IMAGE, patches, [0, 3], axes) is axes
    assert axes[0].get_title() == "start"
    assert not squares(axes[0])
    with pytest.raises(ValueError, match=r"two axes per step.*Got the shape \(4,\)"):
        plot_image_narrative(image_narrative, IMAGE, patches, [1], axes)


def test_most_probable_class_is_highlighted(image_narrative):
    ax = plot_prediction(image_narrative, 1)
    colours = [to_hex(bar.get_facecolor()).upper() for bar in ax.patches]
    assert colours[1] == VERMILLION != colours[0]
    assert [t.get_text() for t in ax.texts] == ["60 %"]
    assert ax.get_yticklabels()[1].get_fontweight() == "bold"
    with pytest.raises(ValueError, match="classifier"):
        plot_prediction(Narrative(0, (1.0,), 0.0, (), "decision", None, 2))


def test_pixel_usage(image_narrative, patches):
    empty = Narrative(1, (0.5, 0.5), 0.9, (), "decision", ("3", "8"), 6)
    ax = plot_image_usage(Explanation([image_narrative, empty]), patches)
    percentage = np.asarray(ax.images[0].get_array())
    expected = np.zeros((4, 6))
    expected[:2, :2] = expected[:2, 4:] = expected[2:, :2] = expected[2:, 4:] = 50
    np.testing.assert_allclose(percentage, expected)


def test_invalid_input(image_narrative, patches):
    with pytest.raises(ValueError, match=r"24 values.*Got the shape \(9,\)"):
        plot_image_step(image_narrative, np.zeros(9), patches)
    with pytest.raises(ValueError, match=r"from 0 to 3\. Got 4"):
        plot_image_step(image_narrative, IMAGE, patches, 4)
    with pytest.raises(ValueError, match=r"must contain the revealed unit"):
        plot_image_step(image_narrative, np.zeros(64), Patches((8, 8), size=3, stride=3))
    with pytest.raises(ValueError, match="must not be empty"):
        plot_image_usage(Explanation([]), patches)
