"""Detection and false-alarm rates of the audit on selectors with known ground truth.

Run from the root of the repository::

    python benchmarks/audit/run.py                # 50 seeds, 100 for stochastic leak-free ones
    python benchmarks/audit/run.py --dependent    # columns determine each other; ten minutes
    python benchmarks/audit/run.py --table        # only regenerate the table

Writes ``results.json`` and ``results.md`` beside this file after every selector, or
``dependent.json`` and ``dependent.md``. Existing results are reused unless the code of the audit or
the number of seeds has changed. The columns of the first kind vary independently, which the audit
is told; on those of the second kind, it is told nothing.
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

import suwr.auditing
from common import machine, write_json
from suwr.auditing import audit, audit_masks
from suwr.selector import as_selector
from suwr_experiments.dependent_zoo import DEPENDENT, UNDETECTED
from suwr_experiments.zoo import Specimen

HERE = Path(__file__).parent
PATH = HERE / "results.json"
DEPENDENT_PATH = HERE / "dependent.json"
# Modules that do not affect verdicts.
PRESENTATION = {"__init__", "adapters", "files", "report", "summary"}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef)


def fingerprint() -> str:
    """Hash of the code that determines verdicts, without comments and docstrings."""
    digest = hashlib.sha256()
    for path in sorted(Path(suwr.auditing.__file__).parent.glob("*.py")):
        if path.stem not in PRESENTATION:
            tree = ast.parse(path.read_text(encoding="utf-8"))
            for node in ast.walk(tree):
                if isinstance(node, DOCUMENTED) and ast.get_docstring(node) is not None:
                    node.body.pop(0)
            digest.update(ast.dump(tree).encode())
    return digest.hexdigest()[:12]


def probe_once(specimen: Specimen, seed: int) -> dict[str, Any]:
    """Run an audit without predictive gaps, which do not affect the verdict."""
    selector, X, y = specimen.make(seed)
    support = "product" if specimen.name in SPECIMENS else "auto"
    report = audit(selector, X, y, random_state=seed, gaps=False, verbose=False, support=support)
    valid = True
    if report.witness is not None and not report.stochastic:
        valid = is_valid(selector, report.witness)
    return {
        "leaks": report.leaks,
        "conditional": report.leaks_if_independent,
        "verdict": report.verdict,
        "queries": report.n_queries,
        "seconds": report.seconds,
        "witness_valid": valid,
    }


def is_valid(selector: Any, witness: Any) -> bool:
    """Verify a witness by querying the selector directly."""
    first, second = as_selector(selector).select(witness.rows)
    x, x_other = witness.x, witness.x_other
    return bool((x[first] == x_other[first]).all() and (first != second).any())


def masks_once(specimen: Specimen, seed: int) -> dict[str, Any]:
    """Measure the predictive gaps from rows and masks alone."""
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
    """Exact (Clopper–Pearson) 95 % confidence interval of a rate."""
    low = 0.0 if hits == 0 else float(beta.ppf(0.025, hits, n - hits + 1))
    high = 1.0 if hits == n else float(beta.ppf(0.975, hits + 1, n - hits))
    return [low, high]


def summarise(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Rates and means over the seeds of one selector."""
    hits = sum(run["leaks"] for run in runs)
    means = {
        f"mean_{key}": float(np.mean([run[key] for run in runs]))
        for key in ("queries", "seconds", "label_bits", "feature_bits")
        if key in runs[0]
    }
    return {
        "seeds": len(runs),
        "n_leaks": hits,
        "n_conditional": sum(run.get("conditional", False) for run in runs),
        "rate": hits / len(runs),
        "interval": interval(hits, len(runs)),
        "verdicts": sorted({run["verdict"] for run in runs if "verdict" in run}),
        "witnesses_valid": all(run.get("witness_valid", True) for run in runs),
        **means,
    }


