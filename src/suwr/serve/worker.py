"""The thread that computes answers: requests that arrive meanwhile are answered together.

Networks are evaluated in blocks of a fixed number of rows, so that a row gets the same bits in any
batch. A block of one session takes as long as one of hundreds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from suwr.serve.messages import RequestError
from suwr.serve.service import Answers, Replay, Service

__all__ = ["Worker"]

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
