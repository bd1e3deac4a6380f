"""Static branching forms: decision trees over questions that follow a policy on paper."""

from suwr.forms.form import Form, make_form
from suwr.forms.policy import ModelPolicy
from suwr.forms.regret import Regret, measure_regret
from suwr.forms.writing import write_form

__all__ = ["Form", "ModelPolicy", "Regret", "make_form", "measure_regret", "write_form"]
