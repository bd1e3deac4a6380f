"""Figures are drawn without a screen and closed after every test."""

import matplotlib as mpl
import pytest

mpl.use("Agg")

import matplotlib.pyplot as plt

from suwr.data.units import Patches
from suwr.explanation import Explanation, Narrative, Step


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def tell(row, units, predictions, stops, classes=("benign", "malignant"), ended="decision"):
    """A narrative of single columns, whose values are their step numbers."""
    steps = tuple(
        Step({unit: {unit: number}}, stops[number], predictions[number - 1], predictions[number])
        for number, unit in enumerate(units, start=1)
    )
    return Narrative(row, predictions[0], stops[0], steps, ended, classes, 5)


@pytest.fixture
def story():
    return tell(
        457, ["texture", "radius"], [(0.6, 0.4), (0.3, 0.7), (0.001, 0.999)], [0.0, 0.25, 0.97]
    )


@pytest.fixture
def explanation(story):
    """Five rows: all ask for the texture, four for the radius next, two for the area then."""
    start, ill, well = (0.6, 0.4), (0.1, 0.9), (0.9, 0.1)
    return Explanation(
        [
            story,
            tell(1, ["texture", "radius"], [start, start, well], [0.0, 0.1, 0.9]),
            tell(2, ["texture", "radius", "area"], [start, ill, ill, ill], [0.0, 0.1, 0.2, 0.8]),
            tell(3, ["texture", "radius", "area"], [start, ill, ill, well], [0, 0.1, 0.2, 1.0],
                 ended="budget"),
            tell(4, ["texture"], [start, well], [0.0, 0.6]),
        ]
    )  # fmt: skip


@pytest.fixture
def patches():
    return Patches((4, 6), size=2, stride=2)


@pytest.fixture
def image_story(patches):
    """Reveals the patch at the top left, then one at the right, then two at once."""
    a, b, c, d = (patches.names[i] for i in (0, 2, 3, 5))
    p = [(0.5, 0.5), (0.4, 0.6), (0.8, 0.2), (0.95, 0.05)]
    units = [[a], [b], [c, d]]
    steps = tuple(
        Step({u: {f"{u} pixel": 1.0} for u in names}, stop, p[i], p[i + 1])
        for i, (names, stop) in enumerate(zip(units, (0.1, 0.2, 0.9), strict=True))
    )
    return Narrative(0, p[0], 0.0, steps, "decision", ("3", "8"), 6)
