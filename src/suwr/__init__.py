"""suwr: instance-wise feature selection, provably leakage-free."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

# Public name → module. Imported on first use: `import suwr` stays fast and does not import torch.
_EXPORTS = {
    "Acquisition": "suwr.estimators.session",
    "Column": "suwr.data.descriptions",
    "Costs": "suwr.data.costs",
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
    "engine": "suwr.scale",
    "fit_partitions": "suwr.scale",
    "load": "suwr.estimators.files",
    "minimisation_report": "suwr.estimators.selection",
    "score_partitions": "suwr.scale",
    "sparsity_path": "suwr.estimators.selection",
    "stability": "suwr.estimators.selection",
    "verify": "suwr.estimators.verify",
    "verify_certificate": "suwr.estimators.verify",
}

_MODULES = ("auditing", "baselines", "exact", "exceptions", "plots")

__all__ = sorted([*_EXPORTS, *_MODULES])

if TYPE_CHECKING:
    from suwr import auditing as auditing
    from suwr import baselines as baselines
    from suwr import exact as exact
    from suwr import exceptions as exceptions
    from suwr import plots as plots
    from suwr.auditing.entry import audit as audit
    from suwr.data.costs import Costs as Costs
    from suwr.data.dates import DateParts as DateParts
    from suwr.data.descriptions import Column as Column
    from suwr.data.units import Patches as Patches
    from suwr.estimators.classifier import SUWRClassifier as SUWRClassifier
    from suwr.estimators.files import load as load
    from suwr.estimators.regressor import SUWRRegressor as SUWRRegressor
    from suwr.estimators.selection import minimisation_report as minimisation_report
    from suwr.estimators.selection import sparsity_path as sparsity_path
    from suwr.estimators.selection import stability as stability
    from suwr.estimators.session import Acquisition as Acquisition
    from suwr.estimators.verify import verify as verify
    from suwr.estimators.verify import verify_certificate as verify_certificate
    from suwr.explainer.explainer import SUWRExplainer as SUWRExplainer
    from suwr.narrative.explanation import Explanation as Explanation
    from suwr.narrative.explanation import Narrative as Narrative
    from suwr.narrative.receipt import Receipt as Receipt
    from suwr.scale import engine as engine
    from suwr.scale import fit_partitions as fit_partitions
    from suwr.scale import score_partitions as score_partitions
    from suwr.texts.units import TextUnits as TextUnits
    from suwr.training.config import TrainingConfig as TrainingConfig


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
