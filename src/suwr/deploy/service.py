"""What the service answers, without HTTP: every answer follows from the request and the model.

Requests that arrive while others are answered are answered together, by the thread of `Worker`.

Networks are evaluated in blocks of a fixed number of rows, so that a row gets the same bits in any
batch. A block of one session takes as long as one of hundreds.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
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
    MAX_SHOWN,
    NO_LIMIT,
    NextRequest,
    RequestError,
    RowsRequest,
    parse_rows,
    read_request,
)
from suwr.estimators.limits import known_at_start, largest_budget, start_distance
from suwr.estimators.session import InputError, make_given
from suwr.exceptions import TableError
from suwr.narrative.effects import UsualEffect
from suwr.narrative.explanation import Explanation, Narrative
from suwr.narrative.given import Given
from suwr.nn.rollout import Trace
from suwr.nn.step import Starts
from suwr.report import page_html


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
        Values known in advance, unavailable units, and the budget.
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
    usual : UsualEffect or None
        How often the unit that is asked for moves the prediction; see `Step.usual`.
    alternatives : tuple of str
        Units that the policy might as well have asked for.
    """

    narrative: Narrative | None
    next_unit: str | None
    next_columns: tuple[str, ...]
    partial: dict[str, Any]
    dropped: tuple[str, ...]
    start_distance: int | None = None
    gain: float | None = None
    usual: UsualEffect | None = None
    alternatives: tuple[str, ...] = ()

    @property
    def done(self) -> bool:
        """Whether the policy has stopped."""
        return not self.next_columns


