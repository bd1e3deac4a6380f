"""TabNet, with and without the optional package."""

import sys

import numpy as np
import pytest

from helpers.tables import one_column
from suwr.baselines import TabNetClassifier, TabNetRegressor
from suwr.exceptions import MissingExtraError


def test_error_without_the_package(monkeypatch):
    for name in [n for n in sys.modules if n.startswith("pytorch_tabnet")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [_NoTabNet(), *sys.meta_path])
    X, y, _ = one_column(30)
    with pytest.raises(MissingExtraError, match=r"pip install 'suwr\[baselines\]'"):
        TabNetClassifier(max_epochs=1).fit(X, y)


class _NoTabNet:
    def find_spec(self, name, path=None, target=None):
        if name.startswith("pytorch_tabnet"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return


@pytest.mark.slow
@pytest.mark.parametrize("kind", [TabNetClassifier, TabNetRegressor])
def test_score_and_sparsity(kind):
    pytest.importorskip("pytorch_tabnet")
    X, label, value = one_column()
    y = label if kind is TabNetClassifier else value
    model = kind(
        max_epochs=25, n_steps=1, mask_sparsity_weight=0.05 * np.var(y), random_state=0
    ).fit(X, y)
    masks = model.select(X)
    assert model.score(X, y) > 0.8
    # Some weights are exactly zero, fewer of them in the informative column.
    assert masks[:, 2].mean() > masks.mean() + 0.1
    assert masks.mean() < 0.9


def test_columns_of_a_group_share_one_weight():
    pytest.importorskip("pytorch_tabnet")
    X, y, _ = one_column(100)
    model = TabNetClassifier(max_epochs=3, groups=[[1, 2]], random_state=0).fit(X, y)
    masks = model.select(X)
    np.testing.assert_array_equal(masks[:, 1], masks[:, 2])
