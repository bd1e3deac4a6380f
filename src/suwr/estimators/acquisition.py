"""Active feature acquisition: the policy requests the units of a new row one at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from suwr.data.parsing import EXPECTED, INVALID, describe_cell
from suwr.data.tables import Table
from suwr.estimators.identity import ModelIssuer
from suwr.explanation import Narrative, Step
from suwr.nn.rollout import Policy
from suwr.receipts import Origin

__all__ = ["Acquisition"]


class Acquisition:
    """A session that requests features one unit at a time; ``acquire`` starts it.

    Its decisions are exactly those that ``explain`` reports for the complete row.

    Attributes
    ----------
    next_unit : str or None
        The unit to acquire next; None if the policy has stopped.
    next_columns : tuple of str
        The columns that the next call of `observe` must provide.
    description : suwr.data.descriptions.TableDescription
        How columns, units and values are worded.
    """

    def __init__(self, model: Any, policy: Policy) -> None:
        self._model = model
        self._policy = policy
        self._known: dict[str, Any] = {}
        self._steps: list[Step] = []
        self._margins: list[float] = []
        self._certificate = model._certificate_sentence()
        self.description = model._description()
        self._evaluate(0)
        self._start = self._state

    @property
    def done(self) -> bool:
        """Whether the policy has stopped."""
        return self.next_unit is None

    @property
    def known(self) -> dict[str, Any]:
        """The observed values by column."""
        return dict(self._known)

    @property
    def prediction(self) -> NDArray[np.float64] | float:
        """Class probabilities, or the predicted value, given the observations so far."""
        values = np.array(self._state[1])
        return values if self._model._class_labels() is not None else float(values[0])

    @property
    def stop_probability(self) -> float:
        """ζ_stop in the current state."""
        return self._state[0]

    def observe(self, values: Mapping[str, Any]) -> Acquisition:
        """Provide the values of the requested unit.

        Parameters
        ----------
        values : mapping
            From every column of ``next_columns``, and no other, to its value. None and NaN mean
            that the value is not available.

        Returns
        -------
        self
        """
        if self.done:
            raise ValueError("The policy has stopped: no unit is requested.")
        missing = [name for name in self.next_columns if name not in values]
        extra = [name for name in values if name not in self.next_columns]
        if missing or extra:
            raise ValueError(
                f"'values' must have exactly the columns {list(self.next_columns)}. "
                f"Got {list(values)} instead."
            )
        read = {name: self._read(name, values[name]) for name in self.next_columns}
        before, requested = self._state[1], self._requested
        self._known.update(read)
        self._evaluate(len(self._steps) + 1)
        revealed = {
            self._model.units_.names[u]: {name: self._known[name] for name in self._columns_of(u)}
            for u in requested
        }
        self._steps.append(Step(revealed, self._state[0], before, self._state[1]))
        return self

    def undo(self) -> Acquisition:
        """Undo the last observation.

        Returns
        -------
        self
        """
        if not self._steps:
            raise ValueError("There is no observation to undo.")
        self._steps.pop()
        kept = {name for step in self._steps for name in step.columns}
        self._known = {name: value for name, value in self._known.items() if name in kept}
        self._evaluate(len(self._steps))
        return self

    def go_on(self) -> Acquisition:
        """Request one more unit after the policy has stopped.

        The selection policy chooses it from the current state.

        Returns
        -------
        self
        """
        if not self.done:
            raise ValueError("The policy has not stopped: it has requested a unit.")
        spent = len(self._steps) >= self._model.max_steps_
        if spent or self._exhausted:
            raise ValueError("No unit is left to request within 'max_steps'.")
        self._request(self._best)
        # A certificate is for rows that stop where the policy does.
        self._certificate = ""
        return self

    def narrative(self, row: int | str = "asked") -> Narrative:
        """Return the steps so far.

        Parameters
        ----------
        row : int or str, default="asked"
            Label of the row.
        """
        model = self._model
        if not self.done:
            ended = "open"
        elif self._exhausted:
            ended = "everything"
        else:
            ended = model._budget_ending() if len(self._steps) == model.max_steps_ else "decision"
        return Narrative(
            row, self._start[1], self._start[0], tuple(self._steps), ended,
            model._class_labels(), len(model.units_), self._certificate,
            Origin(ModelIssuer(model, self._policy), tuple(self._margins)), self.description,
        )  # fmt: skip

    def _columns_of(self, unit: int) -> tuple[str, ...]:
        names = self._model.encoder_.names
        return tuple(names[c] for c in self._model.units_.columns_of(unit))

    def _read(self, name: str, value: Any) -> Any:
        """Parse one value by the type of its column."""
        code = self._model.encoder_.codes[self._model.encoder_.names.index(name)]
        read = code.parse(value)
        if read is INVALID:
            raise ValueError(
                f"The value of {name!r} must be {EXPECTED[code.type]} or None. "
                f"Got {describe_cell(value)} instead."
            )
        if isinstance(read, float) and read.is_integer() and abs(read) < 2**53:
            return int(read)
        return read

    def _evaluate(self, n_steps: int) -> None:
        """Evaluate the policy and the predictor in the current state."""
        model = self._model
        policy, names = self._policy, model.encoder_.names
        columns: list[NDArray[Any]] = []
        for name, code in zip(names, model.encoder_.codes, strict=True):
            value = self._known.get(name)
            if code.categories is None:
                columns.append(np.array([np.nan if value is None else float(value)]))
            else:
                columns.append(np.array([value], dtype=object))
        values = model._encode(Table(columns, 1))
        mask = torch.tensor([[name in self._known for name in names]], device=values.device)
        with torch.inference_mode():
            decision = policy.decide(values, mask)
            prediction = policy.predict(values, mask).cpu().numpy()
        spent = n_steps >= policy.max_steps
        probability = 1.0 if spent else float(decision.stop_probability[0])
        margin = float("inf") if spent else float(decision.margin(policy.units_per_step)[0])
        self._margins[n_steps:] = [margin]
        self._exhausted = not bool(decision.available.any())
        shown = model._in_user_units(prediction)[0]
        self._state = (probability, tuple(float(p) for p in shown))
        best = decision.best(policy.units_per_step)[0].tolist()
        self._best = [u for u in best if u >= 0]
        self._request([] if probability >= 0.5 else self._best)

    def _request(self, units: list[int]) -> None:
        self._requested = units
        self.next_unit = " + ".join(self._model.units_.names[u] for u in units) or None
        self.next_columns = tuple(
            dict.fromkeys(
                name for u in units for name in self._columns_of(u) if name not in self._known
            )
        )
