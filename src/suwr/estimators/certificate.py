"""`Certificate`: the guarantee of a certified model, and the digest of the model that it is for."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from suwr._utils.text import format_value, printable

__all__ = ["RISKS", "Certificate", "policy_digest"]

#: The built-in risks; a callable has the name of the function.
RISKS = ("disagreement", "error", "loss")
# Groups or classes that a sentence lists by name.
_MAX_LISTED = 4
# Fields that earlier certificates lack; None in `from_dict`, and left out by `to_dict`.
_ADDED = ("class_names", "class_kind", "empty_risk", "needs_nothing")


@dataclass(frozen=True)
class Certificate:
    """The guarantee that ``certify`` established; see the attribute ``certificate_``.

    With probability at least ``confidence`` over the calibration rows, the expected risk of a new
    exchangeable row is at most ``level``.

    Attributes
    ----------
    risk : str
        'disagreement', 'error', 'loss' or the name of the function.
    level, confidence : float
    n_rows : int
        Calibration rows that the policy was tested on.
    empirical_risk : float
        Mean risk of these rows; of the answered ones if ``abstain``.
    p_value : float
        Of the hypothesis that the risk is at least ``level``; the largest over all groups, classes
        and numbers of steps. 0 if everything is revealed, which has no risk by definition.
    mean_cost, full_cost : float
        Mean cost of the calibration rows, and the cost of revealing everything.
    rule : {'confidence', 'gain'}
        What the policy stops by.
    threshold : float
        'confidence': the policy stops where the odds of all other classes against the predicted one
        are at most this. 'gain': where the expected gain of continuing is at most this, in units of
        the loss of the best constant prediction.
    sparsity_weight : float or None
        λ, for a model that was fitted for a range.
    tolerance : float or None
        Difference of predicted values that does not count; regression only.
    groups : tuple of str or None
        The groups in each of which the guarantee holds.
    steps : int or None
        The guarantee also holds among the rows that stop within t steps, for each t from this on.
    abstain : bool
        Whether the guarantee is for answered rows only; rows that use up ``max_steps`` abstain.
    answered : float
        Fraction of the calibration rows that are answered.
    reveals_everything : bool
        Whether no cheaper policy passed the test, so that every feature is revealed.
    classes : bool
        Whether predictions are classes.
    digest : str
        SHA-256 of all that determines the decisions of the model.
    class_names : tuple of str or None
        The classes in each of which the guarantee holds.
    class_kind : {'true', 'predicted'} or None
        What these are classes of: the labels, or the predictions with everything revealed.
    empty_risk : float or None
        Mean risk, on the same rows, of the policy that stops at once; the largest over all groups
        and classes. None if everything is revealed.
    needs_nothing : bool or None
        Whether the policy that stops at once meets the level on these rows too, so that the
        guarantee says little.

    Examples
    --------
    >>> c = Certificate("disagreement", 0.05, 0.95, 500, 0.02, 0.001, 3.1, 30.0, "gain", 0.01)
    >>> print(c.sentence)  # doctest: +NORMALIZE_WHITESPACE
    Certified on 500 rows: with probability 95 %, at most 5 % of new rows would be predicted
    otherwise if all features were revealed.
    """

    risk: str
    level: float
    confidence: float
    n_rows: int
    empirical_risk: float
    p_value: float
    mean_cost: float
    full_cost: float
    rule: str
    threshold: float
    sparsity_weight: float | None = None
    tolerance: float | None = None
    groups: tuple[str, ...] | None = None
    steps: int | None = None
    abstain: bool = False
    answered: float = 1.0
    reveals_everything: bool = False
    classes: bool = True
    digest: str = ""
    class_names: tuple[str, ...] | None = None
    class_kind: str | None = None
    empty_risk: float | None = None
    needs_nothing: bool | None = None

    @property
    def sentence(self) -> str:
        """The guarantee in one sentence, and the `caution`."""
        if self.reveals_everything:
            return (
                f"No policy that leaves features unrevealed could be certified at {self._risk} "
                f"with probability {_percent(self.confidence)}, so all features are revealed."
            )
        found = (
            f"Certified on {self.n_rows:,} rows: with probability {_percent(self.confidence)}, "
            f"{self._claim}{self._scope}."
        )
        return f"{found} {self.caution}" if self.caution else found

    @property
    def caution(self) -> str:
        """That the guarantee is met without acquiring any feature, if it is; '' otherwise."""
        if not self.needs_nothing or self.empty_risk is None:
            return ""
        by_row = self.risk in ("disagreement", "error")
        if by_row and self.classes and self.class_names is None:
            other = "for each class (per='class') or for the loss (risk='loss')"
        elif by_row and not self.classes:
            other = "for the loss (risk='loss') or for a smaller tolerance"
        else:
            other = "for a smaller level"
        return (
            "This is met without acquiring any feature: the prediction at the start has a risk of "
            f"{100 * self.empty_risk:.2g} % on these rows. A guarantee {other} says more."
        )

    @property
    def _risk(self) -> str:
        return f"a risk ({printable(self.risk)}) of at most {_percent(self.level)}"

    @property
    def _claim(self) -> str:
        level = _percent(self.level)
        rows = "answered rows" if self.abstain else "new rows"
        by = "" if self.tolerance is None else f" by more than {format_value(self.tolerance)}"
        if self.risk == "disagreement":
            how = "otherwise" if self.classes else f"differently{by}"
            return (
                f"at most {level} of {rows} would be predicted {how} if all features were revealed"
            )
        if self.risk == "error":
            wrong = "wrongly" if self.classes else f"wrongly{by}"
            return (
                f"at most {level} of {rows} are predicted {wrong} that would be predicted "
                "correctly if all features were revealed"
            )
        row = "an answered row" if self.abstain else "a new row"
        if self.risk == "loss":
            unit = (
                "loss of the best constant prediction"
                if self.tolerance is None
                else f"square of {format_value(self.tolerance)}"
            )
            return (
                f"the expected loss of {row} exceeds the loss with all features revealed by at "
                f"most {level} of the {unit}"
            )
        return f"the expected risk ({printable(self.risk)}) of {row} is at most {level}"

    @property
    def _scope(self) -> str:
        parts = []
        if self.class_names is not None:
            kind = "true class" if self.class_kind == "true" else "class that all features predict"
            groups = "" if self.groups is None else f" of each group ({_listed(self.groups)})"
            parts.append(f"in each {kind} ({_listed(self.class_names)}){groups}")
        elif self.groups is not None:
            parts.append(f"in each group ({_listed(self.groups)})")
        if self.steps is not None:
            parts.append(
                f"also among the rows that stop within t steps, for every t ≥ {self.steps}"
            )
        return "".join(f", {part}" for part in parts)

    def __str__(self) -> str:
        return self.sentence

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can represent."""
        state = {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}
        return {k: v for k, v in state.items() if v is not None or k not in _ADDED}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Certificate:
        """Create a certificate from the output of `to_dict`, after checking every value."""
        known = {field.name: field.type for field in fields(cls)}
        state: dict[str, Any] = dict.fromkeys(_ADDED) | dict(stored)
        if set(state) != set(known):
            raise ValueError("The certificate does not have the expected fields.")
        for name, kind in known.items():
            if not _is_a(state[name], str(kind)):
                raise ValueError(f"The field {name!r} of the certificate is invalid.")
        state = {k: tuple(v) if isinstance(v, list) else v for k, v in state.items()}
        found = cls(**state)
        if found.class_kind not in (None, "true", "predicted"):
            raise ValueError("The classes of the certificate are invalid.")
        if (found.class_kind is None) != (found.class_names is None):
            raise ValueError("The classes of the certificate are invalid.")
        if found.rule not in ("confidence", "gain") or found.threshold != found.threshold:
            raise ValueError("The stopping rule of the certificate is invalid.")
        if not (0 < found.level < 1 and 0 < found.confidence < 1 and found.n_rows > 0):
            raise ValueError("The level of the certificate is invalid.")
        return found


