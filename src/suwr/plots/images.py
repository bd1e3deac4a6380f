"""Figures of models of images: revealed patches, predictions and how often pixels are revealed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from suwr._utils.validation import require
from suwr.data.frame import raw_columns
from suwr.data.units import Patches
from suwr.plots._style import (
    BLUE,
    GREY,
    VERMILLION,
    new_axes,
    new_grid,
    open_frame,
    plain,
    short_percent,
)

if TYPE_CHECKING:
    from suwr.narrative.explanation import Explanation, Narrative

# Opacity of hidden pixels: the image stays recognisable, and revealed pixels stand out.
_HIDDEN_ALPHA = 0.25
# Width ratio of an image and the class probabilities to its right.
_WIDTHS = (1.5, 1.0)

Box = tuple[float, float, float, float]


def plot_image_step(
    narrative: Narrative,
    image: ArrayLike,
    patches: Patches,
    step: int | None = None,
    ax: Any = None,
) -> Any:
    """Draw an image and the patches revealed up to a step.

    Patches of the step itself are red, earlier ones blue, each with the number of its step. Hidden
    pixels are drawn faintly; the model has not read them.

    Parameters
    ----------
    narrative : Narrative
        Narrative of a model fitted with ``groups=patches``.
    image : array-like of shape ``patches.shape`` or (n_columns,)
    patches : Patches
    step : int, default=None
        Step to draw; 0 is the state before any patch is revealed. If None, the complete selection
        is drawn in red.
    ax : matplotlib Axes, default=None
        Axes to draw on; if None, a new figure is created.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import numpy as np
    >>> from suwr import Patches
    >>> from suwr.narrative.explanation import Explanation, Narrative, Step
    >>> from suwr.plots import plot_image_step
    >>> patches = Patches((4, 4), size=2, stride=2)
    >>> step = Step({patches.names[0]: {"pixel 0": 1.0}}, 0.9, (0.5, 0.5), (0.1, 0.9))
    >>> narrative = Narrative(0, (0.5, 0.5), 0.2, (step,), "decision", ("3", "8"), 4)
    >>> len(plot_image_step(narrative, np.zeros(16), patches, step=1).images)
    1
    """
    last = len(narrative.steps) if step is None else _check_step(step, narrative)
    ax = new_axes(ax, (2.6, 2.6))
    boxes, seen = _revealed(narrative, patches.shape, _boxes(patches), last)
    pixels = _as_image(image, patches)
    _draw_pixels(ax, pixels, seen, patches)
    for number, box in boxes:
        _draw_patch(ax, box, number, current=step is None or number == last)
    ax.set_xticks([])
    ax.set_yticks([])
    ax.spines[:].set_color(GREY)
    return ax


def plot_image_narrative(
    narrative: Narrative,
    image: ArrayLike,
    patches: Patches,
    steps: Sequence[int] | None = None,
    axes: Any = None,
) -> Any:
    """Draw several steps side by side, each with its class probabilities.

    Parameters
    ----------
    narrative : Narrative
        Narrative of a classifier fitted with ``groups=patches``.
    image : array-like of shape ``patches.shape`` or (n_columns,)
    patches : Patches
    steps : sequence of int, default=None
        Steps to draw; if None, all steps from 1.
    axes : array of matplotlib Axes, shape (2 * n_steps,), default=None
        Two axes per step, for the image and for the probabilities; if None, a new figure is
        created.

    Returns
    -------
    ndarray of matplotlib Axes, shape (2 * n_steps,)

    Examples
    --------
    >>> import numpy as np
    >>> from suwr import Patches
    >>> from suwr.narrative.explanation import Explanation, Narrative, Step
    >>> from suwr.plots import plot_image_narrative
    >>> patches = Patches((4, 4), size=2, stride=2)
    >>> step = Step({patches.names[0]: {"pixel 0": 1.0}}, 0.9, (0.5, 0.5), (0.1, 0.9))
    >>> narrative = Narrative(0, (0.5, 0.5), 0.2, (step,), "decision", ("3", "8"), 4)
    >>> plot_image_narrative(narrative, np.zeros(16), patches, steps=[0, 1]).shape
    (4,)
    """
    chosen = list(range(1, len(narrative.steps) + 1) or [0]) if steps is None else list(steps)
    if axes is None:
        axes = new_step_grid(1, len(chosen))[0]
    if np.shape(axes) != (2 * len(chosen),):
        raise ValueError(
            f"The 'axes' parameter of plot_image_narrative must have the shape "
            f"({2 * len(chosen)},), two axes per step. Got the shape {np.shape(axes)} instead."
        )
    for place, step in enumerate(chosen):
        picture, bars = axes[2 * place], axes[2 * place + 1]
        plot_image_step(narrative, image, patches, step, picture)
        picture.set_title(f"step {step}" if step else "start")
        picture.set_xlabel(f"stop: {short_percent(narrative.stop_probabilities[step])}")
        plot_prediction(narrative, step, bars)
        # Make the bars as high as the image.
        bars.set_box_aspect(_WIDTHS[0] / _WIDTHS[1] * patches.shape[0] / patches.shape[1])
    return axes


def plot_prediction(narrative: Narrative, step: int | None = None, ax: Any = None) -> Any:
    """Draw the class probabilities after a step as bars, the most probable class in colour.

    Parameters
    ----------
    narrative : Narrative
        Narrative of a classifier.
    step : int, default=None
        Step to draw; 0 is the state before anything is revealed, None the last step.
    ax : matplotlib Axes, default=None
        Axes to draw on; if None, a new figure is created.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from suwr.narrative.explanation import Explanation, Narrative, Step
    >>> from suwr.plots import plot_prediction
    >>> step = Step({"age": {"age": 41}}, 0.9, (0.5, 0.5), (0.1, 0.9))
    >>> narrative = Narrative(0, (0.5, 0.5), 0.2, (step,), "decision", ("well", "ill"), 3)
    >>> len(plot_prediction(narrative).patches)
    2
    """
    if narrative.classes is None:
        raise ValueError("plot_prediction needs the narrative of a classifier.")
    last = len(narrative.steps) if step is None else _check_step(step, narrative)
    ax = new_axes(ax, (2.0, 2.6))
    prediction = np.array(narrative.predictions[last])
    place = np.arange(len(prediction))
    best = int(prediction.argmax())
    colours = [VERMILLION if i == best else GREY for i in place]
    ax.barh(place, prediction, 0.75, color=colours)
    # The label of the longest bar always fits either inside the bar or to its right.
    inside = prediction[best] > 0.5
    ax.text(
        prediction[best] - 0.03 if inside else prediction[best] + 0.03, best,
        short_percent(prediction[best]), va="center", ha="right" if inside else "left",
        color="white" if inside else "black", fontsize="small", fontweight="bold",
    )  # fmt: skip
    ax.set_yticks(place, [plain(label, 12) for label in narrative.classes])
    for label, number in zip(ax.get_yticklabels(), place, strict=True):
        label.set_fontweight("bold" if number == best else "normal")
    ax.set_ylim(len(place) - 0.4, -0.6)
    ax.set_xlim(0, 1)
    ax.set_xticks([])
    ax.tick_params(axis="y", length=0, labelsize="small")
    open_frame(ax, "top", "right", "bottom")
    return ax


def plot_image_usage(explanation: Explanation, patches: Patches, ax: Any = None) -> Any:
    """Draw the fraction of images in which each pixel is revealed.

    Parameters
    ----------
    explanation : Explanation
        Explanation of a model fitted with ``groups=patches``.
    patches : Patches
    ax : matplotlib Axes, default=None
        Axes to draw on; if None, a new figure is created.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import numpy as np
    >>> from suwr import Patches
    >>> from suwr.narrative.explanation import Explanation, Narrative, Step
    >>> from suwr.plots import plot_image_usage
    >>> patches = Patches((4, 4), size=2, stride=2)
    >>> step = Step({patches.names[0]: {"pixel 0": 1.0}}, 0.9, (0.5, 0.5), (0.1, 0.9))
    >>> narrative = Narrative(0, (0.5, 0.5), 0.2, (step,), "decision", ("3", "8"), 4)
    >>> plot_image_usage(Explanation([narrative]), patches).images[0].get_array().shape
    (4, 4)
    """
    if len(explanation) == 0:
        raise ValueError("The 'explanation' parameter of plot_image_usage must not be empty.")
    ax = new_axes(ax, (3.6, 3.0))
    boxes = _boxes(patches)
    masks = [_revealed(n, patches.shape, boxes, len(n.steps))[1] for n in explanation]
    percentage = 100 * np.mean(masks, axis=0)
    drawn = ax.imshow(percentage, cmap="cividis", vmin=0, vmax=100, interpolation="nearest")
    ax.figure.colorbar(drawn, ax=ax, label="Images that reveal the pixel (%)")
    ax.set_xticks([])
    ax.set_yticks([])
    return ax


def new_step_grid(n_rows: int, n_steps: int) -> Any:
    """Create the axes of several narratives of images, of shape (n_rows, 2 * n_steps)."""
    return new_grid(
        n_rows,
        2 * n_steps,
        (3.2 * n_steps + 0.3, 2.3 * n_rows + 0.2),
        width_ratios=_WIDTHS * n_steps,
    )


def patch_box(unit: str, patches: Patches) -> Box:
    """Return the left, top, width and height of a patch in pixels, clipped to the image."""
    return _box_in(_boxes(patches), unit)


def _box_in(boxes: dict[str, Box], unit: str) -> Box:
    if unit not in boxes:
        raise ValueError(f"The 'patches' parameter must contain the revealed unit {unit!r}.")
    return boxes[unit]


def _boxes(patches: Patches) -> dict[str, Box]:
    """Map the name of every patch to its box."""
    found: dict[str, Box] = {}
    for name, member in zip(patches.names, patches.membership(), strict=True):
        shown = member.reshape(*patches.shape[:2], -1).any(axis=2)
        rows, columns = np.flatnonzero(shown.any(axis=1)), np.flatnonzero(shown.any(axis=0))
        found[name] = columns[0], rows[0], len(columns), len(rows)
    return found


def _revealed(
    narrative: Narrative, shape: tuple[int, ...], known: dict[str, Box], last: int
) -> tuple[list[tuple[int, Box]], NDArray[np.bool_]]:
    """Return (step, box) of every revealed patch, and the mask of revealed pixels."""
    seen = np.zeros(shape[:2], dtype=bool)
    boxes = []
    for number, step in enumerate(narrative.steps[:last], start=1):
        for unit in step.units:
            left, top, width, height = box = _box_in(known, unit)
            seen[int(top) : int(top + height), int(left) : int(left + width)] = True
            boxes.append((number, box))
    return boxes, seen


def pixel_values(model: Any, X: Any) -> NDArray[np.float64]:
    """Return the pixels of images; NaN where a cell is missing or not a number.

    Parameters
    ----------
    model : estimator
        Fitted to images.
    X : array or data frame of shape (n_rows, n_columns)
    """
    return np.stack(model.encoder_.parse(raw_columns(X)).columns, axis=1)


def _as_image(image: ArrayLike, patches: Patches) -> NDArray[np.float64]:
    pixels = np.asarray(image, dtype=np.float64)
    if pixels.size != patches.n_columns:
        raise ValueError(
            f"The 'image' parameter must have {patches.n_columns} values, of shape "
            f"{patches.shape} or flat. Got the shape {pixels.shape} instead."
        )
    return pixels.reshape(patches.shape)


def _draw_pixels(
    ax: Any, pixels: NDArray[np.float64], seen: NDArray[np.bool_], patches: Patches
) -> None:
    """Draw revealed pixels opaquely and hidden ones faintly; one channel is dark on light."""
    alpha = np.where(seen, 1.0, _HIDDEN_ALPHA)
    finite = pixels[np.isfinite(pixels)]
    low, high = (finite.min(), finite.max()) if finite.size else (0.0, 0.0)
    scaled = (pixels - low) / (high - low) if high > low else np.zeros_like(pixels)
    grey = len(patches.shape) == 2 or patches.shape[2] == 1
    shown = scaled.reshape(patches.shape[:2]) if grey else scaled
    ax.imshow(
        shown, alpha=alpha, cmap="gray_r" if grey else None, vmin=0, vmax=1,
        interpolation="nearest",
    )  # fmt: skip


def _draw_patch(ax: Any, box: Box, number: int, current: bool) -> None:
    patches = require("matplotlib.patches", "plots", "Plotting")
    effects = require("matplotlib.patheffects", "plots", "Plotting")
    left, top, width, height = box
    colour = VERMILLION if current else BLUE
    ax.add_patch(
        patches.Rectangle(
            (left - 0.5, top - 0.5),
            width,
            height,
            fill=False,
            edgecolor=colour,
            linewidth=2.4 if current else 1.6,
            zorder=4 if current else 3,
        )
    )
    ax.text(
        left - 0.5 + width / 2, top - 0.5 + height / 2, str(number), color=colour, ha="center",
        va="center", fontweight="bold", fontsize="medium" if current else "small",
        zorder=6 if current else 5,
        path_effects=[effects.withStroke(linewidth=2.5, foreground="white")],
    )  # fmt: skip


def _check_step(step: int, narrative: Narrative) -> int:
    if not 0 <= step <= len(narrative.steps):
        raise ValueError(
            f"The 'step' parameter must be from 0 to {len(narrative.steps)}. Got {step} instead."
        )
    return step
