"""Figures are drawn off-screen and closed after every test."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

mpl.use("Agg")

import matplotlib.pyplot as plt

from suwr import SUWRClassifier
from suwr.data.units import Patches
from suwr.narrative.explanation import Explanation, Narrative, Step


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def make_narrative(
    row, units, predictions, stops, classes=("benign", "malignant"), ended="decision"
):
    """Return a narrative of single columns whose values are the step numbers."""
    steps = tuple(
        Step({unit: {unit: number}}, stops[number], predictions[number - 1], predictions[number])
        for number, unit in enumerate(units, start=1)
    )
    return Narrative(row, predictions[0], stops[0], steps, ended, classes, 5)


@pytest.fixture
def narrative():
    return make_narrative(
        457, ["texture", "radius"], [(0.6, 0.4), (0.3, 0.7), (0.001, 0.999)], [0.0, 0.25, 0.97]
    )


@pytest.fixture
def explanation(narrative):
    """Five rows: all reveal the texture, four of them the radius next and two the area last."""
    start, ill, well = (0.6, 0.4), (0.1, 0.9), (0.9, 0.1)
    three = ["texture", "radius", "area"]
    return Explanation(
        [
            narrative,
            make_narrative(1, ["texture", "radius"], [start, start, well], [0.0, 0.1, 0.9]),
            make_narrative(2, three, [start, ill, ill, ill], [0.0, 0.1, 0.2, 0.8]),
            make_narrative(3, three, [start, ill, ill, well], [0, 0.1, 0.2, 1.0], ended="budget"),
            make_narrative(4, ["texture"], [start, well], [0.0, 0.6]),
        ]
    )


@pytest.fixture
def patches():
    return Patches((4, 6), size=2, stride=2)


@pytest.fixture
def image_narrative(patches):
    """A narrative that reveals the top left patch, then one on the right, then two at once."""
    a, b, c, d = (patches.names[i] for i in (0, 2, 3, 5))
    p = [(0.5, 0.5), (0.4, 0.6), (0.8, 0.2), (0.95, 0.05)]
    units = [[a], [b], [c, d]]
    steps = tuple(
        Step({u: {f"{u} pixel": 1.0} for u in names}, stop, p[i], p[i + 1])
        for i, (names, stop) in enumerate(zip(units, (0.1, 0.2, 0.9), strict=True))
    )
    return Narrative(0, p[0], 0.0, steps, "decision", ("3", "8"), 6)


# Images of 6 × 6 pixels whose class is the brightness of one patch; the others are noise.
IMAGE_PATCHES = Patches((6, 6), size=2, stride=2)
INFORMATIVE = "patch (2, 2)"


@pytest.fixture(scope="session")
def images():
    rng = np.random.RandomState(0)
    X = rng.randint(0, 256, size=(240, 36)).astype(float)
    y = np.where(rng.rand(240) < 0.5, "dark", "light")
    inside = IMAGE_PATCHES.membership()[IMAGE_PATCHES.names.index(INFORMATIVE)]
    X[:, inside] = np.where(y == "dark", 30.0, 220.0)[:, None] + rng.randint(-20, 20, (240, 4))
    return pd.DataFrame(X, columns=[f"pixel{i}" for i in range(36)]), y


@pytest.fixture(scope="session")
def image_model(images):
    clf = SUWRClassifier(
        groups=IMAGE_PATCHES,
        max_steps=3,
        max_epochs=16,
        training={"hidden_size": 16, "n_layers": 2},
        random_state=0,
    )
    return clf.fit(*images)
