"""Baselines: published feature selection methods with the interface of SUWR's estimators.

The selectors of L2X, INVASE, REAL-X and TabNet read the whole row, so their selections may leak.
CAE selects the same columns for every row. Like SUWR, GDFS, DIME and SEFA decide from what is
revealed.
"""

from __future__ import annotations

import importlib
from typing import Any

# From method to module. Modules are imported on first use: importing this package is light.
_MODULES = {
    "AllFeatures": "references",
    "CAE": "cae",
    "DIME": "dime",
    "EVALX": "realx",
    "GDFS": "gdfs",
    "GlobalOptimum": "references",
    "INVASE": "invase",
    "L2X": "l2x",
    "Oracle": "references",
    "REALX": "realx",
    "SEFA": "sefa",
    "TabNet": "tabnet",
}
_EXPORTS = {
    f"{name}{kind}": f"suwr.baselines.{module}"
    for name, module in _MODULES.items()
    for kind in ("Classifier", "Regressor")
}

#: Names of the methods; each has a classifier and a regressor.
METHODS = tuple(sorted(_MODULES))

__all__ = ["METHODS", *sorted(_EXPORTS)]


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module 'suwr.baselines' has no attribute {name!r}")
    value = getattr(importlib.import_module(_EXPORTS[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
