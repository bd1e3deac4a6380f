"""How often the auditor is right, on selectors whose truth is known.

Run from the repository's root::

    python benchmarks/audit/run.py                 # 50 seeds each, 100 for random clean selectors
    python benchmarks/audit/run.py --table         # only remake the table

Writes ``results.json`` and ``results.md`` beside this file after every selector. What is there
already is not measured again, unless the auditor's code or the number of seeds is another.
"""

from __future__ import annotations

import argparse
import ast
import datetime
import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))
import numpy as np
from joblib import Parallel, delayed
from scipy.stats import beta
from trained import SPECIMENS, TRAINED

import suwr.audit
from common import machine, write_json
from suwr.audit import audit, audit_masks
from suwr.selector import as_selector
from suwr_experiments.zoo import Specimen

HERE = Path(__file__).parent
PATH = HERE / "results.json"
# Modules that only present a verdict, or read what is audited.
PRESENTING = {"__init__", "_report", "_summary", "adapters", "files", "zoo"}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef)


def fingerprint() -> str:
    """Changes with the code that comes to a verdict, but not with its comments and docstrings."""
    digest = hashlib.sha256()
    for path in sorted(Path(suwr.audit.__file__).parent.glob("*.py")):
        if path.stem not in PRESENTING:
            tree = ast.parse(path.read_text(encoding="utf-8"))
            for node in ast.walk(tree):
                if isinstance(node, DOCUMENTED) and ast.get_docstring(node) is not None:
                    node.body.pop(0)
            digest.update(ast.dump(tree).encode())
    return digest.hexdigest()[:12]


def probe_once(specimen: Specimen, seed: int) -> dict[str, Any]:
    """One default audit, without the predictive gaps, which do not enter the verdict."""
    selector, X, y = specimen.make(seed)
    report = audit(selector, X, y, random_state=seed, gaps=False, verbose=False)
    again = True
    if report.evidence == "proof" and not report.stochastic:
        again = reverify(selector, report.witness)
    return {
        "leaks": report.leaks,
        "verdict": report.verdict,
        "asked": report.n_asked,
        "seconds": report.seconds,
        "witness_holds": again,
    }


def reverify(selector: Any, witness: Any) -> bool:
    """Ask the selector about the witness once more, without the auditor's help."""
    first, second = as_selector(selector).select(witness.rows)
    x, x_other = np.asarray(witness.x), np.asarray(witness.x_other)
    return bool((x[first] == x_other[first]).all() and (first != second).any())


def masks_once(specimen: Specimen, seed: int) -> dict[str, Any]:
    """The predictive gaps alone, as for rows and masks from a file."""
    selector, X, y = specimen.make(seed)
    masks = as_selector(selector).sample(X, np.random.default_rng(seed))
    report = audit_masks(X, masks, y, random_state=seed, verbose=False)
    assert report.gaps is not None
    largest = max(report.gaps.features, key=lambda g: g.leak, default=None)
    return {
        "leaks": report.leaks,
        "label_bits": report.gaps.label.leak if report.gaps.label else 0.0,
        "feature_bits": largest.leak if largest else 0.0,
        "seconds": report.seconds,
    }


def interval(hits: int, n: int) -> list[float]:
    """Exact 95 % interval of a rate."""
    low = 0.0 if hits == 0 else float(beta.ppf(0.025, hits, n - hits + 1))
    high = 1.0 if hits == n else float(beta.ppf(0.975, hits + 1, n - hits))
    return [low, high]


