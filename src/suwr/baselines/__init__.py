"""The methods that SUWR is compared with, behind the interface of its estimators.

L2X, INVASE, REAL-X and TabNet look at a whole row to decide what of it to select, so their
selections can leak. CAE selects the same columns for every row. GDFS and DIME decide from what is
revealed, as SUWR does.
"""

from __future__ import annotations

import importlib
from typing import Any

# Public name → module. Imported on first use, so that `suwr.baselines` itself needs no torch.
_MODULES = {
    "AllFeatures": "references",
    "CAE": "cae",
    "DIME": "dime",
    "EVALX": "realx",
    "GDFS": "gdfs",
    "GlobalOptimum": "global_optimum",
    "INVASE": "invase",
    "L2X": "l2x",
    "Oracle": "references",
    "REALX": "realx",
    "TabNet": "tabnet",
}
_EXPORTS = {
    f"{name}{kind}": f"suwr.baselines.{module}"
    for name, module in _MODULES.items()
    for kind in ("Classifier", "Regressor")
}

#: Names of the methods; each has a ``…Classifier`` and a ``…Regressor``.
METHODS = tuple(sorted(_MODULES))

__all__ = ["METHODS", "presets", *sorted(_EXPORTS)]


def __getattr__(name: str) -> Any:
    if name in _EXPORTS:
        value = getattr(importlib.import_module(_EXPORTS[name]), name)
    elif name == "presets":
        value = importlib.import_module("suwr_experiments.presets")
    else:
        raise AttributeError(f"module 'suwr.baselines' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
