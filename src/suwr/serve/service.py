"""What the service answers, without HTTP: every answer follows from the request and the model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

import suwr
from suwr._utils.text import check_unicode
from suwr.data.questions import Question
from suwr.data.unusual import find_unusual
from suwr.estimators.acquisition import Acquisition
from suwr.estimators.identity import ModelIssuer
from suwr.estimators.results import explain_rows
from suwr.exceptions import TableError
from suwr.explanation import Explanation, Narrative
from suwr.report import page_html
from suwr.serve.messages import Fields, RequestError, check_fields, read_rows

__all__ = ["Replay", "Service"]


@dataclass(frozen=True)
class Replay:
    """A session that was rebuilt from the answers of a request.

    Attributes
    ----------
    session : Acquisition
    partial : dict
        Answers to some columns of the unit that is asked for.
    dropped : tuple of str
        Columns that were answered, but not asked for.
    """

    session: Acquisition
    partial: dict[str, Any]
    dropped: tuple[str, ...]


class Service:
    """Answers requests about one fitted model. It remembers nothing between requests.

    Parameters
    ----------
    model : SUWRClassifier or SUWRRegressor
        Fitted.
    mean_features : float, optional
        As in ``acquire``, for a model that was fitted for a range.
    max_rows : int, default=1000
        Rows per request.
    """

    def __init__(
        self, model: Any, mean_features: float | None = None, max_rows: int = 1000
    ) -> None:
        self.model = model
        self.mean_features = mean_features
        self.max_rows = max_rows
        self.policy = model._policy_at(None, mean_features)
        self.digest = ModelIssuer(model, self.policy).model
        names, codes = model.encoder_.names, model.encoder_.codes
        self.codes = dict(zip(names, codes, strict=True))
        self.questions = {name: Question.of(name, code) for name, code in self.codes.items()}

    @cached_property
    def page(self) -> str:
        """The HTML page with the model and one row of typical values."""
        cells = []
        for code in self.codes.values():
            column = np.empty(1, dtype=object)
            column[0] = code.center if code.categories is None else (code.categories or (None,))[0]
            cells.append(column)
        table = self.model.encoder_.parse(cells)
        explanation = explain_rows(self.model, table, ["typical values"], self.policy)
        return page_html(explanation, title="A model, step by step")

    def next(self, request: Fields) -> dict[str, Any]:
        """Return the next question, or the final answer."""
        check_fields(request, "body", {"answers", "unasked", "model"})
        self._check_model(request)
        unasked = request.get("unasked", "error")
        if unasked not in ("error", "drop"):
            raise RequestError("'unasked' must be 'error' or 'drop'.", "unasked")
        answers = check_fields(request.get("answers", Fields([])), "answers")
        replay = self.replay(answers, drop=unasked == "drop")
        session = replay.session
        state = {"model": self.digest, "done": session.done, "dropped": list(replay.dropped)}
        if session.done:
            return state | {"answer": self.final(session.narrative("answers"))}
        asked = [name for name in session.next_columns if name not in replay.partial]
        return state | {
            "question": {
                "unit": session.next_unit,
                "columns": [self.questions[name].to_dict() for name in asked],
                "expected_gain": self.policy.expected_gain(session.stop_probability),
                "stop_probability": session.stop_probability,
            },
            "prediction": self._prediction(session.narrative("answers")),
        }

    def replay(self, answers: Mapping[str, Any], *, drop: bool = False) -> Replay:
        """Rebuild a session from all answers so far, in whatever order they are given.

        Only answers to what the policy asks for are read. Without ``drop``, any other answer is an
        error.
        """
        unknown = [name for name in answers if name not in self.questions]
        if unknown:
            raise RequestError(
                f"The model has no column {unknown[0][:80]!r}.", unknown[0][:80], status=422
            )
        session: Acquisition = self.model.acquire(mean_features=self.mean_features)
        left = dict(answers)
        partial: dict[str, Any] = {}
        while not session.done:
            given = {name: left.pop(name) for name in session.next_columns if name in left}
            read = {name: self._read(name, value) for name, value in given.items()}
            if len(read) < len(session.next_columns):
                partial = read
                break
            session.observe(read)
        if left and not drop:
            name = next(iter(left))
            raise RequestError(
                f"{name!r} is answered, but the model does not ask for it after the other "
                'answers. Leave it out, or pass "unasked": "drop".',
                name,
            )
        return Replay(session, partial, tuple(left))

    def final(self, narrative: Narrative) -> dict[str, Any]:
        """Return the final answer of a narrative with all that belongs to it."""
        for step in narrative.steps:
            for name, value in step.values.items():
                _check_text(name, value)
        receipt = narrative.receipt()
        return {
            **self._prediction(narrative),
            "narrative": narrative.text(),
            "receipt": json.loads(receipt.to_json()),
            "certificate": receipt.certificate,
        }

    def predict(self, request: Fields) -> dict[str, Any]:
        """Predict rows."""
        explanation, unusual = self._explain(request)
        predictions = [
            self._prediction(n) | {"columns": [c for step in n.steps for c in step.columns]}
            for n in explanation
        ]
        return {"model": self.digest, "predictions": predictions, "unusual": unusual}

    def explain(self, request: Fields) -> dict[str, Any]:
        """Return the narratives of rows, with receipts."""
        explanation, unusual = self._explain(request)
        narratives = [n.to_dict() | self.final(n) for n in explanation]
        return {"model": self.digest, "narratives": narratives, "unusual": unusual}

    def describe(self) -> dict[str, Any]:
        """Return the columns, units and classes of the model."""
        model = self.model
        return {
            "model": self.digest,
            "version": suwr.__version__,
            "target": model.target_name_,
            "classes": model._class_labels(),
            "columns": [question.to_dict() for question in self.questions.values()],
            "units": list(model.units_.names),
            "max_steps": model.max_steps_,
            "certificate": model._certificate_sentence() or None,
        }

    def _explain(self, request: Fields) -> tuple[Explanation, list[dict[str, Any]]]:
        check_fields(request, "body", {"rows", "model"})
        self._check_model(request)
        encoder = self.model.encoder_
        table = read_rows(encoder, request.get("rows"), self.max_rows)
        labels = list(range(table.n_rows))
        try:
            # A warning would write values to the log.
            explanation = explain_rows(self.model, table, labels, self.policy, warn=False)
        except TableError as error:
            raise RequestError(str(error), "rows") from None
        revealed = [{c for step in n.steps for c in step.columns} for n in explanation]
        mask = np.array([[name in row for name in encoder.names] for row in revealed])
        unusual = [
            {"row": value.row, "column": value.column, "reason": value.reason}
            for value in find_unusual(encoder, table, mask)
        ]
        return explanation, unusual

    def _prediction(self, narrative: Narrative) -> dict[str, Any]:
        state: dict[str, Any] = {"prediction": narrative.label, "ended": narrative.ended}
        if narrative.classes is not None:
            state["classes"] = list(narrative.classes)
            state["probabilities"] = list(narrative.prediction)
        return state

    def _check_model(self, request: Fields) -> None:
        given = request.get("model")
        if given is not None and given != self.digest:
            raise RequestError(
                "This is the service of another model or version: its digest is "
                f"{self.digest}. Start again without 'model'.",
                "model",
                409,
            )

    def _read(self, name: str, value: Any) -> Any:
        try:
            return self.questions[name].read(self.codes[name], value)
        except ValueError as error:
            raise RequestError(str(error), name) from None


def _check_text(name: str, value: Any) -> None:
    """Refuse texts that no receipt can hold."""
    try:
        check_unicode([value], name)
    except ValueError:
        raise RequestError(f"The value of {name!r} must be valid Unicode.", name) from None
