"""The page of Experiment 2."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from suwr_experiments import synthetic_results
from suwr_experiments.published import LIMIT, PUBLISHED
from suwr_experiments.records import Record
from suwr_experiments.synthetic_experiment import BUDGET_DATA, is_branched
from suwr_experiments.synthetic_results import (
    Summary,
    budget_records,
    chosen_shares,
    path_grid,
    path_records,
    result_grid,
    summarize,
)
from suwr_experiments.tables import Grid, findings_grid, label, mean_and_sd

__all__ = ["findings", "page"]

# Baselines of the paper's comparison.
BASELINES = ("L2X", "INVASE", "REALX", "TabNet", "CAE")


def page(records: list[Record], link: str) -> str:
    """Write the page of Experiment 2 as Markdown.

    Parameters
    ----------
    records : list of dict
    link : str
        Path of the folder with the figures, relative to the page.
    """
    summaries = summarize(records)
    chosen = chosen_shares(records)
    data = list(dict.fromkeys(s.data for s in summaries))
    n_seeds = len({r["cell"]["seed"] for r in records})
    lines = [
        "# Experiment 2: the synthetic benchmark", "",
        "Syn1 to Syn6 with 10,000 training rows (seed 0) and 10,000 test rows (seed 100);",
        f"{n_seeds} training seeds, all of which are reported. SUWR may take eleven steps on every",
        "data set; the paper sets T = 4 or 5. Baselines have the paper's hyper-parameters. For the",
        "protocol see [the guide](../guides/reproduce.md#protocol).", "",
        "g3 is that of the published benchmark code, exp(−10 sin(0.2 x7) + |x8| + x9 + exp(−x10)",
        "− 2.4), and y = 1 with probability 1 / (1 + g); with the g3 printed in the paper some",
        "probabilities would be negative.", "",
        *_rule_of_lambda(), "",
        "Chosen λ, relative to the loss of the best constant prediction: "
        + ", ".join(f"{d} {share:g}" for d, share in chosen.items()) + ".", "",
        "## All methods", "",
        "Mean ± standard deviation over the seeds on test rows; published values in brackets. TPR,",
        "FDR and CFSR (fraction of rows in which x11 is selected) in percent.",
    ]  # fmt: skip
    for name in data:
        limit = f" (AUROC of the true p(y | x): {LIMIT[name]})" if name in LIMIT else ""
        grid = result_grid([s for s in summaries if s.data == name])
        lines += ["", f"### {name}{limit}", "", grid.markdown()]
    lines += [
        "", "## Difference from the published AUROC", "",
        "AUROC measured here minus AUROC in the paper's Table 2; in brackets the standard",
        "deviation over the seeds measured here.", "",
        published_grid(summaries).markdown(),
        "", "## AUROC against the number of features", "",
        f"![AUROC against features]({link}/curves.svg)",
        "", "## The paper's findings", "",
        findings_grid(findings(records)).markdown(), "",
        "## Selection of x1 and x2", "",
        "x1 and x2 affect the label through their product alone, so that neither is informative by",
        "itself. Percentage of test rows in which each is selected, among rows whose label depends",
        "on nothing but the product (and on x11):", "",
        product_grid(summaries).markdown(), "",
        "## Step that reveals x11", "", f"![Step that reveals x11]({link}/control-step.svg)", "",
    ]  # fmt: skip
    if len(budget_records(records, BUDGET_DATA).get(0.0, {})) > 1:
        figure = f"![Budget against features]({link}/budget.svg)"
        lines += ["## Budget against the number of features", "", figure, ""]
    lines.append("## SUWR's λ path")
    for name in data:
        if path_records(records, name):
            lines += ["", f"### λ on {name}", "", path_grid(records, name).markdown()]
    return "\n".join(lines)


def _rule_of_lambda() -> list[str]:
    """The rule by which λ is chosen, from the docstring that defines it."""
    text = (synthetic_results.__doc__ or "").split("\n\n", 1)[-1].strip()
    return [f"> {line}" for line in text.splitlines()]


def published_grid(summaries: list[Summary]) -> Grid:
    """Difference of every method from the paper's Table 2."""
    data = list(dict.fromkeys(s.data for s in summaries))
    by_method: dict[str, dict[str, Summary]] = {}
    for s in summaries:
        if s.data in PUBLISHED.get(s.method, {}):
            by_method.setdefault(s.method, {})[s.data] = s
    rows = []
    for method, found in by_method.items():
        cells = []
        for name in data:
            if name not in found:
                cells.append("–")
                continue
            mean, sd = mean_and_sd(found[name].values("auroc"))
            cells.append(f"{mean - PUBLISHED[method][name]['auroc']:+.3f} ({sd:.3f})")
        rows.append([label(method), *cells])
    return Grid(["method", *data], rows)


def product_grid(summaries: list[Summary]) -> Grid:
    """How often x1 and x2 are selected where the label depends on their product."""
    columns = [("Syn1", "column_share"), ("Syn4", "column_share_low"), ("Syn5", "column_share_low")]
    rows = []
    for method in ("SUWR", "GDFS", "DIME", "SEFA"):
        own = {s.data: s for s in summaries if s.method == method}
        if not own:
            continue
        row = [label(method)]
        for data, name in columns:
            shares = [r["metrics"][name][:2] for r in own[data].records] if data in own else []
            mean = 100 * np.mean(shares, axis=0) if shares else [float("nan")] * 2
            row += [f"{mean[0]:.0f}", f"{mean[1]:.0f}"]
        rows.append(row)
    header = ["method"]
    for data, name in columns:
        where = "" if name == "column_share" else ", x11 < 0"
        header += [f"x1 ({data}{where})", f"x2 ({data}{where})"]
    return Grid(header, rows)


