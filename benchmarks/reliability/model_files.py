"""Robustness against corrupted and forged model files.

    python benchmarks/reliability/model_files.py [cases]

Corrupted files (bit flips, truncations, rewritten headers) must raise `ModelFileError` or load the
identical model. Forged files, which have a valid digest, must raise `ModelFileError` or load a
model that predicts and can be saved and loaded again. None may execute code, hang or exhaust the
memory. The cases are seeded and therefore reproducible.
"""

from __future__ import annotations

import json
import resource
import sys
import time
import warnings
from collections import Counter
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "helpers"))
import hostile_files
import numpy as np
import pandas as pd

from common import machine, write_json
from suwr.estimators.io import from_bytes, to_bytes
from suwr.exceptions import ModelFileError

HERE = Path(__file__).parent
FIXTURES = HERE.parents[1] / "tests" / "estimators" / "fixtures"
# Fractions of the cases; forgeries that load are slow, since each of them must predict.
SHARES = {
    "bit flips": 0.3,
    "cuts and splices": 0.2,
    "headers": 0.2,
    "states": 0.2,
    "tensors": 0.05,
    "deep JSON": 0.05,
}


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def start() -> list[tuple[bytes, bytes, object]]:
    """The stored files, the same models saved again, and rows to predict."""
    subjects = []
    for kind in ("classifier", "regressor"):
        data = (FIXTURES / f"{kind}-1.suwr").read_bytes()
        rows = json.loads((FIXTURES / f"{kind}-1.json").read_text())["rows"]
        X = pd.DataFrame(rows) if kind == "classifier" else rows
        model = from_bytes(data)
        model.explain(X)
        subjects.append((data, to_bytes(model), X))
    return subjects


def verdict(data: bytes, whole: bytes, X: object, accident: bool) -> str:
    """Outcome of one case."""
    with hostile_files.watched() as seen:
        try:
            model = from_bytes(data)
        except ModelFileError:
            return "code was run" if seen else "refused"
    if seen:
        return "code was run"
    again = to_bytes(model)
    if accident:
        return "same model" if again == whole else "another model"
    # A model fitted without column names warns about a data frame.
    model.explain(X if hasattr(model, "feature_names_in_") else np.asarray(X))
    return "working model" if to_bytes(from_bytes(again)) == again else "unstable model"


def measure(n_cases: int) -> dict:
    warnings.simplefilter("error")
    subjects = start()
    families = hostile_files.ACCIDENTS | hostile_files.FORGERIES
    results, before = {}, peak_mb()
    for name, alter in families.items():
        counts, slowest, begun = Counter(), 0.0, time.perf_counter()
        for number in range(round(SHARES[name] * n_cases)):
            stored, whole, X = subjects[number % 2]
            data = alter(stored, Random(f"{name} {number}"))
            clock = time.perf_counter()
            try:
                outcome = verdict(data, whole, X, name in hostile_files.ACCIDENTS)
            except Exception as error:
                outcome = f"crash: {type(error).__name__}"
                print(f"{name} {number}: {error!r:.300}", file=sys.stderr)
            slowest = max(slowest, time.perf_counter() - clock)
            counts[outcome] += 1
        results[name] = {
            "cases": sum(counts.values()),
            **counts,
            "slowest_seconds": round(slowest, 3),
            "seconds": round(time.perf_counter() - begun, 1),
            "peak_mb": round(peak_mb()),
        }
        print(name, results[name], flush=True)
    return {"peak_mb_before": round(before), "families": results}


def table(result: dict) -> str:
    """Format the results as Markdown."""
    about, families = result["about"], result["families"]
    total = sum(f["cases"] for f in families.values())
    good = ("refused", "same model", "working model")
    bad = total - sum(f.get(outcome, 0) for f in families.values() for outcome in good)
    lines = [
        "# Corrupted and forged model files",
        "",
        f"{total:,} seeded cases, {bad} bad outcomes ({about['machine']}, {about['date']}). Bad "
        "outcomes are an exception other than `ModelFileError`, a different model from a corrupted "
        "file, a forged model that does not predict, and executed code.",
        "",
        "| alteration | digest | cases | rejected | same or working model | bad | slowest | peak |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, f in families.items():
        loaded = f.get("same model", 0) + f.get("working model", 0)
        wrong = f["cases"] - f.get("refused", 0) - loaded
        digest = "wrong" if name in hostile_files.ACCIDENTS else "right"
        lines.append(
            f"| {name} | {digest} | {f['cases']:,} | {f.get('refused', 0):,} | {loaded:,} | "
            f"{wrong} | {f['slowest_seconds']:.2f} s | {f['peak_mb']} MB |"
        )
    lines += [
        "",
        f"Peak memory of the process before the first case: {result['peak_mb_before']} MB. For a "
        "forged model that loads, the time includes the prediction of twelve rows and saving and "
        "loading it again.",
        "",
        f"Command: `{about['command']}`",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    if "--table" in sys.argv:
        stored = json.loads((HERE / "model_files.json").read_text())
    else:
        n_cases = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
        stored = {"about": machine(), **measure(n_cases)}
        write_json(HERE / "model_files.json", stored)
    (HERE / "model_files.md").write_text(table(stored))
    print(table(stored))
