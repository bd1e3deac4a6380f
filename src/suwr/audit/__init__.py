"""Audits of feature selectors for information leakage.

`audit` queries a selector with counterfactual rows and reports either a witness of leakage or the
size of leak that would have been detected. `audit_masks` measures leakage from masks alone.
`suwr.audit.adapters` makes selectors of the attributions of other libraries.

The package is callable: ``suwr.audit(selector, X)`` is ``suwr.audit.audit(selector, X)``.
"""

import sys
from types import ModuleType
from typing import Any

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


class _CallableModule(ModuleType):
    # `suwr.audit` is both this package and, in the public API, the function.
    def __call__(self, *args: Any, **kwargs: Any) -> AuditReport:
        return audit(*args, **kwargs)


sys.modules[__name__].__class__ = _CallableModule
