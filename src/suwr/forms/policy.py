"""Policies from which forms are made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from suwr.data.descriptions import Question
from suwr.data.encode import ColumnCode
from suwr.estimators.limits import always_known, check_plain_costs
from suwr.estimators.results import decide_masked

__all__ = ["FormPolicy", "ModelPolicy", "State"]


class State(NamedTuple):
    """What a policy decides after some answers.

    Attributes
    ----------
    units : tuple of int
        The units that it asks for next; empty if it stops.
    prediction : tuple of float
        Class probabilities, or one value.
    """

    units: tuple[int, ...]
    prediction: tuple[float, ...]


class FormPolicy(Protocol):
    """A deterministic policy over named columns.

    Attributes
    ----------
    questions : dict
        From column to `suwr.data.descriptions.Question`, in the order of the columns.
    codes : dict
        From column to its encoding, which lists categories and training values.
    units : sequence of (str, tuple of str)
        Names and columns of the units.
    costs : sequence of float
    start : sequence of str
        Columns that are known at the start of every row: the form asks for them first.
    classes : tuple or None
        Class labels; None for regression.
    max_steps : int
        Steps after which the policy stops.
    resolution : float
        Values within this distance of each other count as the same prediction of a regression.
    """

    questions: dict[str, Question]
    codes: dict[str, ColumnCode]
    units: Sequence[tuple[str, tuple[str, ...]]]
    costs: Sequence[float]
    start: Sequence[str]
    classes: tuple[Any, ...] | None
    max_steps: int
    resolution: float

    def decide(self, answers: Sequence[Mapping[str, Any]]) -> list[State]:
        """Return the state after each set of answers, given by column."""
        ...


class ModelPolicy:
    """The greedy policy of a fitted model, as a `FormPolicy`.

    Parameters
    ----------
    model : SUWRClassifier or SUWRRegressor
        Fitted.
    mean_features : float, optional
        As in ``select``, for a model that was fitted for a range.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from suwr import SUWRClassifier
    >>> from suwr.forms import ModelPolicy
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> policy = ModelPolicy(SUWRClassifier(max_epochs=1, random_state=0).fit(X, y))
    >>> len(policy.decide([{}])[0].prediction)
    3
    """

    def __init__(self, model: Any, mean_features: float | None = None) -> None:
        self.model = model
        self._policy = model._policy_at(None, mean_features)
        check_plain_costs(model)
        names, codes = model.encoder_.names, model.encoder_.codes
        if model.encoder_.unrecorded:
            # A value that was asked for may turn out to be missing.
            codes = [replace(code, has_missing=True) for code in codes]
        self.codes = dict(zip(names, codes, strict=True))
        self.questions = {name: Question.of(name, code) for name, code in self.codes.items()}
        self.units: Sequence[tuple[str, tuple[str, ...]]] = [
            (name, tuple(names[c] for c in model.units_.columns_of(number)))
            for number, name in enumerate(model.units_.names)
        ]
        self.costs: Sequence[float] = model.units_.costs.tolist()
        self.start: Sequence[str] = always_known(model)
        self.classes: tuple[Any, ...] | None = model._class_labels()
        self.max_steps = self._policy.max_steps
        self.resolution = 0.5 * getattr(model, "target_scale_", 1.0)
        if getattr(model, "target_transform", None) is not None:
            # The scale is that of the transformed target.
            quarter = np.array([[-0.25], [0.25]], dtype=np.float32)
            low, high = model._in_user_units(quarter)[:, 0]
            self.resolution = float(high - low)

    def decide(self, answers: Sequence[Mapping[str, Any]]) -> list[State]:
        """See `FormPolicy`."""
        names = self.model.encoder_.names
        columns = []
        for name in names:
            column = np.empty(len(answers), dtype=object)
            for number, known in enumerate(answers):
                column[number] = known.get(name)
            columns.append(column)
        table = self.model.encoder_.parse(columns)
        masks = np.array([[name in known for name in names] for known in answers])
        found = decide_masked(self.model, self._policy, table, masks)
        states = []
        for number in range(len(answers)):
            stops = found.stop_probability[number] >= 0.5
            units = () if stops else tuple(int(u) for u in found.units[number] if u >= 0)
            states.append(State(units, tuple(found.prediction[number].tolist())))
        return states
