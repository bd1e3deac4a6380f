"""suwr: instance-wise feature selection, provably leakage-free."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

# Public name → module. Imported on first use: `import suwr` stays fast and does not import torch.
_EXPORTS = {
    "Acquisition": "suwr.estimators.session",
    "Column": "suwr.data.descriptions",
    "DateParts": "suwr.data.dates",
    "Explanation": "suwr.narrative.explanation",
    "Narrative": "suwr.narrative.explanation",
    "Patches": "suwr.data.units",
    "Receipt": "suwr.narrative.receipt",
    "SUWRClassifier": "suwr.estimators.classifier",
    "SUWRExplainer": "suwr.explainer.explainer",
    "SUWRRegressor": "suwr.estimators.regressor",
    "TextUnits": "suwr.texts.units",
    "TrainingConfig": "suwr.training.config",
    "audit": "suwr.auditing.entry",
    "engine": "suwr.scale.scoring",
    "fit_partitions": "suwr.scale.training",
    "load": "suwr.estimators.files",
    "minimisation_report": "suwr.estimators.selection",
    "score_partitions": "suwr.scale.scoring",
    "sparsity_path": "suwr.estimators.selection",
    "stability": "suwr.estimators.selection",
    "verify": "suwr.estimators.verify",
}

_MODULES = ("auditing", "baselines", "exact", "exceptions", "plots")

__all__ = [
    "Acquisition",
    "Column",
    "DateParts",
    "Explanation",
    "Narrative",
    "Patches",
    "Receipt",
    "SUWRClassifier",
    "SUWRExplainer",
    "SUWRRegressor",
    "TextUnits",
    "TrainingConfig",
    "audit",
    "auditing",
    "baselines",
    "engine",
    "exact",
    "exceptions",
    "fit_partitions",
    "load",
    "minimisation_report",
    "plots",
    "score_partitions",
    "sparsity_path",
    "stability",
    "verify",
]

if TYPE_CHECKING:
    from suwr import auditing, baselines, exact, exceptions, plots
    from suwr.auditing.entry import audit
    from suwr.data.dates import DateParts
    from suwr.data.descriptions import Column
    from suwr.data.units import Patches
    from suwr.estimators.classifier import SUWRClassifier
    from suwr.estimators.files import load
    from suwr.estimators.regressor import SUWRRegressor
    from suwr.estimators.selection import minimisation_report, sparsity_path, stability
    from suwr.estimators.session import Acquisition
    from suwr.estimators.verify import verify
    from suwr.explainer.explainer import SUWRExplainer
    from suwr.narrative.explanation import Explanation, Narrative
    from suwr.narrative.receipt import Receipt
    from suwr.scale.scoring import engine, score_partitions
    from suwr.scale.training import fit_partitions
    from suwr.texts.units import TextUnits
    from suwr.training.config import TrainingConfig


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
