"""The guide to figures: its code runs with small models, and it lists every figure."""

import re
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest

from suwr import Patches, SUWRClassifier, SUWRRegressor
from suwr.exact import FiniteProblem, cube
from suwr.plots.gallery import FIGURES

mpl.use("Agg")

import matplotlib.pyplot as plt

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "plots.md"


@pytest.fixture
def namespace():
    """Models and data that the blocks of the guide refer to."""
    # Images of 4 × 4 pixels: a 3 if the first patch is dark, otherwise an 8.
    rng = np.random.RandomState(0)
    images = rng.randint(0, 256, size=(120, 16)).astype(float)
    labels = np.where(rng.rand(120) < 0.5, 3, 8)
    images[:, [0, 1, 4, 5]] = np.where(labels == 3, 20.0, 240.0)[:, None]
    small = {"training": {"hidden_size": 8, "n_layers": 1}, "random_state": 0}
    clf = SUWRClassifier(groups=Patches((4, 4), size=2, stride=2), max_epochs=10, **small)
    bits = np.tile(cube(2), (10, 1))
    return {
        "clf": clf.fit(images, labels),
        "X_test": images[:40],
        "y_test": labels[:40],
        "problem": FiniteProblem(cube(2), [0, 0, 0, 1]),
        "reg": SUWRRegressor(max_epochs=1, **small),
        "X": bits,
        "y": bits.prod(axis=1).astype(float),
    }


def test_python_blocks_run(namespace):
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), flags=re.DOTALL)
    for block in blocks:
        exec(compile(block, str(GUIDE), "exec"), namespace)
    # Every call that draws creates one figure.
    assert len(plt.get_fignums()) == len(
        re.findall(r"(?m)^(?:plot_|explanation\[1\])", "".join(blocks))
    )
    assert namespace["flip"].unit == "patch (0, 0)"
    plt.close("all")


def test_guide_lists_every_figure():
    rows = re.findall(r"(?m)^\| `([\w-]+)` \|", GUIDE.read_text())
    assert rows == [figure.name for figure in FIGURES]
