"""What the service answers, without HTTP: every answer follows from the request and the model.

Requests that arrive while answers are computed are answered together, by the thread of `Worker`.

Networks are evaluated in blocks of a fixed number of rows, so that a row gets the same bits in any
batch. A block of one session takes as long as one of hundreds.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

import suwr
from suwr._utils.text import check_unicode
from suwr.data.descriptions import Question, find_unusual
from suwr.data.frame import Table
from suwr.deploy.messages import (
    Fields,
    RequestError,
    check_fields,
    parse_rows,
    read_given,
    read_rows,
)
from suwr.estimators.limits import known_at_start, start_distance
from suwr.exceptions import TableError
from suwr.narrative.explanation import Explanation, Narrative
from suwr.narrative.given import Given
from suwr.nn.step import Starts
from suwr.report import page_html

__all__ = ["Answers", "Replay", "Service", "Worker"]


@dataclass(frozen=True)
class Answers:
    """All answers of a session so far.

    Attributes
    ----------
    values : mapping
        From column to value, in any order. Those of columns that the model always knows at the
        start are as if they were in ``given``.
    drop : bool
        Whether to leave out answers that the policy does not ask for, instead of refusing them.
    given : Given
        Values known in advance, units that cannot be had, and the budget.
    """

    values: Mapping[str, Any]
    drop: bool = False
    given: Given = field(default_factory=Given)


@dataclass(frozen=True)
class Replay:
    """A session that was rebuilt from its answers.

    Attributes
    ----------
    narrative : Narrative or None
        The complete steps; ``ended`` is 'open' while the policy asks for more. None if columns that
        the model always knows at the start have no answer yet.
    next_unit : str or None
        The unit that is asked for; None if the policy has stopped or not started.
    next_columns : tuple of str
        The columns that are asked for; empty if the policy has stopped.
    partial : dict
        Answers to the other columns of that unit, or to others that are known at the start.
    dropped : tuple of str
        Columns that were answered, but not asked for.
    start_distance : int or None
        Number of known units that the policy would not have asked for by itself; None if nothing is
        known in advance.
    gain : float or None
        Expected gain of continuing; None if the policy has no such estimate.
    """

    narrative: Narrative | None
    next_unit: str | None
    next_columns: tuple[str, ...]
    partial: dict[str, Any]
    dropped: tuple[str, ...]
    start_distance: int | None = None
    gain: float | None = None

    @property
    def done(self) -> bool:
        """Whether the policy has stopped."""
        return not self.next_columns


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
        self.fitted = model.fitted_policy(mean_features=mean_features)
        self.policy = self.fitted.policy
        self.digest = self.fitted.issuer.model
        self.start = tuple(self.fitted.always_known)
        names, codes = model.encoder_.names, model.encoder_.codes
        self.codes = dict(zip(names, codes, strict=True))
        self.description = self.fitted.description
        self.questions = {name: Question.of(name, code) for name, code in self.codes.items()}

    @cached_property
    def page(self) -> str:
        """The HTML page with the model and one row of typical values."""
        cells = []
        for code in self.codes.values():
            column = np.empty(1, dtype=object)
            if code.categories is None:
                column[0] = float(f"{code.center:.6g}")
            elif code.categories:
                column[0] = code.categories[0]
            cells.append(column)
        table = self.model.encoder_.parse(cells)
        explanation = self._explain_table(table, ["of typical values"])
        return page_html(explanation, title="A model, step by step")

    def read_next(self, request: Fields) -> Answers:
        """Read the body of a request for the next question."""
        fields = {"answers", "unasked", "model", "known", "unavailable", "max_cost"}
        check_fields(request, "body", fields)
        self._check_model(request)
        unasked = request.get("unasked", "error")
        if unasked not in ("error", "drop"):
            raise RequestError("'unasked' must be 'error' or 'drop'.", "unasked")
        answers = check_fields(request.get("answers", Fields([])), "answers")
        given = read_given(self.fitted, self.questions, request)
        twice = [name for name in given.known if name in answers]
        if twice:
            raise RequestError(f"{twice[0]!r} is in 'known' and in 'answers'.", twice[0])
        return Answers(answers, unasked == "drop", given)

    def next(self, replay: Replay) -> dict[str, Any]:
        """Return the next question, or the final answer."""
        state = {"model": self.digest, "done": replay.done, "dropped": list(replay.dropped)}
        if replay.start_distance is not None:
            state["start_distance"] = replay.start_distance
        narrative, stop = replay.narrative, None
        if narrative is not None:
            if replay.done:
                return state | {"answer": self.final(narrative)}
            stop = narrative.stop_probabilities[-1]
        return state | {
            "question": {
                "unit": replay.next_unit,
                "columns": [self.questions[name].to_dict() for name in replay.next_columns],
                "expected_gain": replay.gain,
                "stop_probability": stop,
            },
            "prediction": None if narrative is None else self._prediction(narrative),
        }

    def replay(self, sessions: Sequence[Answers]) -> list[Replay | RequestError]:
        """Rebuild sessions from their answers, all in one rollout.

        The answers of a session are a row whose other cells are invalid. The first invalid cell
        that its rollout reveals is the next question. As in any rollout, only answers to what the
        policy asks for are read, and rows do not influence each other.
        """
        begun = [self._begin(session) for session in sessions]
        rows = [session for session in begun if isinstance(session, Answers)]
        found = iter(self._roll_out(rows) if rows else ())
        return [next(found) if isinstance(b, Answers) else b for b in begun]

    def _begin(self, session: Answers) -> Answers | Replay | RequestError:
        """Take the columns that the model always knows from the answers; ask for those without."""
        given, answers = session.given, dict(session.values)
        start = [c for c in self.start if c not in given.known and not self._is_closed(c, given)]
        if not start:
            return session
        known = {name: answers.pop(name) for name in start if name in answers}
        encoder = self.model.encoder_
        table, numbers = parse_rows(encoder, [known]), {n: encoder.names.index(n) for n in known}
        for name, number in numbers.items():
            if _is_invalid(table, 0, number):
                return self._wrong_type(name)
        lacking = tuple(name for name in start if name not in known)
        if not lacking:
            given = replace(given, known={**given.known, **known})
            return replace(session, values=answers, given=given)
        try:
            self._check_left(answers, tuple(answers), session.drop)
        except RequestError as error:
            return error
        partial = {name: table.value(0, number) for name, number in numbers.items()}
        return Replay(None, None, lacking, partial, tuple(answers))

    def _is_closed(self, column: str, given: Given) -> bool:
        """Whether no available unit has a column."""
        units, number = self.model.units_, self.model.encoder_.names.index(column)
        having = [name for u, name in enumerate(units.names) if number in units.columns_of(u)]
        return bool(given.unavailable) and set(having) <= set(given.unavailable)

    def _roll_out(self, sessions: Sequence[Answers]) -> list[Replay | RequestError]:
        model = self.model
        table = parse_rows(model.encoder_, [{**s.values, **s.given.known} for s in sessions])
        values = self.fitted.encode(table)
        starts = self.fitted.starts_of([session.given for session in sessions])
        distances: list[int | None] = [None] * len(sessions)
        if starts is not None:
            assert starts.known is not None
            found_distances = start_distance(self.policy, values, starts.known).tolist()
            known = zip(sessions, found_distances, strict=True)
            distances = [
                int(n) if self.start or session.given.known else None for session, n in known
            ]
        trace = self.policy.rollout(values, record=True, starts=starts)
        order, found = trace.order.copy(), []
        for row, n_steps in enumerate(trace.n_steps):
            asked: tuple[list[int], list[int], list[int]] = ([], [], [])
            for step in range(n_steps):
                units = [int(u) for u in order[row, step] if u >= 0]
                columns = dict.fromkeys(int(c) for u in units for c in model.units_.columns_of(u))
                invalid = [c for c in columns if _is_invalid(table, row, c)]
                if invalid:
                    # Rollouts of cells that may be unrecorded do not end here.
                    order[row, step:] = -1
                    asked = (units, list(columns), invalid)
                    break
            found.append(asked)
        shorter = replace(trace, order=order)
        labels = ["answers"] * len(sessions)
        narratives = self.fitted.narrate(table, labels, shorter, starts)
        replays: list[Replay | RequestError] = []
        for row, (session, narrative) in enumerate(zip(sessions, narratives, strict=True)):
            try:
                replay = self._replay(table, row, session, narrative, *found[row])
                assert trace.gain is not None
                found_gain = float(trace.gain[row, len(narrative.steps)])
                gain = self.fitted.expected_gain(found_gain)
                replays.append(replace(replay, start_distance=distances[row], gain=gain))
            except RequestError as error:
                replays.append(error)
        return replays

    def _replay(
        self, table: Table, row: int, session: Answers, narrative: Narrative, units: list[int],
        columns: list[int], invalid: list[int],
    ) -> Replay:  # fmt: skip
        names, given = self.model.encoder_.names, session.values
        self._check_left(given, (), session.drop)
        wrong = [names[c] for c in invalid if names[c] in given]
        if wrong:
            raise self._wrong_type(wrong[0])
        used = {name for step in narrative.steps for name in step.columns}
        partial: dict[str, Any] = {}
        if invalid:
            narrative = replace(narrative, ended="open")
            used |= session.given.known.keys()
            new = [c for c in columns if c not in invalid and names[c] not in used]
            partial = {names[c]: table.value(row, c) for c in new}
        left = tuple(name for name in given if name not in used and name not in partial)
        self._check_left(given, left, session.drop)
        unit = " + ".join(self.model.units_.names[u] for u in units) if invalid else None
        return Replay(narrative, unit, tuple(names[c] for c in invalid), partial, left)

    def _check_left(self, answers: Mapping[str, Any], left: Sequence[str], drop: bool) -> None:
        """Refuse unknown columns, and answers that are left over unless they are dropped."""
        unknown = [name for name in answers if name not in self.questions]
        if unknown:
            name = unknown[0][:80]
            raise RequestError(f"The model has no column {name!r}.", name)
        if left and not drop:
            raise RequestError(
                f"{left[0]!r} is answered, but the model does not ask for it after the other "
                'answers. Leave it out, or pass "unasked": "drop".',
                left[0],
            )

    def _wrong_type(self, name: str) -> RequestError:
        expected = self.questions[name].expected
        message = f"The value of {name!r} must be {expected}, or null if it is not available."
        return RequestError(message, name)

    def final(self, narrative: Narrative) -> dict[str, Any]:
        """Return the final answer of a narrative with all that belongs to it."""
        known = {} if narrative.given is None else narrative.given.known
        for values in (known, *(step.values for step in narrative.steps)):
            for name, value in values.items():
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
            self._prediction(n)
            | {"columns": [c for step in n.steps for c in step.columns]}
            | ({} if n.given is None else {"known": list(n.given.known)})
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
            "classes": model.target_.labels,
            "columns": [question.to_dict() for question in self.questions.values()],
            "units": list(model.units_.names),
            "known_at_start": known_at_start(self.policy.inputs, model.encoder_.names),
            "missing": "unrecorded" if model.encoder_.unrecorded else "value",
            "max_steps": model.max_steps_,
            "certificate": self.fitted.guarantee or None,
        }

    def _explain(self, request: Fields) -> tuple[Explanation, list[dict[str, Any]]]:
        check_fields(request, "body", {"rows", "model"})
        self._check_model(request)
        encoder = self.model.encoder_
        table = read_rows(encoder, request.get("rows"), self.max_rows)
        labels = list(range(table.n_rows))
        try:
            explanation = self._explain_table(table, labels)
        except TableError as error:
            raise RequestError(str(error), "rows") from None
        revealed = [{c for step in n.steps for c in step.columns} for n in explanation]
        revealed = [columns.union(self.start) for columns in revealed]
        mask = np.array([[name in row for name in encoder.names] for row in revealed])
        unusual = [
            {"row": value.row, "column": value.column, "reason": value.reason}
            for value in find_unusual(encoder, table, mask)
        ]
        return explanation, unusual

    def _explain_table(self, table: Table, labels: Sequence[Any]) -> Explanation:
        starts = Starts.usual(self.policy.inputs, table.n_rows)
        # A warning would write values to the log.
        return self.fitted.explain(table, labels, starts=starts, warn=False)

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


def _is_invalid(table: Table, row: int, column: int) -> bool:
    cells = table.invalid.get(column)
    return cells is not None and cells[row] is not None


def _check_text(name: str, value: Any) -> None:
    """Refuse texts that no receipt can hold."""
    try:
        check_unicode([value], name)
    except ValueError:
        raise RequestError(f"The value of {name!r} must be valid Unicode.", name) from None


# Sessions that are replayed together.
MAX_BATCH = 256


class _Job(NamedTuple):
    """A session to replay, what to make of it, and where the result goes."""

    answers: Answers
    finish: Callable[[Replay], Any]
    result: asyncio.Future[Any]


class Worker:
    """Computes in one thread, one batch of sessions or one other request at a time.

    Parameters
    ----------
    service : Service
    waiting : int
        Requests that may wait; more are refused.
    """

    def __init__(self, service: Service, waiting: int) -> None:
        self._service = service
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="suwr-serve")
        self._most = waiting
        self._n = 0
        self._jobs: list[_Job] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, compute: Callable[[], Any]) -> Any:
        """Compute something in the thread."""
        self._enter()
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, compute)
        finally:
            self._n -= 1

    async def replay(self, answers: Answers, finish: Callable[[Replay], Any]) -> Any:
        """Replay a session together with others that wait, and return ``finish`` of it."""
        self._enter()
        try:
            loop = asyncio.get_running_loop()
            job = _Job(answers, finish, loop.create_future())
            self._jobs.append(job)
            if len(self._jobs) == 1:
                # One task per batch; it starts when the thread is free.
                task = loop.create_task(self._run_batch())
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            return await job.result
        finally:
            self._n -= 1

    def _enter(self) -> None:
        if self._n >= self._most:
            raise RequestError("Too many requests are waiting. Try again later.", status=503)
        self._n += 1

    async def _run_batch(self) -> None:
        """Answer the jobs that are waiting when the thread becomes free."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._thread, int)
        jobs, self._jobs = self._jobs[:MAX_BATCH], self._jobs[MAX_BATCH:]
        if self._jobs:
            task = loop.create_task(self._run_batch())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        # The clients of cancelled jobs are no longer waiting.
        jobs = [job for job in jobs if not job.result.done()]
        results = await loop.run_in_executor(self._thread, self._compute, jobs)
        for job, result in zip(jobs, results, strict=True):
            if job.result.done():
                continue
            if isinstance(result, Exception):
                job.result.set_exception(result)
            else:
                job.result.set_result(result)

    def _compute(self, jobs: Sequence[_Job]) -> list[Any]:
        """Return a result or an exception for each job."""
        if not jobs:
            return []
        try:
            replays = self._service.replay([job.answers for job in jobs])
        except Exception as error:
            if len(jobs) == 1:
                return [error]
            # One session must not fail the others.
            return [result for job in jobs for result in self._compute([job])]
        return [_finish(job, replay) for job, replay in zip(jobs, replays, strict=True)]


def _finish(job: _Job, replay: Replay | RequestError) -> Any:
    if isinstance(replay, RequestError):
        return replay
    try:
        return job.finish(replay)
    except Exception as error:
        return error
