"""Audits of feature selectors for information leakage.

`audit`, which is also ``suwr.audit``, queries a selector with counterfactual rows and reports
either a witness of leakage or the size of leak that would have been detected. `audit_masks`
measures leakage from masks alone. `suwr.auditing.adapters` makes selectors of the attributions of
other libraries.
"""

from suwr.auditing.adapters import top_k
from suwr.auditing.entry import audit, audit_files, audit_masks
from suwr.auditing.gaps import PredictiveGap, PredictiveGaps
from suwr.auditing.report import AuditReport, Witness

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
