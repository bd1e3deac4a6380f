"""What the paper says of its experiments, checked against records."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from suwr_experiments.benchmark_summary import Summary, budget_records, summarize
from suwr_experiments.tables import LABELS, Grid

__all__ = ["Claim", "claim_grid", "synthetic_claims"]

Record = dict[str, Any]
#: The methods that the paper compares with.
RIVALS = ("L2X", "INVASE", "REALX", "TabNet", "CAE")


@dataclass(frozen=True)
class Claim:
    """A sentence, whether it holds here, and the numbers.

    Attributes
    ----------
    text : str
    holds : bool or None
        None while a method that it speaks of was not run.
    evidence : str
    """

    text: str
    holds: bool | None
    evidence: str


def claim_grid(claims: Iterable[Claim], source: str = "the paper says") -> Grid:
    """A table of claims."""
    words = {True: "holds", False: "does not hold", None: "not measured yet"}
    rows = [[c.text, words[c.holds], "" if c.holds is None else c.evidence] for c in claims]
    return Grid([source, "here", "numbers"], rows, n_left=3)


class _Means:
    """Means over seeds, by data set, method and measure."""

    def __init__(self, summaries: list[Summary]) -> None:
        self._summaries = {(s.data, s.method): s for s in summaries}
        self.data = sorted({s.data for s in summaries})
        self.branched = [name for name in self.data if int(name[3]) >= 4]

    def __call__(self, data: str, method: str, measure: str) -> float:
        found = self._summaries.get((data, method))
        return float("nan") if found is None else float(np.mean(found.values(measure)))

    def checked(self, claim: Claim, *methods: str) -> Claim:
        """The claim, as far as these methods were run on every set."""
        known = all((data, method) in self._summaries for data in self.data for method in methods)
        return claim if known else replace(claim, holds=None)

    def methods(self, data: str, *without: str) -> list[str]:
        return [m for d, m in self._summaries if d == data and m not in without]

    def row(self, method: str, measure: str, digits: int, data: Iterable[str]) -> str:
        return " ".join(f"{self(name, method, measure):.{digits}f}" for name in data)


def synthetic_claims(records: list[Record]) -> list[Claim]:
    """The paper's findings in Section 6 and Appendix F.2, in its order."""
    summaries = summarize(records)
    mean = _Means(summaries)
    return [
        mean.checked(_selection_helps(mean), "Oracle", "AllFeatures"),
        mean.checked(_best_of_all(mean), "SUWR", *RIVALS),
        mean.checked(_as_good_as_the_oracle(mean), "SUWR", "Oracle"),
        mean.checked(_finds_what_matters(mean), "SUWR"),
        mean.checked(_fewest_false(mean), "SUWR", *RIVALS),
        mean.checked(_control_hidden(mean), "INVASE", "L2X"),
        _control_first(summaries),
        *_robust_to_budget(records),
    ]


def _selection_helps(mean: _Means) -> Claim:
    gaps = [mean(d, "Oracle", "auroc") - mean(d, "AllFeatures", "auroc") for d in mean.data]
    return Claim(
        "There is a large gap in AUROC between no selection and the oracle everywhere.",
        bool(np.min(gaps) >= 0.03),
        "oracle minus no selection: " + " ".join(f"{g:.3f}" for g in gaps),
    )


def _best_of_all(mean: _Means) -> Claim:
    lost = []
    for data in mean.data:
        ours = mean(data, "SUWR", "auroc")
        for method in mean.methods(data, "SUWR", "Oracle"):
            if mean(data, method, "auroc") > ours:
                lost.append(f"{LABELS.get(method, method)} on {data}")
    return Claim(
        "SUWR has the highest AUROC of all methods but the oracle.",
        not lost,
        f"higher: {', '.join(lost)}" if lost else mean.row("SUWR", "auroc", 4, mean.data),
    )


def _as_good_as_the_oracle(mean: _Means) -> Claim:
    first = [name for name in mean.data if name not in mean.branched]
    gaps = [mean(d, "Oracle", "auroc") - mean(d, "SUWR", "auroc") for d in first]
    return Claim(
        "On Syn1 to Syn3 SUWR reaches the oracle's AUROC.",
        bool(gaps) and max(gaps) <= 0.001,
        "oracle minus SUWR: " + " ".join(f"{g:+.4f}" for g in gaps),
    )


def _finds_what_matters(mean: _Means) -> Claim:
    tpr = [mean(d, "SUWR", "tpr") for d in mean.data]
    cfsr = [mean(d, "SUWR", "cfsr") for d in mean.branched]
    return Claim(
        "SUWR's TPR is at least 97 everywhere, its CFSR 100 on Syn4 to Syn6.",
        bool(np.min(tpr) >= 97 and np.min(cfsr, initial=100) >= 99.95),
        f"TPR {mean.row('SUWR', 'tpr', 1, mean.data)}; "
        f"CFSR {mean.row('SUWR', 'cfsr', 1, mean.branched)}",
    )


def _fewest_false(mean: _Means) -> Claim:
    lower = [
        f"{LABELS.get(method, method)} on {data} ({mean(data, method, 'fdr'):.1f})"
        for data in mean.data
        for method in mean.methods(data, "SUWR", "Oracle")
        if mean(data, method, "fdr") < mean(data, "SUWR", "fdr")
    ]
    allowed = [text for text in lower if text.startswith(("INVASE on Syn4", "INVASE on Syn5"))]
    text = f"FDR {mean.row('SUWR', 'fdr', 1, mean.data)}"
    return Claim(
        "SUWR's FDR is below that of every baseline, INVASE on Syn4 and Syn5 excepted.",
        len(lower) == len(allowed),
        text + (f"; lower: {', '.join(lower)}" if lower else ""),
    )


def _control_hidden(mean: _Means) -> Claim:
    data = mean.branched
    cfsr = [mean(d, "INVASE", "cfsr") for d in data]
    return Claim(
        "INVASE often hides x11 although its choice depends on it (CFSR 41 to 61).",
        bool(np.nanmax([*cfsr, 0]) < 90) and bool(data),
        f"INVASE's CFSR {mean.row('INVASE', 'cfsr', 1, data)}; "
        f"L2X's {mean.row('L2X', 'cfsr', 1, data)}",
    )


def _control_first(summaries: list[Summary]) -> Claim:
    found = {}
    for s in summaries:
        if s.method == "SUWR" and int(s.data[3]) >= 4:
            found[s.data] = [100 * r["metrics"]["control_step"][1] for r in s.records]
    worst = {data: min(shares) for data, shares in found.items()}
    return Claim(
        "SUWR selects x11 at the very first step.",
        bool(worst) and min(worst.values()) >= 99.95,
        "least share of rows over the seeds: "
        + ", ".join(f"{data} {share:.1f} %" for data, share in worst.items()),
    )


def _robust_to_budget(records: list[Record]) -> list[Claim]:
    curves = budget_records(records, "Syn1")
    priced = [share for share in curves if share > 0]
    if not priced:
        return []
    sizes = {
        budget: float(np.mean([r["metrics"]["test"]["n_selected"] for r in some]))
        for budget, some in sorted(curves[priced[0]].items())
        if budget >= 2
    }
    return [
        Claim(
            "With a price, SUWR takes the right number of features whatever the budget (Syn1).",
            max(sizes.values()) - min(sizes.values()) <= 0.5,
            "features at T: " + ", ".join(f"{b}: {n:.2f}" for b, n in sizes.items()),
        )
    ]
