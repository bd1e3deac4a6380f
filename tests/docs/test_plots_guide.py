"""The Python blocks of the guide to plots run, top to bottom, with small models."""

import re
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest

from suwr import Patches, SUWRClassifier, SUWRRegressor
from suwr.exact import FiniteProblem, cube

mpl.use("Agg")

import matplotlib.pyplot as plt

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "plots.md"


@pytest.fixture
def namespace():
    """Images of 4 × 4 pixels, a 3 where the first patch is dark, else an 8; and two bits."""
    rng = np.random.RandomState(0)
    images = rng.randint(0, 256, size=(120, 16)).astype(float)
    labels = np.where(rng.rand(120) < 0.5, 3, 8)
    images[:, [0, 1, 4, 5]] = np.where(labels == 3, 20.0, 240.0)[:, None]
    small = {"hidden_size": 8, "n_layers": 1, "random_state": 0}
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
    # One figure for each call that draws.
    assert len(plt.get_fignums()) == len(
        re.findall(r"(?m)^(?:plot_|explanation\[1\])", "".join(blocks))
    )
    assert namespace["flip"].unit == "patch (0, 0)"
    plt.close("all")
