"""suwr: feature selection for each prediction that provably tells nothing else."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Public name → module. Imported on first use: `import suwr` stays fast and needs no torch.
_EXPORTS = {
    "Explanation": "suwr.explanation",
    "Narrative": "suwr.explanation",
    "Patches": "suwr.data.units",
    "SUWRClassifier": "suwr.estimators.classifier",
    "SUWRRegressor": "suwr.estimators.regressor",
    "engine": "suwr.scale.engine",
    "fit_partitions": "suwr.scale.training",
    "load": "suwr.estimators.persistence",
    "reveal": "suwr.data.units",
    "score_partitions": "suwr.scale.scoring",
    "sparsity_path": "suwr.estimators.sparsity_path",
}

# `suwr.audit` is a package that can be called: suwr.audit(selector, X).
_MODULES = ("audit", "baselines", "exact", "exceptions", "plots")

__all__ = [
    "Explanation",
    "Narrative",
    "Patches",
    "SUWRClassifier",
    "SUWRRegressor",
    "audit",
    "baselines",
    "engine",
    "exact",
    "exceptions",
    "fit_partitions",
    "load",
    "plots",
    "reveal",
    "score_partitions",
    "sparsity_path",
]

if TYPE_CHECKING:
    from suwr import audit, baselines, exact, exceptions, plots
    from suwr.data.units import Patches, reveal
    from suwr.estimators.classifier import SUWRClassifier
    from suwr.estimators.persistence import load
    from suwr.estimators.regressor import SUWRRegressor
    from suwr.estimators.sparsity_path import sparsity_path
    from suwr.explanation import Explanation, Narrative
    from suwr.scale.engine import engine
    from suwr.scale.scoring import score_partitions
    from suwr.scale.training import fit_partitions


def __getattr__(name: str) -> Any:
    if name in _EXPORTS:
        value = getattr(importlib.import_module(_EXPORTS[name]), name)
    elif name in _MODULES:
        value = importlib.import_module(f"suwr.{name}")
    else:
        raise AttributeError(f"module 'suwr' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
