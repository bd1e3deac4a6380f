"""Counterfactual images."""

import numpy as np

from suwr.narrative.explanation import Narrative
from suwr.plots import find_flip, plot_counterfactual

IMAGE = np.arange(24.0)


def test_an_arrow_points_at_the_changed_patch(image_narrative, patches):
    changed = patches.names[2]
    shorter = Narrative(
        0, image_narrative.start, 0.0, image_narrative.steps[:2], "decision", ("3", "8"), 6
    )
    axes = plot_counterfactual((image_narrative, shorter), (IMAGE, IMAGE[::-1]), patches, changed)
    assert axes.shape == (2, 6)

    def arrows(ax):
        return [t for t in ax.texts if getattr(t, "arrow_patch", None) is not None]

    assert not any(arrows(ax) for ax in axes[0])
    assert not arrows(axes[1, 0])
    (arrow,) = arrows(axes[1, 2])
    assert arrow.xy[1] == 0.5
    assert arrow.xy[0] > 4.5  # the patch is on the right
    assert not axes[1, 4].axison  # the second narrative is shorter
    assert axes[1, 0].get_ylabel() == "one patch changed"


def test_changing_the_informative_patch_flips_the_prediction(image_model, images):
    X, y = images
    assert image_model.score(X, y) > 0.95
    flip = find_flip(image_model, X, y, "dark", "light", fills=[1.0])
    assert flip.unit == "patch (2, 2)"
    assert y[flip.row] == "dark"
    assert (flip.before.label, flip.after.label) == ("dark", "light")
    # Only that patch was changed, and the narratives agree until it is revealed.
    patches = image_model.groups
    inside = patches.membership()[patches.names.index(flip.unit)]
    np.testing.assert_array_equal(flip.image[~inside], flip.changed[~inside])
    assert (flip.changed[inside] == X.to_numpy()[image_model.select(X)].max()).all()
    assert flip.before.steps[: flip.step - 1] == flip.after.steps[: flip.step - 1]
    assert image_model.predict(X.iloc[[flip.row]])[0] == "dark"


def test_no_flip_is_found_if_there_is_none(image_model, images):
    X, y = images
    assert find_flip(image_model, X, y, "dark", "light", fills=[0.0]) is None
    assert find_flip(image_model, X, y, "green", "light") is None
