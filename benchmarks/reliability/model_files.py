"""Robustness against corrupted and forged model files and checkpoints.

    python benchmarks/reliability/model_files.py [--models N] [--checkpoints N]

Corrupted files (bit flips, truncations, rewritten headers) must raise `ModelFileError` or hold the
identical content. Forged files, which have a valid digest, must raise `ModelFileError` or load a
model that predicts and can be saved and loaded again; a fit must refuse a forged checkpoint or
finish with such a model. None may execute code. Loading a model and predicting a row must take at
most 2 seconds of CPU time and address space of four times the size of the file plus 200 MB, which
is enforced. The cases are seeded and therefore reproducible.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "helpers"))
import hostile_files
import numpy as np
import pandas as pd
import torch
from limited_load import SLACK, address_space
from raw_cells import mixed_table

from common import machine, write_json
from suwr import Column, Patches, SUWRClassifier, SUWRRegressor
from suwr.estimators.container import FileCheckpoint
from suwr.estimators.files import from_bytes, to_bytes
from suwr.exceptions import (
    ModelFileError,
    TableError,
    UninformativeModelWarning,
    UnusualValueWarning,
)

HERE = Path(__file__).parent
FIXTURES = HERE.parents[1] / "tests" / "estimators" / "fixtures"
GOOD = ("refused", "same content", "working model")
SECONDS = 2.0
# Cases per child process, and the CPU time after which the child is killed.
BATCH, CHILD_SECONDS = 500, 300
# Fractions of the cases; forgeries that load are slow, since each of them must predict.
SHARES = {
    "model files": {
        "bit flips": 0.3, "cuts and splices": 0.2, "headers": 0.2, "states": 0.2, "tensors": 0.04,
        "sizes": 0.02, "deep JSON": 0.04,
    },
    "checkpoints": {
        "bit flips": 0.3, "cuts and splices": 0.25, "headers": 0.25, "states": 0.1, "tensors": 0.1,
    },
}  # fmt: skip
Case = Callable[[bytes, bool], str]


class TooSlow(BaseException):
    """Raised by the timer."""


@contextmanager
def limits(size: int) -> Iterator[None]:
    """Enforce the limits of one load."""

    def stop(*_: Any) -> None:
        raise TooSlow

    signal.signal(signal.SIGPROF, stop)
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (address_space() + 4 * size + SLACK, hard))
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


# One case.


class ModelFile:
    """A stored model, and rows that it can predict."""

    def __init__(self, data: bytes, X: Any) -> None:
        self.data, self.X = data, X
        model = from_bytes(data)
        model.explain(X)
        self.again = to_bytes(model)

    @classmethod
    def of_version_1(cls, kind: str) -> ModelFile:
        rows = json.loads((FIXTURES / f"{kind}-1.json").read_text())["rows"]
        X = pd.DataFrame(rows) if kind == "classifier" else np.array(rows)
        return cls((FIXTURES / f"{kind}-1.suwr").read_bytes(), X)

    def __call__(self, data: bytes, accident: bool) -> str:
        with limits(len(data)), hostile_files.watched() as seen:
            try:
                model = from_bytes(data)
                X = hostile_files.rows_for(model, self.X)
                model.predict(X[:1])
            # A forged type of a column refuses the cells of the original type.
            except (ModelFileError, TableError):
                model = None
        if seen:
            return "code was run"
        if model is None:
            return "refused"
        again = to_bytes(model)
        if accident:
            return "same content" if again == self.again else "other content"
        if model.n_features_in_ < 100 and len(getattr(model, "classes_", ())) < 100:
            model.explain(X)
        return "working model" if to_bytes(from_bytes(again)) == again else "unstable model"


def model_files() -> list[ModelFile]:
    """Return files of the first version, and files with every optional part of the current one."""
    files = [ModelFile.of_version_1(kind) for kind in ("classifier", "regressor")]
    small = {"max_epochs": 2, "hidden_size": 4, "n_layers": 1, "random_state": 0, "device": "cpu"}
    X, y = mixed_table()
    certified = SUWRClassifier(
        **small, sparsity_weight=0.001, costs={"age": 2.0}, columns={"age": Column(unit="years")}
    ).fit(X[:80], y[:80])
    certified = certified.certify(X[80:120], level=0.4).conformalize(X[120:], y[120:], coverage=0.8)
    files.append(ModelFile(to_bytes(certified), X[:12]))
    pixels = np.random.RandomState(0).randn(60, 16)
    target = pixels[:, 0] + pixels[:, 5]
    ranged = SUWRRegressor(
        **small, sparsity_weight=(0.001, 0.1), groups={"g": [0, 1], "h": [4, 5]},
        setup_costs={"visit": (1.0, ["g", "h"])}, missing="unrecorded",
    )  # fmt: skip
    files.append(ModelFile(to_bytes(ranged.fit(pixels, target)), pixels[:12]))
    patches = SUWRClassifier(
        **small, groups=Patches((4, 4), size=2), max_steps=2, trainer="lookahead",
        network="conv",
    )  # fmt: skip
    files.append(ModelFile(to_bytes(patches.fit(pixels, target > 0)), pixels[:12]))
    return files


class Checkpoint:
    """The checkpoint of a small fit, interrupted in the middle of training the policy."""

    PARAMS = {"max_epochs": 2, "hidden_size": 4, "n_layers": 1, "random_state": 0, "device": "cpu"}

    def __init__(self, folder: Path) -> None:
        self.path = folder / "fit.checkpoint"
        rng = np.random.RandomState(0)
        self.X = rng.randn(40, 3)
        self.y = (self.X[:, 0] > 0).astype(int)
        write, written = FileCheckpoint.write, []

        def interrupted(checkpoint: FileCheckpoint, *args: Any) -> None:
            write(checkpoint, *args)
            written.append(checkpoint.identity)
            if len(written) == 3:
                raise KeyboardInterrupt

        FileCheckpoint.write = interrupted  # type: ignore[method-assign]
        with suppress(KeyboardInterrupt):
            self.fit()
        FileCheckpoint.write = write  # type: ignore[method-assign]
        self.data, self.identity = self.path.read_bytes(), written[0]
        self.content = self.read()

    def fit(self) -> SUWRClassifier:
        return SUWRClassifier(checkpoint=self.path, **self.PARAMS).fit(self.X, self.y)

    def read(self) -> Any:
        found = FileCheckpoint(self.path, self.identity).read()
        assert found is not None
        return found[0], {k: v.numpy().tobytes() for k, v in sorted(found[1].items())}

    def __call__(self, data: bytes, accident: bool) -> str:
        self.path.write_bytes(data)
        try:
            with limits(len(data)), hostile_files.watched() as seen:
                content = self.read()
            if seen:
                return "code was run"
            if accident:
                return "same content" if content == self.content else "other content"
            with limits(len(data)):
                model = self.fit()
        # Forged optimizer moments may let training diverge, which the fit reports.
        except (ModelFileError, FloatingPointError):
            return "refused"
        model.explain(self.X[:5])
        again = to_bytes(model)
        return "working model" if to_bytes(from_bytes(again)) == again else "unstable model"


# Many cases.


def attempt(case: Case, data: bytes, accident: bool) -> tuple[str, float]:
    begun = time.process_time()
    try:
        outcome = case(data, accident)
    except TooSlow:
        outcome = "too slow"
    except MemoryError:
        outcome = "too much memory"
    except Exception as error:
        outcome = f"crash: {type(error).__name__}"
        print(f"{error!r:.300}", file=sys.stderr)
    return outcome, time.process_time() - begun


def in_child(numbers: range, work: Callable[[int], tuple[str, float]]) -> list[tuple[str, float]]:
    """Run cases in a forked process; one that dies counts as killed, and the next continues."""
    results: list[tuple[str, float]] = []
    while len(results) < len(numbers):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                os.close(reader)
                resource.setrlimit(resource.RLIMIT_CPU, (CHILD_SECONDS, CHILD_SECONDS))
                with os.fdopen(writer, "w") as pipe:
                    for number in numbers[len(results) :]:
                        pipe.write(json.dumps(work(number)) + "\n")
                        pipe.flush()
                status = 0
            finally:
                os._exit(status)
        os.close(writer)
        with os.fdopen(reader) as pipe:
            results += [tuple(json.loads(line)) for line in pipe]
        status = os.waitpid(child, 0)[1]
        if status != 0:
            results.append((f"killed: status {status}", 0.0))
    return results


def measure(name: str, cases: list[Any], n_cases: int) -> dict[str, Any]:
    """Run all families of one kind of file."""
    families = hostile_files.ACCIDENTS | hostile_files.FORGERIES
    results = {}
    for family, share in SHARES[name].items():
        accident, begun = family in hostile_files.ACCIDENTS, time.perf_counter()

        def work(number: int, family: str = family, accident: bool = accident) -> tuple[str, float]:
            case = cases[number % len(cases)]
            data = families[family](case.data, Random(f"{family} {number}"))
            return attempt(case, data, accident)

        found: list[tuple[str, float]] = []
        for start in range(0, round(share * n_cases), BATCH):
            found += in_child(range(start, min(start + BATCH, round(share * n_cases))), work)
        counts = Counter(outcome for outcome, _ in found)
        results[family] = {
            "cases": len(found),
            **counts,
            "slowest_cpu_seconds": round(max(seconds for _, seconds in found), 3),
            "seconds": round(time.perf_counter() - begun, 1),
        }
        print(name, family, results[family], flush=True)
    return results


def table(result: dict[str, Any]) -> str:
    """Format the results as Markdown."""
    about, kinds = result["about"], result["kinds"]
    every = [family for families in kinds.values() for family in families.values()]
    total = sum(family["cases"] for family in every)
    bad = total - sum(family.get(outcome, 0) for family in every for outcome in GOOD)
    lines = [
        "# Corrupted and forged model files and checkpoints",
        "",
        f"{total:,} seeded cases, {bad} bad outcomes ({about['machine']}, {about['date']}). Bad "
        "outcomes are an exception other than `ModelFileError`, other content of a corrupted file, "
        "a forged model that does not predict, executed code, and exceeded limits: 2 seconds of "
        "CPU time, and address space of four times the size of the file plus 200 MB, to load a "
        "model and predict a row, or to read a checkpoint or resume from it.",
        "",
        "| file | alteration | digest | cases | refused | same or working | bad | slowest |",
        "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for kind, families in kinds.items():
        for name, family in families.items():
            works = family.get("same content", 0) + family.get("working model", 0)
            wrong = family["cases"] - family.get("refused", 0) - works
            right = "wrong" if name in hostile_files.ACCIDENTS else "right"
            lines.append(
                f"| {kind} | {name} | {right} | {family['cases']:,} | "
                f"{family.get('refused', 0):,} | {works:,} | {wrong} | "
                f"{family['slowest_cpu_seconds']:.2f} s |"
            )
    lines += [
        "",
        "The slowest case is in CPU time and includes what the limits do not cover: narratives of "
        "twelve rows, and saving and loading the model again.",
        "",
        f"Command: `{about['command']}`",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=int, default=100_000, help="mutants of model files")
    parser.add_argument("--checkpoints", type=int, default=20_000, help="mutants of checkpoints")
    parser.add_argument("--table", action="store_true", help="only rewrite the page")
    options = parser.parse_args()
    path = HERE / "model_files.json"
    if options.table:
        stored = json.loads(path.read_text())
    else:
        warnings.simplefilter("error")
        # Values that forged categories and ranges do not contain are reported, as they should be.
        warnings.simplefilter("ignore", UnusualValueWarning)
        # The fits of the checkpoints are too small to select features.
        warnings.simplefilter("ignore", UninformativeModelWarning)
        torch.set_num_threads(1)
        with tempfile.TemporaryDirectory() as folder:
            kinds = {
                "model files": measure("model files", model_files(), options.models),
                "checkpoints": measure(
                    "checkpoints", [Checkpoint(Path(folder))], options.checkpoints
                ),
            }
        stored = {"about": machine(), "kinds": kinds}
        write_json(path, stored)
    (HERE / "model_files.md").write_text(table(stored))
    print(table(stored))


if __name__ == "__main__":
    main()
