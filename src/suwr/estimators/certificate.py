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
# Groups that a sentence lists by name.
_MAX_LISTED = 4


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
        Of the hypothesis that the risk is at least ``level``; the largest over all groups and
        numbers of steps. 0 if everything is revealed, which has no risk by definition.
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

    Examples
    --------
    >>> c = Certificate("disagreement", 0.05, 0.95, 500, 0.02, 0.001, 3.1, 30.0, "gain", 0.01)
    >>> print(c.sentence)  # doctest: +NORMALIZE_WHITESPACE
    Certified on 500 rows: with 95 % confidence, at most 5 % of new rows would be predicted
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

    @property
    def sentence(self) -> str:
        """The guarantee in one sentence."""
        if self.reveals_everything:
            return (
                f"No policy that leaves features unrevealed could be certified at {self._risk} "
                f"with {_percent(self.confidence)} confidence, so all features are revealed."
            )
        return (
            f"Certified on {self.n_rows:,} rows: with {_percent(self.confidence)} confidence, "
            f"{self._claim}{self._scope}."
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
        if self.groups is not None:
            listed = ", ".join(printable(g) for g in self.groups[:_MAX_LISTED])
            more = len(self.groups) - _MAX_LISTED
            parts.append(f"in each group ({listed}{f' and {more} more' if more > 0 else ''})")
        if self.steps is not None:
            parts.append(
                f"also among the rows that stop within t steps, for every t ≥ {self.steps}"
            )
        return "".join(f", {part}" for part in parts)

    def __str__(self) -> str:
        return self.sentence

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can represent."""
        return {**asdict(self), "groups": None if self.groups is None else list(self.groups)}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Certificate:
        """Create a certificate from the output of `to_dict`, after checking every value."""
        known = {field.name: field.type for field in fields(cls)}
        if set(stored) != set(known):
            raise ValueError("The certificate does not have the expected fields.")
        for name, kind in known.items():
            if not _is_a(stored[name], str(kind)):
                raise ValueError(f"The field {name!r} of the certificate is invalid.")
        groups = stored["groups"]
        found = cls(**{**stored, "groups": None if groups is None else tuple(groups)})
        if found.rule not in ("confidence", "gain") or found.threshold != found.threshold:
            raise ValueError("The stopping rule of the certificate is invalid.")
        if not (0 < found.level < 1 and 0 < found.confidence < 1 and found.n_rows > 0):
            raise ValueError("The level of the certificate is invalid.")
        return found


def _percent(p: float) -> str:
    """Format a level with as many digits as it was given with."""
    return f"{100 * p:.6g} %"


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
    return isinstance(value, {"bool": bool, "str": str}[kind])


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
