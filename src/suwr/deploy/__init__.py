"""Deployment: the HTTP service with FHIR, static branching forms, ONNX files and MLflow models.

The service, ONNX and MLflow need the extras of their names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from suwr._utils.validation import require
from suwr.deploy.form_files import write_form
from suwr.deploy.forms import Form, ModelPolicy, Regret, make_form, measure_regret

if TYPE_CHECKING:
    from suwr.deploy.app import Limits, create_app

__all__ = [
    "Form", "Limits", "ModelPolicy", "Regret", "create_app", "make_form", "measure_regret",
    "write_form",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in ("Limits", "create_app", "run_server"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    for package in ("fastapi", "prometheus_client", "uvicorn"):
        require(package, "serve", "The HTTP service")
    from suwr.deploy import app

    return getattr(app, name)
