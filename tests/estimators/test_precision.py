"""Fits and predictions do not depend on the precision that a caller has set for torch."""

from contextlib import contextmanager

import numpy as np
import pytest
import torch

import suwr
from suwr import SUWRClassifier

X = np.random.RandomState(0).randn(60, 4)
PARAMETERS = {
    "max_epochs": 2,
    "training": {"hidden_size": 8},
    "sparsity_weight": 0.001,
    "random_state": 0,
}


@contextmanager
def double():
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.fixture(scope="module")
def fitted():
    return SUWRClassifier(**PARAMETERS).fit(X, X[:, 0] > 0)


@pytest.mark.parametrize(
    "setting", [double, lambda: torch.autocast("cpu", dtype=torch.bfloat16)], ids=["double", "cast"]
)
def test_settings_of_the_caller_have_no_influence(fitted, setting, tmp_path):
    expected = fitted.predict_proba(X), fitted.select(X)
    fitted.save(tmp_path / "model.suwr")
    with setting():
        again = SUWRClassifier(**PARAMETERS).fit(X, X[:, 0] > 0)
        for model in (fitted, again, suwr.load(tmp_path / "model.suwr")):
            np.testing.assert_array_equal(model.predict_proba(X), expected[0])
            np.testing.assert_array_equal(model.select(X), expected[1])