def summarise(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """What the seeds of one selector come to: rates and means."""
    hits = sum(run["leaks"] for run in runs)
    means = {
        f"mean_{key}": float(np.mean([run[key] for run in runs]))
        for key in ("asked", "seconds", "label_bits", "feature_bits")
        if key in runs[0]
    }
    return {
        "seeds": len(runs),
        "called_leaky": hits,
        "rate": hits / len(runs),
        "interval": interval(hits, len(runs)),
        "verdicts": sorted({run["verdict"] for run in runs if "verdict" in run}),
        "witnesses_hold": all(run.get("witness_holds", True) for run in runs),
        **means,
    }


def markdown(stored: dict[str, Any]) -> str:
    """The tables, for people."""
    about, code = stored["about"], fingerprint()
    lines = [
        "# The auditor on selectors whose truth is known",
        "",
        f"`{about['command']}`, {about['date']}, {about['machine']}, suwr "
        f"{about['versions']['suwr']}. Default budget, 1,000 rows (200 for Table 1). The trained "
        "models are three of each kind; every seed audits one of them on fresh rows.",
        "",
        "**Probes**: share of seeds in which `audit` said *leaks*. For leaky selectors this is "
        "the detection rate, for clean ones the false-alarm rate (nominal: 1 % for selectors that "
        "draw their masks, 0 for the others). **Masks only**: the same for `audit_masks`, which "
        "sees rows, masks and labels but cannot ask (nominal: 1 %); with the mean bits it measured "
        "about the label and about the most leaked hidden feature.",
        "",
        "| selector | truth | draws | seeds | probes say leaks | 95 % interval | rows asked | "
        "seconds | seeds | masks only say leaks | 95 % interval | label bits | feature bits |",
        "| --- | --- | --- | ---: | ---: | --- | ---: | ---: | ---: | ---: | --- | ---: | ---: |",
    ]
    for name, specimen in SPECIMENS.items():
        probes, masks = (part.get(name) for part in (stored["probes"], stored["masks"]))
        cells = [
            name,
            "leaks" if specimen.leaks else "clean",
            "yes" if specimen.stochastic else "no",
        ]
        cells += _rate(probes, code)
        cells += (
            [f"{probes['mean_asked']:,.0f}", f"{probes['mean_seconds']:.2f}"]
            if probes
            else 2 * ["–"]
        )
        cells += _rate(masks, code)
        bits = ("mean_label_bits", "mean_feature_bits")
        cells += [f"{masks[key]:.2f}" for key in bits] if masks else 2 * ["–"]
        lines.append("| " + " | ".join(cells) + " |")
    lines += ["", "Together:", ""]
    lines += [f"- {line}" for line in pooled(stored)]
    if any(_stale(cell, code) for part in ("probes", "masks") for cell in stored[part].values()):
        lines += ["", "(*) measured before the last change of the auditor's code"]
    return "\n".join(lines) + "\n"


def pooled(stored: dict[str, Any]) -> list[str]:
    """Rates over all selectors of a kind: single rows have few seeds for a rate of 1 %."""
    found = []
    for part, title in (("probes", "probes"), ("masks", "masks only")):
        for leaks, stochastic in ((False, False), (False, True), (True, False), (True, True)):
            cells = [
                stored[part][name]
                for name, specimen in SPECIMENS.items()
                if (specimen.leaks, specimen.stochastic) == (leaks, stochastic)
                and name in stored[part]
            ]
            n, hits = (sum(cell[key] for cell in cells) for key in ("seeds", "called_leaky"))
            if n:
                low, high = (100 * bound for bound in interval(hits, n))
                found.append(
                    f"{title}, {'leaky' if leaks else 'clean'}, "
                    f"{'drawing their masks' if stochastic else 'deterministic'}: "
                    f"{hits:,} of {n:,} called leaky ({100 * hits / n:.1f} %, 95 % interval "
                    f"{low:.1f} to {high:.1f} %)"
                )
    return found


def _stale(cell: dict[str, Any], code: str) -> bool:
    return cell["code"] != code


def _rate(cell: dict[str, Any] | None, code: str) -> list[str]:
    if cell is None:
        return 3 * ["–"]
    low, high = cell["interval"]
    mark = " (*)" if _stale(cell, code) else ""
    return [
        f"{cell['seeds']}{mark}",
        f"{100 * cell['rate']:.1f} %",
        f"{100 * low:.1f} to {100 * high:.1f} %",
    ]


def plan(args: argparse.Namespace) -> list[tuple[str, str, range]]:
    """What to measure, in order: part, selector, seeds. What matters most comes first."""
    cells = []
    for name, specimen in SPECIMENS.items():
        often = specimen.stochastic and not specimen.leaks and name not in TRAINED
        cells.append(("probes", name, range(args.clean_seeds if often else args.seeds)))
    # Other seeds than above: the bounds for masks alone were set with those in view.
    fresh = range(1000, 1000 + args.mask_seeds)
    by_truth = sorted(SPECIMENS, key=lambda name: SPECIMENS[name].leaks)
    return cells + [("masks", name, fresh) for name in by_truth]


def main() -> None:
    """Run the benchmark and write its results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument(
        "--clean-seeds", type=int, default=100, help="for clean selectors that draw their masks"
    )
    parser.add_argument("--mask-seeds", type=int, default=50, help="for audits of masks alone")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--table", action="store_true", help="only remake the table")
    parser.add_argument("--output", type=Path, default=PATH)
    args = parser.parse_args()
    stored: dict[str, Any] = {"about": machine(), "probes": {}, "masks": {}}
    if args.output.exists():
        stored |= json.loads(args.output.read_text(encoding="utf-8"))
    code, once = fingerprint(), {"probes": probe_once, "masks": masks_once}
    with Parallel(n_jobs=args.jobs) as pool:
        for part, name, seeds in [] if args.table else plan(args):
            known = stored[part].get(name)
            if known and known["code"] == code and known["seeds"] >= len(seeds):
                continue
            runs = pool(delayed(once[part])(SPECIMENS[name], seed) for seed in seeds)
            date = datetime.date.today().isoformat()
            stored[part][name] = {**summarise(runs), "code": code, "date": date}
            stored["about"] = machine()
            write_json(args.output, stored)
            args.output.with_suffix(".md").write_text(markdown(stored), encoding="utf-8")
            print(f"{part:<7}{name:<40}{100 * stored[part][name]['rate']:5.1f} %", flush=True)
    args.output.with_suffix(".md").write_text(markdown(stored), encoding="utf-8")


if __name__ == "__main__":
    main()
