"""Static branching forms: decision trees over questions that follow a policy on paper."""

from suwr.forms.form import Branch, Form, Page, make_form
from suwr.forms.policy import FormPolicy, ModelPolicy
from suwr.forms.regret import Regret, measure_regret
from suwr.forms.writing import FORMATS, write_form

__all__ = [
    "FORMATS",
    "Branch",
    "Form",
    "FormPolicy",
    "ModelPolicy",
    "Page",
    "Regret",
    "make_form",
    "measure_regret",
    "write_form",
]