#: From a replayed session to the response.
Finish = Callable[[Replay], dict[str, Any]]


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
        self.description = self.fitted.description
        self.questions = {name: Question.of(name, code) for name, code in self.fitted.codes.items()}

    @cached_property
    def page(self) -> str:
        """The HTML page with the model and one row of typical values."""
        cells = []
        for code in self.fitted.codes.values():
            column = np.empty(1, dtype=object)
            if code.categories is None:
                column[0] = float(f"{code.center:.6g}")
            elif code.categories:
                column[0] = code.categories[0]
            cells.append(column)
        table = self.model.encoder_.parse(cells)
        explanation = self._explain_table(table, ["of typical values"])
        return page_html(explanation, title="A model, step by step")

    def pages(self, bodies: Sequence[bytes]) -> list[Any]:
        """Answer requests for the page."""
        return [self.page] * len(bodies)

    def next(self, bodies: Sequence[bytes]) -> list[Any]:
        """Answer requests for the next question: by a response, or by an exception each."""
        return self.answer_sessions(bodies, lambda body: (self.read_next(body), self.state))

    def answer_sessions(
        self, bodies: Sequence[bytes], read: Callable[[bytes], tuple[Answers, Finish]]
    ) -> list[Any]:
        """Replay the sessions of requests in one rollout.

        Parameters
        ----------
        bodies : sequence of bytes
        read : callable
            From a body to the answers, and a function from their replay to the response.

        Returns
        -------
        list
            The response to each request, or an exception.
        """
        found = [_attempt(read, body) for body in bodies]
        replays = iter(self.replay([f[0] for f in found if not isinstance(f, Exception)]))
        results: list[Any] = []
        for request in found:
            result = request if isinstance(request, Exception) else next(replays)
            if isinstance(result, Replay):
                result = _attempt(request[1], result)
            results.append(result)
        return results

    def read_next(self, body: bytes) -> Answers:
        """Read the body of a request for the next question."""
        request = read_request(NextRequest, body)
        self._check_model(request.model)
        self._check_columns(request.answers)
        given = self._read_given(request)
        twice = [name for name in given.known if name in request.answers]
        if twice:
            raise RequestError(f"{twice[0]!r} is in 'known' and in 'answers'.", twice[0])
        return Answers(request.answers, request.unasked == "drop", given)

    def _check_columns(self, values: Mapping[str, Any]) -> None:
        unknown = next((name for name in values if name not in self.questions), None)
        if unknown is not None:
            name = unknown[:MAX_SHOWN]
            raise RequestError(f"The model has no column {name!r}.", name)

    def _read_given(self, request: NextRequest) -> Given:
        """Read the limits of a request."""
        known, unavailable, limit = request.known, request.unavailable, request.max_cost
        n_units, largest = len(self.model.units_), largest_budget(self.policy.inputs)
        if len(unavailable) > n_units:
            raise RequestError(
                f"'unavailable' must have at most {n_units} entries, the number of units.",
                "unavailable",
            )
        if largest is not None and limit is not None and limit > largest:
            raise RequestError(
                f"'max_cost' must be at most {largest:g}, the largest budget that the model was "
                "fitted for.",
                "max_cost",
            )
        limit = None if limit == NO_LIMIT else limit
        other = known.keys() - set(self.start)
        if self.fitted.guarantee and (other or unavailable or limit is not None):
            raise RequestError(
                "The model is certified for one policy on whole rows: 'known' (except for columns "
                "that it always knows), 'unavailable' and 'max_cost' are not possible.",
                "known" if other else "unavailable" if unavailable else "max_cost",
            )
        try:
            return make_given(self.fitted, known, unavailable, limit)
        except InputError as error:
            raise RequestError(error.message, error.field) from None

    def state(self, replay: Replay) -> dict[str, Any]:
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
                "moves": None if replay.usual is None else f"Moves {replay.usual}.",
                "alternatives": list(replay.alternatives),
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
            self._check_left(tuple(answers), session.drop)
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
                replay = replace(replay, start_distance=distances[row], gain=gain)
                replays.append(self._with_outlook(replay, trace, row))
            except RequestError as error:
                replays.append(error)
        return replays

    def _with_outlook(self, replay: Replay, trace: Trace, row: int) -> Replay:
        """Add why the next unit is asked for, and what might be asked instead."""
        if replay.done or replay.narrative is None:
            return replay
        step = len(replay.narrative.steps)
        assert trace.alternatives is not None
        assert trace.odds is not None
        others = self.fitted.alternatives(trace.alternatives[row, step], trace.odds[row, step])
        usual = self.fitted.usual(trace.order[row, step], step + 1)
        return replace(replay, usual=usual, alternatives=tuple(others))

    def _replay(
        self, table: Table, row: int, session: Answers, narrative: Narrative, units: list[int],
        columns: list[int], invalid: list[int],
    ) -> Replay:  # fmt: skip
        names, given = self.model.encoder_.names, session.values
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
        self._check_left(left, session.drop)
        unit = " + ".join(self.model.units_.names[u] for u in units) if invalid else None
        return Replay(narrative, unit, tuple(names[c] for c in invalid), partial, left)

    def _check_left(self, left: Sequence[str], drop: bool) -> None:
        """Refuse answers that are left over, unless they are dropped."""
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

    def predict(self, bodies: Sequence[bytes]) -> list[Any]:
        """Predict the rows of requests: a response or an exception each."""
        return self._answer_rows(bodies, "predictions", self._row_prediction)

    def explain(self, bodies: Sequence[bytes]) -> list[Any]:
        """Explain the rows of requests, with receipts: a response or an exception each."""
        return self._answer_rows(bodies, "narratives", lambda n: n.to_dict() | self.final(n))

    def _row_prediction(self, narrative: Narrative) -> dict[str, Any]:
        found = self._prediction(narrative)
        found["columns"] = [c for step in narrative.steps for c in step.columns]
        return found if narrative.given is None else found | {"known": list(narrative.given.known)}

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

    def _answer_rows(
        self, bodies: Sequence[bytes], name: str, describe: Callable[[Narrative], Any]
    ) -> list[Any]:
        """Explain the rows of all requests together, and describe their narratives."""
        requests = [_attempt(self._read_rows, body) for body in bodies]
        valid = [rows for rows in requests if not isinstance(rows, Exception)]
        if not valid:
            return requests
        encoder = self.model.encoder_
        table = parse_rows(encoder, [row for rows in valid for row in rows])
        labels = [number for rows in valid for number in range(len(rows))]
        try:
            narratives = list(self._explain_table(table, labels))
        except TableError as error:
            # The row is named by its number in a single request, which the worker tries next.
            raise RequestError(str(error), "rows") from None
        used = [{c for step in n.steps for c in step.columns}.union(self.start) for n in narratives]
        mask = np.array([[name in columns for name in encoder.names] for columns in used])
        unusual = find_unusual(encoder, table, mask)

        def respond(part: range) -> dict[str, Any]:
            return {
                "model": self.digest,
                name: [describe(narratives[number]) for number in part],
                "unusual": [
                    {"row": int(v.row) - part.start, "column": v.column, "reason": v.reason}
                    for v in unusual
                    if int(v.row) in part
                ],
            }

        last, results = 0, list[Any]()
        for rows in requests:
            if not isinstance(rows, Exception):
                last += len(rows)
                rows = _attempt(respond, range(last - len(rows), last))
            results.append(rows)
        return results

    def _read_rows(self, body: bytes) -> list[dict[str, Any]]:
        request = read_request(RowsRequest, body)
        self._check_model(request.model)
        n_rows = len(request.rows)
        if n_rows > self.max_rows:
            message = f"'rows' must have at most {self.max_rows} objects. Got {n_rows}."
            raise RequestError(message, "rows", 413)
        return request.rows

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

    def _check_model(self, digest: str | None) -> None:
        if digest not in (None, self.digest):
            raise RequestError(
                "This is the service of another model or version: its digest is "
                f"{self.digest}. Start again without 'model'.",
                "model",
                409,
            )


