"""The leakage auditor: does a feature selector tell more than it shows?

``audit`` asks a selector questions whose answers would differ only if it leaks, and reports a
proof, or how hard it looked. ``audit_masks`` does what can be done with masks alone. ``adapters``
makes selectors of what other libraries compute, and ``zoo`` holds selectors whose truth is known.

The package can be called itself: ``suwr.audit(selector, X)`` is ``suwr.audit.audit(selector, X)``.
"""

import sys
from types import ModuleType
from typing import Any

from suwr.audit._audit import audit
from suwr.audit._gaps import Gap, Gaps
from suwr.audit._masks import audit_masks
from suwr.audit._report import AuditReport
from suwr.audit._witness import Witness
from suwr.audit.adapters import top_k
from suwr.audit.files import audit_files

__all__ = ["AuditReport", "Gap", "Gaps", "Witness", "audit", "audit_files", "audit_masks", "top_k"]


class _CallableModule(ModuleType):
    # `suwr.audit` names both this package and the function; importing the first must not hide
    # the second.
    def __call__(self, *args: Any, **kwargs: Any) -> AuditReport:
        return audit(*args, **kwargs)


sys.modules[__name__].__class__ = _CallableModule
