"""Audits of feature selectors for information leakage.

`audit` queries a selector with counterfactual rows and reports either a witness of leakage or the
size of leak that would have been detected. `audit_masks` measures leakage from masks alone.
`suwr.audit.adapters` makes selectors of the attributions of other libraries.

The package is callable: ``suwr.audit(selector, X)`` is ``suwr.audit.audit(selector, X)``.
"""

import sys
from types import ModuleType
from typing import Any

from suwr._utils.deprecation import DeprecatedName, deprecated_attribute
from suwr.audit.adapters import top_k
from suwr.audit.entry import audit, audit_files, audit_masks
from suwr.audit.gaps import PredictiveGap, PredictiveGaps
from suwr.audit.report import AuditReport
from suwr.audit.witness import Witness

__all__ = [
    "AuditReport",
    "PredictiveGap",
    "PredictiveGaps",
    "Witness",
    "audit",
    "audit_files",
    "audit_masks",
    "top_k",
]

_DEPRECATED = {
    old: DeprecatedName(f"suwr.audit.gaps:{new}", f"Use suwr.audit.{new}", removal="0.3")
    for old, new in (("Gap", "PredictiveGap"), ("Gaps", "PredictiveGaps"))
}


def __getattr__(name: str) -> Any:
    return deprecated_attribute(__name__, name, _DEPRECATED)


class _CallableModule(ModuleType):
    # `suwr.audit` is both this package and, in the public API, the function.
    def __call__(self, *args: Any, **kwargs: Any) -> AuditReport:
        return audit(*args, **kwargs)


sys.modules[__name__].__class__ = _CallableModule
