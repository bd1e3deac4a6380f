"""Presets are valid parameters of the estimators."""

import pytest

from suwr import baselines
from suwr_experiments import presets

DATA = ["toy", "mnist", *(f"syn{n}" for n in range(1, 7))]


@pytest.mark.parametrize("data", DATA)
def test_every_preset_makes_an_estimator(data):
    names = presets.preset_names(data)
    assert {"AllFeatures", "REALX", "CAE", "GDFS", "DIME"} <= set(names)
    assert ("SEFA" in names) == data.startswith("syn")
    for name in names:
        params = presets.preset(data, name)
        # Presets have the former name of the budget, like the keys of the committed records.
        params = {"max_steps" if k == "n_units" else k: v for k, v in params.items()}
        model = getattr(baselines, f"{name}Classifier")(**params)
        model._check_parameters()


def test_published_values():
    assert [presets.preset(f"syn{n}", "L2X")["n_units"] for n in range(1, 7)] == [1, 4, 4, 5, 5, 5]
    assert presets.preset("syn5", "INVASE")["sparsity_weight"] == pytest.approx(0.15 / 11)
    assert presets.preset("syn1", "TabNet")["mask_sparsity_weight"] == 0.02
    assert presets.PATHS["mnist", "CAE"] == ("n_units", (15, 20, 30, 40, 50))


@pytest.mark.parametrize(
    ("data", "method", "message"),
    [
        ("syn7", "L2X", "'data' parameter of preset must be"),
        ("mnist", "L2X", "'method' parameter of preset must be"),
    ],
)
def test_unknown_presets_raise(data, method, message):
    with pytest.raises(ValueError, match=message):
        presets.preset(data, method)
