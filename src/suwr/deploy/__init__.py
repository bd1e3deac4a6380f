"""Deployment: the HTTP service with FHIR, static branching forms, ONNX files and MLflow models.

The service, ONNX and MLflow need the extras of their names.
"""

from suwr.deploy.app import Limits, create_app
from suwr.deploy.form_files import write_form
from suwr.deploy.forms import Form, ModelPolicy, Regret, make_form, measure_regret

__all__ = [
    "Form", "Limits", "ModelPolicy", "Regret", "create_app", "make_form", "measure_regret",
    "write_form",
]  # fmt: skip
