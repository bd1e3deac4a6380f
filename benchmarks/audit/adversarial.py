"""The audit against selectors that try to pass it, and against their leak-free twins.

Run ``python benchmarks/audit/adversarial.py [n_seeds]`` from the root of the repository (default:
10 seeds, about five minutes). Writes ``adversarial.json`` and ``adversarial.md`` beside this file.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))
import numpy as np
from adversaries import (
    BLIND,
    Adversary,
    StatesHalf,
    known_rows,
    masks_of,
    remembers_answers,
    states_half_for_known_rows,
)
from adversaries_informed import INFORMED, ON_BITS, nearly_known_rows

from common import machine, write_json
from suwr.auditing import AuditReport, audit

HERE = Path(__file__).parent
N_ROWS = 400
SMALL = {"n_probes": 3000, "n_draws": 40_000, "gaps": False, "verbose": False}
HIDDEN, REVEALED = 2, 0
RECOGNISE_ROWS = (known_rows, states_half_for_known_rows, nearly_known_rows)


def rows_of(seed: int, *, bits: bool = False) -> np.ndarray:
    """Gaussian rows in which x2 and x3 are nearly equal, or binary rows."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N_ROWS, 5))
    X[:, 3] = X[:, 2] + 0.02 * rng.normal(size=N_ROWS)
    return np.where(rng.random(X.shape) < 0.5, 1.0, -1.0) if bits else X


def run(adversary: Adversary, column: int, seed: int, **options: Any) -> AuditReport:
    """Audit a selector that was fitted on other rows than those of the audit."""
    bits = adversary in ON_BITS
    rows = rows_of(1000 + seed, bits=bits)
    training = {"training_rows": rows} if options.pop("training", False) else {}
    selector = adversary(rows, column, seed)
    X = rows_of(seed, bits=bits)
    return audit(selector, X, random_state=seed, **{**SMALL, **training, **options})


def counts(reports: list[AuditReport]) -> dict[str, int]:
    """Number of verdicts "leaks", of other verdicts with a caution, and of those without."""
    leaks = sum(report.leaks for report in reports)
    cautions = sum(bool(report.cautions) and not report.leaks for report in reports)
    return {"leaks": leaks, "caution": cautions, "silent": len(reports) - leaks - cautions}


def attack(adversary: Adversary, origin: str, n_seeds: int) -> dict[str, Any]:
    """Audit an adversary and its twin with several seeds."""
    seeds = range(n_seeds)
    row = {
        "selector": adversary.__name__,
        "description": (adversary.__doc__ or "").strip(),
        "origin": origin,
        "leaky": counts([run(adversary, HIDDEN, seed) for seed in seeds]),
        "twin": counts([run(adversary, REVEALED, seed) for seed in seeds]),
    }
    if adversary in RECOGNISE_ROWS:
        for kind, column in (("leaky", HIDDEN), ("twin", REVEALED)):
            reports = [run(adversary, column, seed, training=True) for seed in seeds]
            row[f"{kind}_with_training_rows"] = counts(reports)
    if adversary is remembers_answers:
        for kind, column in (("leaky", HIDDEN), ("twin", REVEALED)):
            row[f"{kind}_with_gaps"] = counts(
                [run(adversary, column, s, gaps=True) for s in (0, 1)]
            )
    return row


def misstated(shift: float, n_seeds: int) -> dict[str, Any]:
    """Detection of a misstated probability by default audits, with and without the method."""
    found = {"shift": shift, "seeds": n_seeds, "with": 0, "without": 0}
    for seed in range(n_seeds):
        X = rows_of(seed)
        options = {"random_state": seed, "gaps": False, "verbose": False}
        found["with"] += audit(StatesHalf(HIDDEN, shift, seed), X, **options).leaks
        found["without"] += audit(StatesHalf(HIDDEN, shift, seed).select, X, **options).leaks
    return found


def measured_power(n_seeds: int) -> dict[str, Any]:
    """Detection rates at the sizes of leak that the reports state for a power of 95 %."""
    honest = run(lambda rows, column, seed: StatesHalf(REVEALED, 0.0, seed), HIDDEN, 0)

    def only_alone(shift: float) -> Adversary:
        def make(rows: np.ndarray, column: int, seed: int) -> Callable[[np.ndarray], np.ndarray]:
            rng = np.random.default_rng(seed)

            def select(X: np.ndarray) -> np.ndarray:
                p = 0.5 + (len(X) == 1) * shift * np.sign(X[:, column])
                return masks_of(*X.shape, rng.random(len(X)) < p)

            return select

        return make

    shift, alone = honest.detectable_shift, honest.detectable_shift_individually
    difference = honest.detectable_difference
    assert shift is not None
    assert alone is not None
    assert difference is not None
    seeds = range(n_seeds)
    draws = [run(lambda r, c, s: StatesHalf(c, shift / 2, s).select, HIDDEN, s) for s in seeds]
    singles = [run(only_alone(alone / 2), HIDDEN, seed) for seed in seeds]
    fits = [run(lambda r, c, s: StatesHalf(c, difference, s), REVEALED, s) for s in seeds]
    misfits = sum(any("do not follow" in text for text in report.cautions) for report in fits)
    return {
        "seeds": n_seeds,
        "draws": {"size": shift, "found": sum(report.leaks for report in draws)},
        "one row": {"size": alone, "found": sum(report.leaks for report in singles)},
        "fit": {"size": difference, "found": misfits},
    }


