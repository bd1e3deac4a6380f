"""The page of the benchmark of tables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from suwr_experiments.records import Record
from suwr_experiments.tables import Grid
from suwr_experiments.tabular_experiment import DEFAULT_SHARE, METHODS, N_SPLITS
from suwr_experiments.tabular_results import (
    LOW,
    RIVALS,
    TableResults,
    difference_grid,
    loss_grid,
    rank_grid,
)

__all__ = ["default_grid", "findings", "page", "unseen_findings", "worse"]

#: Budgets at which the methods are counted as best.
BUDGETS = (3, 5, 7, 10)
OURS = ("SUWR", "SUWR, range")
GREEDY = ("GDFS", "DIME, budget", "DIME, cost", "DIME, confidence")
EQUAL = "GDFS, equal networks"
SEFA = ("SEFA, budget", "SEFA, confidence")
#: Rivals that SUWR is compared with, by their description.
COMPARED = {
    "GDFS and DIME": GREEDY,
    "GDFS with the same number and encoding of predictors": (EQUAL,),
    "SEFA": SEFA,
}
#: Splits whose results have prompted changes of SUWR with a single λ; see the protocol. The range
#: of λ was changed after the results of all splits.
SEEN_SPLITS = (0, 1, 2)


def page(records: list[Record], link: str) -> str:
    """Write the page as Markdown.

    Parameters
    ----------
    records : list of dict
    link : str
        Path of the folder with the figures, relative to the page.
    """
    results = TableResults(records)
    ranking = results.ranking()
    summary = [*findings(results), *unseen_findings(records)]
    lines = [
        "# Benchmark of tables", "",
        "Data, splits, methods and metrics are described in",
        "[the protocol](protocol.md#tables), which was written before the runs. Squared errors are",
        "relative to that of the constant prediction.", *_incomplete(records), "",
        "## Summary", "", Grid(["question", "measured"], summary, n_left=2).markdown(),
        "", "## Mean loss over 2 to 10 features", "",
        "Mean over the splits; the lowest of each table in bold.", "",
        loss_grid(results).markdown(),
    ]  # fmt: skip
    if ranking is not None:
        lines += [
            "", "## Mean rank", "",
            f"Over {ranking.n_tables} tables; p-value of Friedman's test: {ranking.p_value:.2g}. "
            f"Two mean ranks differ significantly (Nemenyi, 5 %) if they differ by more than "
            f"{ranking.critical_difference:.2f}.", "",
            rank_grid(ranking).markdown(), "",
            f"![Critical differences of mean ranks]({link}/critical-difference.svg)",
        ]  # fmt: skip
    lines += [
        "", "## Paired differences", "",
        "Mean loss over 2 to 10 features of SUWR minus that of another method: mean over the",
        "splits ± standard error; an asterisk marks more than two standard errors.",
    ]  # fmt: skip
    for name in OURS:
        if name in results.names:
            lines += ["", f"### {name}", "", difference_grid(results, name).markdown()]
    lines += ["", "## Loss against cost", "", f"![Loss against cost]({link}/curves.svg)"]
    for title, score in (("AUROC", "auroc"), ("Accuracy", "accuracy")):
        grid = loss_grid(results, score)
        if grid.rows:
            lines += ["", f"## {title} over 2 to 10 features", "", grid.markdown()]
    lines += [
        "", "## Default λ", "",
        f"SUWR with the default λ, {DEFAULT_SHARE:g} of the loss of the constant prediction,",
        "beside the constant, the better of boosting and the network on a fixed subset of the same",
        "cost, and the network without selection. Expected calibration error (ECE) in 15 bins.", "",
        default_grid(results).markdown(),
    ]  # fmt: skip
    warned = [r for r in records if r["metrics"].get("warnings")]
    if warned:
        lines += ["", "## Warnings of the fits", ""]
        texts = sorted({text for r in warned for text in r["metrics"]["warnings"]})
        for text in texts:
            count = sum(text in r["metrics"]["warnings"] for r in warned)
            lines.append(f"- {count} ×: {text}")
    return "\n".join(lines)


def _incomplete(records: list[Record]) -> list[str]:
    """What of the protocol the records do not have."""
    splits = sorted({record["cell"]["seed"] for record in records})
    present = {record["cell"]["method"] for record in records}
    names = {"GDFSEqual": EQUAL, "SUWRRange": "SUWR, range"}
    missing = [names.get(method, method) for method in METHODS if method not in present]
    lines = []
    if len(splits) < N_SPLITS:
        numbers = ", ".join(map(str, splits))
        lines.append(f"**Incomplete: only the splits {numbers} of {N_SPLITS} have been run.**")
    if missing:
        lines.append(f"**Not run: {'; '.join(missing)}.**")
    return ["", *lines] if lines else []


def _default(results: TableResults, data: str, split: int) -> dict[str, float] | None:
    """Scores of SUWR at the default λ."""
    points = results.points(data, "SUWR", split)
    place = [i for i, share in enumerate(points["setting"]) if share == DEFAULT_SHARE]
    return {name: values[place[0]] for name, values in points.items()} if place else None


def default_grid(results: TableResults) -> Grid:
    """SUWR at the default λ, compared with predictions without or with a fixed selection."""
    rows = []
    for data in results.tables:
        found = []
        for split in results.splits(data, "SUWR"):
            own = _default(results, data, split)
            if own is None:
                continue
            full = (
                results.points(data, "no selection", split)
                if split in results.splits(data, "no selection")
                else {}
            )
            fixed = results.fixed_subset_loss(data, split, own["cost"])
            found.append([
                own["cost"], own["loss"], results.constant(data, split),
                np.nan if fixed is None else fixed, full.get("loss", [np.nan])[0],
                own.get("calibration_error", np.nan),
                full.get("calibration_error", [np.nan])[0],
            ])  # fmt: skip
        if found:
            mean = np.mean(found, axis=0)
            mean[1:5] /= results.scale(data)
            digits = [1, 3, 3, 3, 3, 3, 3]
            cells = [
                "–" if np.isnan(v) else f"{v:.{d}f}" for v, d in zip(mean, digits, strict=True)
            ]
            rows.append([data, *cells])
    header = ["table", "features", "loss", "constant", "fixed subset", "no selection", "ECE"]
    return Grid([*header, "ECE, no selection"], rows)


def findings(results: TableResults) -> list[Sequence[str]]:
    """Questions of the protocol, and what is measured."""
    found: list[Sequence[str]] = []
    for name in (n for n in OURS if n in results.names):
        for description, rivals in COMPARED.items():
            if any(rival in results.names for rival in rivals):
                question = f"Tables on which {name} has a lower mean loss than {description}"
                found.append((question, _wins(results, name, rivals)))
        behind = {
            rival: [
                data
                for data in results.tables
                if (d := results.difference(data, name, rival)) is not None and d.sign > 0
            ]
            for rival in results.names
            if rival in RIVALS or rival in ("boosting on k", "network on k", "L1")
        }
        text = "; ".join(f"{rival}: {', '.join(data)}" for rival, data in behind.items() if data)
        found.append((f"{name} is behind by more than two standard errors", text or "nowhere"))
    found.append(("Best at 3, 5, 7 and 10 features: log loss", _best(results, "loss")))
    found.append(("Best at 3, 5, 7 and 10 features: AUROC", _best(results, "auroc")))
    ratio = _range_ratio(results)
    if ratio:
        worst = max(ratio, key=lambda data: ratio[data])
        found.append(
            ("Mean loss of the range model relative to the single λ",
             f"{100 * (np.mean(list(ratio.values())) - 1):+.1f} % on average, "
             f"{100 * (ratio[worst] - 1):+.1f} % on {worst}")
        )  # fmt: skip
    found.append(("Worse than the constant at the default λ", worse(results, "constant", 1.0)))
    found.append(
        ("Worse than a fixed subset of the same cost by more than 2 %, at the default λ",
         worse(results, "fixed", 1.02))
    )  # fmt: skip
    return found


def unseen_findings(records: list[Record]) -> list[Sequence[str]]:
    """The comparison of SUWR with its rivals on the splits whose results prompted no change."""
    unseen = [record for record in records if record["cell"]["seed"] not in SEEN_SPLITS]
    results = TableResults(unseen)
    seen = ", ".join(map(str, SEEN_SPLITS))
    return [
        ("Tables on which SUWR has a lower mean loss than GDFS and DIME, without the splits "
         f"{seen}, whose results have prompted changes",
         _wins(results, "SUWR", GREEDY))
    ]  # fmt: skip


def _wins(results: TableResults, name: str, rivals: Sequence[str]) -> str:
    """How many tables a curve wins against all rivals, and which it does not."""
    won, compared = [], []
    for data in results.tables:
        differences = [results.difference(data, name, rival) for rival in rivals]
        known = [d for d in differences if d is not None]
        if known:
            compared.append(data)
            if all(d.mean < 0 for d in known):
                won.append(data)
    lost = [data for data in compared if data not in won]
    text = f"{len(won)} of {len(compared)}"
    return f"{text}; not on {', '.join(lost)}" if lost else text


def _best(results: TableResults, score: str) -> str:
    """How often each method is the best, over classification tables and budgets."""
    names = [n for n in (*OURS, *GREEDY, *SEFA) if n in results.names]
    count = dict.fromkeys(names, 0)
    total = 0
    for data in results.tables:
        splits = results.splits(data, *names)
        if results.is_regression(data) or not splits:
            continue
        for budget in (b for b in BUDGETS if LOW <= b <= results.high(data)):
            mean = {
                n: np.mean([results.curve(data, n, s, score).at(budget) for s in splits])
                for n in names
            }
            best = (min if score == "loss" else max)(mean, key=lambda n: float(mean[n]))
            count[best] += 1
            total += 1
    if not total:
        return "not measured"
    return f"of {total}: " + ", ".join(f"{name} {n}" for name, n in count.items())


def _range_ratio(results: TableResults) -> dict[str, float]:
    """Mean loss of the range model divided by that of the single λ, by table."""
    ratio = {}
    for data in results.tables:
        splits = results.splits(data, *OURS)
        if splits:
            single, whole = (np.mean(results.means(data, n, "loss", splits)) for n in OURS)
            ratio[data] = float(whole / single)
    return ratio


def worse(results: TableResults, reference: str, factor: float) -> str:
    """Tables on which the mean loss of SUWR at the default λ exceeds that of a reference."""
    worse, measured = [], False
    for data in results.tables:
        ours, others = [], []
        for split in results.splits(data, "SUWR"):
            own = _default(results, data, split)
            if own is None:
                continue
            other = (
                results.constant(data, split)
                if reference == "constant"
                else results.fixed_subset_loss(data, split, own["cost"])
            )
            if other is not None:
                ours.append(own["loss"])
                others.append(other)
        measured |= bool(ours)
        if ours and np.mean(ours) > factor * np.mean(others):
            worse.append(f"{data} ({np.mean(ours) / np.mean(others):.3f})")
    return ", ".join(worse) or ("nowhere" if measured else "not measured")