class _Means:
    """Means over seeds by data set, method and metric."""

    def __init__(self, summaries: list[Summary]) -> None:
        self._summaries = {(s.data, s.method): s for s in summaries}
        self.data = sorted({s.data for s in summaries})
        self.branched = [name for name in self.data if is_branched(name)]

    def __call__(self, data: str, method: str, metric: str) -> float:
        return float(np.mean(self._summaries[data, method].values(metric)))

    def has(self, *methods: str) -> bool:
        """Whether all of these methods were run on every data set."""
        return all((data, method) in self._summaries for data in self.data for method in methods)

    def others(self, data: str) -> list[str]:
        """Methods other than SUWR and the oracle."""
        return [m for d, m in self._summaries if d == data and m not in ("SUWR", "Oracle")]

    def row(self, method: str, metric: str, digits: int, data: Iterable[str]) -> str:
        """The means of one method on several data sets."""
        return ", ".join(f"{name} {self(name, method, metric):.{digits}f}" for name in data)

    def difference(self, method: str, other: str, data: Iterable[str]) -> str:
        """Difference in AUROC of two methods on several data sets."""
        return ", ".join(
            f"{name} {self(name, method, 'auroc') - self(name, other, 'auroc'):+.4f}"
            for name in data
        )

    def better(self, metric: str, digits: int, is_better: Callable[[float, float], bool]) -> str:
        """Methods that are better than SUWR in a metric, by data set."""
        found = []
        for data in self.data:
            ours = self(data, "SUWR", metric)
            methods = [m for m in self.others(data) if is_better(self(data, m, metric), ours)]
            if methods:
                values = [f"{label(m)} {self(data, m, metric):.{digits}f}" for m in methods]
                found.append(f"{data} ({', '.join(values)})")
        return "; ".join(found) or "none"


def findings(records: list[Record]) -> list[tuple[str, str]]:
    """Findings of the paper's Section 6 and Appendix F.2, in its order, and what is measured."""
    summaries = summarize(records)
    mean = _Means(summaries)
    unbranched = [name for name in mean.data if name not in mean.branched]

    def measured(methods: Iterable[str], text: Callable[[], str]) -> str:
        return text() if mean.has(*methods) else "not measured"

    found = [
        (
            "There is a large gap in AUROC between no selection and the oracle everywhere.",
            measured(
                ("Oracle", "AllFeatures"),
                lambda: (
                    "oracle − no selection: " + mean.difference("Oracle", "AllFeatures", mean.data)
                ),
            ),
        ),
        (
            "SUWR has the highest AUROC of all methods but the oracle.",
            measured(
                ("SUWR", *BASELINES),
                lambda: (
                    f"SUWR: {mean.row('SUWR', 'auroc', 4, mean.data)}; higher: "
                    + mean.better("auroc", 4, lambda other, ours: other > ours)
                ),
            ),
        ),
        (
            "On Syn1 to Syn3 SUWR reaches the oracle's AUROC.",
            measured(
                ("SUWR", "Oracle"),
                lambda: "oracle − SUWR: " + mean.difference("Oracle", "SUWR", unbranched),
            ),
        ),
        (
            "SUWR's TPR is at least 97 everywhere, its CFSR 100 on Syn4 to Syn6.",
            measured(
                ("SUWR",),
                lambda: (
                    f"TPR: {mean.row('SUWR', 'tpr', 1, mean.data)}; "
                    f"CFSR: {mean.row('SUWR', 'cfsr', 1, mean.branched)}"
                ),
            ),
        ),
        (
            "SUWR's FDR is below that of every baseline, INVASE on Syn4 and Syn5 excepted.",
            measured(
                ("SUWR", *BASELINES),
                lambda: (
                    f"SUWR: {mean.row('SUWR', 'fdr', 1, mean.data)}; lower: "
                    + mean.better("fdr", 1, lambda other, ours: other < ours)
                ),
            ),
        ),
        (
            "INVASE often hides x11 although its selection depends on it (CFSR 41 to 61).",
            measured(
                ("INVASE", "L2X"),
                lambda: (
                    f"CFSR of INVASE: {mean.row('INVASE', 'cfsr', 1, mean.branched)}; "
                    f"of L2X: {mean.row('L2X', 'cfsr', 1, mean.branched)}"
                ),
            ),
        ),
        ("SUWR selects x11 at the very first step.", _control_first(summaries)),
    ]
    return found + _budget_finding(records)


def _control_first(summaries: list[Summary]) -> str:
    """Rows in which SUWR selects x11 first, in the seed with the fewest."""
    lowest = {
        s.data: min(100 * r["metrics"]["control_step"][1] for r in s.records)
        for s in summaries
        if s.method == "SUWR" and is_branched(s.data)
    }
    if not lowest:
        return "not measured"
    shares = ", ".join(f"{data} {share:.1f} %" for data, share in lowest.items())
    return f"rows in which x11 is first, in the seed with the fewest: {shares}"


def _budget_finding(records: list[Record]) -> list[tuple[str, str]]:
    curves = budget_records(records, BUDGET_DATA)
    positive = [share for share in curves if share > 0]
    if not positive:
        return []
    sizes = {
        budget: float(np.mean([r["metrics"]["test"]["n_selected"] for r in own]))
        for budget, own in sorted(curves[positive[0]].items())
    }
    return [
        (
            f"With λ > 0, SUWR selects the right number of features for any T ({BUDGET_DATA}).",
            "features by T: " + ", ".join(f"{t}: {n:.2f}" for t, n in sizes.items()),
        )
    ]
