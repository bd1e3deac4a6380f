"""The same image twice, one patch of it changed: what does the model make of it?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from suwr.data.units import Patches
from suwr.plots._style import BLACK
from suwr.plots.images import new_story_grid, patch_box, plot_image_narrative

if TYPE_CHECKING:
    from suwr.explanation import Narrative


def plot_counterfactual(
    narratives: tuple[Narrative, Narrative],
    images: tuple[ArrayLike, ArrayLike],
    patches: Patches,
    changed: str,
    steps: Sequence[int] | None = None,
    axes: Any = None,
) -> Any:
    """Draw the narratives of an image, and below it of the same image with one patch changed.

    An arrow points at the changed patch from the step on that reveals it.

    Parameters
    ----------
    narratives : (Narrative, Narrative)
        Of the image as it is, and of the changed one.
    images : (array-like, array-like)
    patches : Patches
    changed : str
        Name of the changed patch, such as 'patch (5, 9)'.
    steps : sequence of int, default=None
        Which steps to draw, where a narrative has them; None draws all.
    axes : array of matplotlib Axes, shape (2, 2 * n_steps), default=None
        A new figure if None.

    Returns
    -------
    ndarray of matplotlib Axes, shape (2, 2 * n_steps)

    Examples
    --------
    >>> import numpy as np
    >>> from suwr import Patches
    >>> from suwr.explanation import Explanation, Narrative, Step
    >>> from suwr.plots import plot_counterfactual
    >>> patches = Patches((4, 4), size=2, stride=2)
    >>> step = Step({patches.names[0]: {"pixel 0": 1.0}}, 0.9, (0.5, 0.5), (0.1, 0.9))
    >>> story = Narrative(0, (0.5, 0.5), 0.2, (step,), "decision", ("3", "8"), 4)
    >>> image, changed = np.zeros(16), np.zeros(16)
    >>> changed[:2] = 1.0
    >>> plot_counterfactual((story, story), (image, changed), patches, patches.names[0]).shape
    (2, 2)
    """
    longest = max(len(story.steps) for story in narratives)
    chosen = list(range(1, longest + 1)) if steps is None else list(steps)
    axes = new_story_grid(2, len(chosen)) if axes is None else np.asarray(axes)
    left, top, width, height = patch_box(changed, patches)
    middle = (left - 0.5 + width / 2, top - 0.5 + height / 2)
    for row, (story, image) in enumerate(zip(narratives, images, strict=True)):
        here = [step for step in chosen if step <= len(story.steps)]
        plot_image_narrative(story, image, patches, here, axes[row, : 2 * len(here)])
        for ax in axes[row, 2 * len(here) :]:
            ax.set_axis_off()
        if row == 0:
            continue
        for place, step in enumerate(here):
            shown = {unit for s in story.steps[:step] for unit in s.units}
            if changed in shown:
                _point_at(axes[row, 2 * place], middle, patches)
    axes[0, 0].set_ylabel("as it is")
    axes[1, 0].set_ylabel("one patch changed")
    return axes


def _point_at(ax: Any, middle: tuple[float, float], patches: Patches) -> None:
    """An arrow from the nearer side of the image."""
    width = patches.shape[1]
    from_left = middle[0] < width / 2
    ax.annotate(
        "",
        xy=(middle[0] + (-0.06 if from_left else 0.06) * width, middle[1]),
        xytext=(-0.5 if from_left else width - 0.5, middle[1]),
        arrowprops={
            "arrowstyle": "-|>",
            "color": BLACK,
            "linewidth": 2,
            "shrinkA": 0,
            "shrinkB": 0,
        },
        zorder=8,
        annotation_clip=False,
    )