def _attempt(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a function returns, or the exception that it raises."""
    try:
        return function(*arguments)
    except Exception as error:
        return error


def _is_invalid(table: Table, row: int, column: int) -> bool:
    cells = table.invalid.get(column)
    return cells is not None and cells[row] is not None


def _check_text(name: str, value: Any) -> None:
    """Refuse texts that no receipt can hold."""
    try:
        check_unicode([value], name)
    except ValueError:
        raise RequestError(f"The value of {name!r} must be valid Unicode.", name) from None


# Requests that are answered together, and the size of their bodies if there are several.
MAX_BATCH, MAX_BYTES = 256, 2**16

#: From the bodies of requests to responses or exceptions.
Compute = Callable[[Sequence[bytes]], list[Any]]


class _Job(NamedTuple):
    """The body of a request, and where its response goes."""

    body: bytes
    result: asyncio.Future[Any]


class Worker:
    """Answers requests in one thread, in batches of one kind; the kinds take turns.

    Parameters
    ----------
    waiting : int
        Requests that may wait; more are refused.
    """

    def __init__(self, waiting: int) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="suwr-serve")
        self._most, self._n = waiting, 0
        self._queues: dict[Compute, deque[_Job]] = {}
        self._task: asyncio.Task[None] | None = None

    async def run(self, compute: Compute, body: bytes = b"") -> Any:
        """Return the response to a request.

        Parameters
        ----------
        compute : callable
            Answers several requests of a kind, each by a response or by an exception.
        body : bytes
            Also parsed by ``compute``, so that it does not keep others waiting.
        """
        if self._n >= self._most:
            raise RequestError("Too many requests are waiting. Try again later.", status=503)
        self._n += 1
        try:
            loop = asyncio.get_running_loop()
            job = _Job(body, loop.create_future())
            self._queues.setdefault(compute, deque()).append(job)
            if self._task is None or self._task.done():
                self._task = loop.create_task(self._work())
            return await job.result
        finally:
            self._n -= 1

    async def _work(self) -> None:
        """Answer a batch of each kind in turn, until no request is left."""
        loop = asyncio.get_running_loop()
        while self._queues:
            compute, queue = next(iter(self._queues.items()))
            del self._queues[compute]
            jobs = _next_batch(queue)
            if queue:
                self._queues[compute] = queue
            bodies = [job.body for job in jobs]
            results = await loop.run_in_executor(self._thread, _answer, compute, bodies)
            for job, result in zip(jobs, results, strict=True):
                if job.result.done():
                    continue
                if isinstance(result, Exception):
                    job.result.set_exception(result)
                else:
                    job.result.set_result(result)


def _next_batch(queue: deque[_Job]) -> list[_Job]:
    """Take jobs from a queue, without those whose clients no longer wait."""
    jobs, size = list[_Job](), 0
    while queue and len(jobs) < MAX_BATCH and (not jobs or size + len(queue[0].body) <= MAX_BYTES):
        job = queue.popleft()
        if not job.result.done():
            jobs.append(job)
            size += len(job.body)
    return jobs


def _answer(compute: Compute, bodies: Sequence[bytes]) -> list[Any]:
    """Answer each request, if necessary apart from those for which a batch fails."""
    found = _attempt(compute, bodies) if bodies else []
    if not isinstance(found, Exception):
        return found
    if len(bodies) == 1:
        return [found]
    half = len(bodies) // 2
    return _answer(compute, bodies[:half]) + _answer(compute, bodies[half:])