def _percent(p: float) -> str:
    """Format a level with as many digits as it was given with."""
    return f"{100 * p:.6g} %"


def _listed(names: tuple[str, ...]) -> str:
    listed, more = ", ".join(printable(n) for n in names[:_MAX_LISTED]), len(names) - _MAX_LISTED
    return f"{listed}{f' and {more} more' if more > 0 else ''}"


def _is_a(value: Any, kind: str) -> bool:
    """Whether a value from JSON has the type of a field of the certificate."""
    if value is None:
        return kind.endswith("| None")
    if kind.startswith("tuple"):
        return isinstance(value, list | tuple) and all(isinstance(v, str) for v in value)
    if kind.startswith("float"):
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return number and math.isfinite(value)
    if kind.startswith("int"):
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, {"bool": bool, "str": str}[kind.removesuffix(" | None")])


def _output_facts(model: Any) -> list[Any]:
    """Return what determines predictions from network outputs."""
    labels = model._class_labels()
    if labels is not None:
        return [labels, None, None]
    facts = [None, model.target_center_, model.target_scale_]
    if model.loss != "squared_error":
        facts += [model.loss, model.quantile]
    return facts if model.target_transform is None else [*facts, model.target_transform]


def policy_digest(model: Any) -> str:
    """Return the SHA-256 of all that determines decisions and predictions of a fitted model."""
    policy, units = model.policy_, model.units_
    facts = {
        "kind": type(model).__name__,
        "columns": model.encoder_.names,
        "codes": [
            [code.center, code.scale, code.has_missing, str(code.type), code.categories]
            for code in model.encoder_.codes
        ],
        "units": [units.columns_of(u).tolist() for u in range(len(units))],
        "costs": [float(cost) for cost in units.costs],
        "selectable": model.selectable_units_.tolist(),
        "max_steps": [policy.max_steps, model._max_steps(int(model.selectable_units_.sum()))],
        "units_per_step": [policy.units_per_step, model._step_size()],
        "condition": policy.condition,
        "stop_odds": policy.stop_odds,
        "output": _output_facts(model),
    }  # fmt: skip
    # Digests of certificates from before these existed stay valid.
    if units.setups is not None:
        facts["setups"] = [units.setups.costs.tolist(), units.setups.of_unit.tolist()]
    if units.visits is not None:
        facts["visit_cost"] = units.visits.cost
    if policy.inputs.known is not None:
        facts["known"] = policy.inputs.known.tolist()
    if model.encoder_.unrecorded:
        facts["unrecorded"] = True
    if any(code.knots for code in model.encoder_.codes):
        facts["knots"] = [code.knots for code in model.encoder_.codes]
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode())
    for name, tensor in sorted(policy.network.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().numpy().tobytes())
    return digest.hexdigest()