def markdown(stored: dict[str, Any]) -> str:
    """The results page."""
    about, code = stored["about"], fingerprint()
    lines = [
        "# Audits of selectors with known ground truth",
        "",
        f"`{about['command']}`, {about['date']}, {about['machine']}, suwr "
        f"{about['versions']['suwr']}. Default query budget, 1,000 rows (200 for Table 1). Three "
        "models of each kind were trained; every seed audits one of them on new rows.",
        "",
        "**audit**: share of seeds with the verdict *leaks*. This is the detection rate of leaky "
        "selectors and the false-alarm rate of leak-free ones (nominal: 1 % for stochastic "
        "selectors, 0 for deterministic ones). **audit_masks**: the same for `audit_masks`, which "
        "receives rows, masks and labels but cannot query the selector (nominal: 1 %), with the "
        "mean leaked bits about the label and about the most leaked hidden feature.",
        "",
        "| selector | ground truth | stochastic | seeds | audit: leaks | 95 % CI | rows queried | "
        "seconds | seeds | audit_masks: leaks | 95 % CI | label bits | feature bits |",
        "| --- | --- | --- | ---: | ---: | --- | ---: | ---: | ---: | ---: | --- | ---: | ---: |",
    ]
    for name, specimen in SPECIMENS.items():
        probes, masks = (part.get(name) for part in (stored["probes"], stored["masks"]))
        cells = [
            name,
            "leaks" if specimen.leaks else "leak-free",
            "yes" if specimen.stochastic else "no",
        ]
        cells += _rate(probes, code)
        cells += (
            [f"{probes['mean_queries']:,.0f}", f"{probes['mean_seconds']:.2f}"]
            if probes
            else 2 * ["–"]
        )
        cells += _rate(masks, code)
        bits = ("mean_label_bits", "mean_feature_bits")
        cells += [f"{masks[key]:.2f}" for key in bits] if masks else 2 * ["–"]
        lines.append("| " + " | ".join(cells) + " |")
    lines += ["", "Pooled over selectors:", ""]
    lines += [f"- {line}" for line in pooled(stored)]
    if any(_stale(cell, code) for part in ("probes", "masks") for cell in stored[part].values()):
        lines += ["", "(*) measured with an earlier version of the code"]
    return "\n".join(lines) + "\n"


def dependent_markdown(stored: dict[str, Any]) -> str:
    """The results page of selectors on dependent columns."""
    about, code = stored["about"], fingerprint()
    lines = [
        "# Audits on data in which columns determine each other",
        "",
        f"`{about['command']}`, {about['date']}, {about['machine']}, suwr "
        f"{about['versions']['suwr']}. Default audits of 1,000 rows without predictive gaps; the "
        "audit is told neither groups nor which rows are possible.",
        "",
        "Shares of the verdicts *leaks* and *leaks if columns vary independently*. The last rows "
        "are dependences that the audit does not recognise: the condition does not hold there.",
        "",
        "| selector | ground truth | stochastic | seeds | leaks | 95 % CI | conditional | 95 % CI "
        "| rows queried | seconds | mechanism |",
        "| --- | --- | --- | ---: | ---: | --- | ---: | --- | ---: | ---: | --- |",
    ]
    for name, specimen in (DEPENDENT | UNDETECTED).items():
        found = stored["probes"].get(name)
        if found is None:
            continue
        shares = []
        for key in ("n_leaks", "n_conditional"):
            low, high = interval(found[key], found["seeds"])
            shares += [
                f"{100 * found[key] / found['seeds']:.1f} %",
                f"{100 * low:.1f} to {100 * high:.1f} %",
            ]
        cells = [
            name,
            "leaks" if specimen.leaks else "leak-free",
            "yes" if specimen.stochastic else "no",
            f"{found['seeds']}{' (*)' if _stale(found, code) else ''}",
            *shares,
            f"{found['mean_queries']:,.0f}",
            f"{found['mean_seconds']:.2f}",
            specimen.note,
        ]
        lines.append("| " + " | ".join(cells) + " |")
    lines.append("")
    for title, zoo, leaks in (
        ("leak-free", DEPENDENT, False),
        ("leaky", DEPENDENT, True),
        ("leak-free, dependence not recognised", UNDETECTED, False),
    ):
        names = [n for n, s in zoo.items() if s.leaks == leaks and n in stored["probes"]]
        n, hits, conditional = (
            sum(stored["probes"][name][key] for name in names)
            for key in ("seeds", "n_leaks", "n_conditional")
        )
        lines.append(
            f"- {title}: of {n:,} audits, {hits:,} with the verdict *leaks* and {conditional:,} "
            "with the conditional one"
        )
    if any(_stale(cell, code) for cell in stored["probes"].values()):
        lines += ["", "(*) measured with an earlier version of the code"]
    return "\n".join(lines) + "\n"