def cell(count: dict[str, int] | None) -> str:
    """A table cell: leaks / caution / silent."""
    return "–" if count is None else "{leaks} / {caution} / {silent}".format(**count)


def table(results: dict[str, Any]) -> str:
    """The results as Markdown."""
    about, attacks, power = results["about"], results["attacks"], results["power"]
    n = results["seeds"]
    silent = [row["selector"] for row in attacks if row["leaky"]["silent"] > n / 2]
    doubtful = [
        row["selector"]
        for row in attacks
        if row["leaky"]["leaks"] <= n / 2 and row["selector"] not in silent
    ]
    twins = len(attacks) * n
    alarms = sum(row["twin"]["leaks"] for row in attacks)
    lines = [
        "# The audit against adversarial selectors",
        "",
        f"`{about['command']}`, {about['date']}, {about['machine']}, suwr "
        f"{about['versions']['suwr']}; {results['processor_seconds']:.0f} s of processor time. "
        f"{len(attacks)} selectors that try to pass an audit, {len(BLIND)} of them written from "
        "the documentation alone (origin: blind), the others with knowledge of the code. Each "
        f"decides by a hidden column; its leak-free twin by a revealed one. {n} seeds each, "
        f"{N_ROWS} rows that the selector was not fitted on, 5 columns, n_probes=3,000, "
        "n_draws=40,000, without predictive gaps. Cells: audits with the verdict *leaks* / another "
        "verdict with a caution / neither.",
        "",
        "| selector | origin | leaky | twin | mechanism |",
        "| --- | --- | --- | --- | --- |",
    ]
    for row in attacks:
        lines.append(
            f"| {row['selector']} | {row['origin']} | {cell(row['leaky'])} | {cell(row['twin'])} "
            f"| {row['description']} |"
        )
        for option, name in (("training_rows", "with `training_rows`"), ("gaps", "with gaps")):
            leaky, twin = row.get(f"leaky_with_{option}"), row.get(f"twin_with_{option}")
            if leaky is not None:
                lines.append(f"| … {name} | | {cell(leaky)} | {cell(twin)} | |")
    lines += [
        "",
        f"- Passed without a caution in most audits: {', '.join(silent) or 'none'}.",
        f"- Passed with a caution in most audits: {', '.join(doubtful) or 'none'}.",
        f"- False alarms: {alarms} of {twins} audits of twins.",
        "",
        "A selector that states the probability 0.5 but samples 0.5 ± shift, in default audits:",
        "",
        "| shift | audits | found | found without `mask_probability` |",
        "| ---: | ---: | ---: | ---: |",
    ]
    lines += [
        f"| {row['shift']} | {row['seeds']} | {row['with']} | {row['without']} |"
        for row in results["misstated"]
    ]
    lines += [
        "",
        "Leaks of the size that the reports state for a power of 95 %:",
        "",
        "| test | size | found |",
        "| --- | ---: | ---: |",
    ]
    names = {
        "draws": "pooled test of draws",
        "one row": "draws in calls of one row",
        "fit": "fit to stated probabilities (a caution)",
    }
    lines += [
        f"| {name} | {power[key]['size']:.3f} | {power[key]['found']} of {power['seeds']} |"
        for key, name in names.items()
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run all attacks and write the results."""
    n_seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    started = time.process_time()
    attacks = []
    for origin, adversaries in (("blind", BLIND), ("informed", INFORMED)):
        for adversary in adversaries:
            attacks.append(attack(adversary, origin, n_seeds))
            print(attacks[-1]["selector"], attacks[-1]["leaky"], attacks[-1]["twin"], flush=True)
    results = {
        "about": machine(),
        "seeds": n_seeds,
        "attacks": attacks,
        "misstated": [misstated(shift, 2 * n_seeds) for shift in (0.03, 0.1)],
        "power": measured_power(4 * n_seeds),
        "processor_seconds": time.process_time() - started,
    }
    write_json(HERE / "adversarial.json", results)
    (HERE / "adversarial.md").write_text(table(results), encoding="utf-8")


if __name__ == "__main__":
    main()
