"""The HTTP service of a model: next questions, predictions, explanations and FHIR."""

from suwr.serve.app import create_app
from suwr.serve.limits import Limits

__all__ = ["Limits", "create_app"]