def pooled(stored: dict[str, Any]) -> list[str]:
    """Rates pooled over all selectors of a kind."""
    found = []
    for part, title in (("probes", "audit"), ("masks", "audit_masks")):
        for leaks, stochastic in ((False, False), (False, True), (True, False), (True, True)):
            cells = [
                stored[part][name]
                for name, specimen in SPECIMENS.items()
                if (specimen.leaks, specimen.stochastic) == (leaks, stochastic)
                and name in stored[part]
            ]
            n, hits = (sum(cell[key] for cell in cells) for key in ("seeds", "n_leaks"))
            if n:
                low, high = (100 * bound for bound in interval(hits, n))
                found.append(
                    f"{title}, {'leaky' if leaks else 'leak-free'}, "
                    f"{'stochastic' if stochastic else 'deterministic'}: "
                    f"{hits:,} of {n:,} reported to leak ({100 * hits / n:.1f} %, 95 % CI "
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
    """Measurements in order: part, selector and seeds."""
    if args.dependent:
        return [("probes", name, range(args.seeds)) for name in DEPENDENT | UNDETECTED]
    cells = []
    for name, specimen in SPECIMENS.items():
        more = specimen.stochastic and not specimen.leaks and name not in TRAINED
        cells.append(("probes", name, range(args.leak_free_seeds if more else args.seeds)))
    # The minimum significant gaps were chosen on the seeds above: evaluate them on different ones.
    mask_seeds = range(1000, 1000 + args.mask_seeds)
    leak_free_first = sorted(SPECIMENS, key=lambda name: SPECIMENS[name].leaks)
    return cells + [("masks", name, mask_seeds) for name in leak_free_first]


def main() -> None:
    """Run the benchmark and write its results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, help="default: 50, or 20 with --dependent")
    parser.add_argument(
        "--dependent", action="store_true", help="data in which columns determine each other"
    )
    parser.add_argument(
        "--leak-free-seeds", type=int, default=100, help="for stochastic leak-free selectors"
    )
    parser.add_argument("--mask-seeds", type=int, default=50, help="for audit_masks")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--table", action="store_true", help="only regenerate the table")
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    args.seeds = args.seeds or (20 if args.dependent else 50)
    args.output = args.output or (DEPENDENT_PATH if args.dependent else PATH)
    page = dependent_markdown if args.dependent else markdown
    specimens = SPECIMENS | DEPENDENT | UNDETECTED
    stored: dict[str, Any] = {"about": machine(), "probes": {}, "masks": {}}
    if args.output.exists():
        stored |= json.loads(args.output.read_text(encoding="utf-8"))
    code, once = fingerprint(), {"probes": probe_once, "masks": masks_once}
    with Parallel(n_jobs=args.jobs) as pool:
        for part, name, seeds in [] if args.table else plan(args):
            known = stored[part].get(name)
            if known and known["code"] == code and known["seeds"] >= len(seeds):
                continue
            runs = pool(delayed(once[part])(specimens[name], seed) for seed in seeds)
            date = datetime.date.today().isoformat()
            stored[part][name] = {**summarise(runs), "code": code, "date": date}
            stored["about"] = machine()
            write_json(args.output, stored)
            args.output.with_suffix(".md").write_text(page(stored), encoding="utf-8")
            print(f"{part:<7}{name:<40}{100 * stored[part][name]['rate']:5.1f} %", flush=True)
    args.output.with_suffix(".md").write_text(page(stored), encoding="utf-8")


if __name__ == "__main__":
    main()
