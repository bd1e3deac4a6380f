"""What the training of models for a range of λ was chosen by: range models on development tables.

    python benchmarks/training/ranges.py FOLDER

The tables, their first split and the single λ that they are compared with are those of
``encoding.py``. The results replace those of the default in ``ranges.json.xz``, and ``ranges.md``
is written from all of them; without an argument, only the page is written.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from encoding import N_SEEDS, load

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import machine, read_json, write_json
from suwr_experiments.comparison import Curve
from suwr_experiments.config import Cell
from suwr_experiments.experiment import constant_loss, fit_alone
from suwr_experiments.tabular_experiment import RANGE, TablesExperiment

OUT = Path(__file__).with_suffix(".json.xz")
ENCODING = OUT.with_name("encoding.json.xz")
SINGLE = "8 bins, every second predictor"
LEFT_OUT = "mushroom"
#: Variants of the training; the first is the reference, and the last the default.
VARIANTS = {
    "before": "the losses of all gradients are weighted by 1/√λ",
    "no early stopping": "as before, without early stopping",
    "twice the epochs": "as before, with twice the epochs",
    "weaker": "all losses weighted by λ^(−1/4)",
    "gain only": "only the regression of the gain is weighted, by 1/√λ",
    "gain only, weaker": "only the regression of the gain is weighted, by λ^(−1/4)",
    "gain only, a tenth": "as 'gain only', with a tenth of the regression",
    "linear": "the gain is output in units of √λ, its squared error weighted by 1/√λ",
    "none": "no weights",
    "default, twice the epochs": "as the default, with twice the epochs",
    "default": "the gain is output in units of √λ, but no loss is weighted",
}
#: Changes of the default that were not adopted; only their record is left.
TRIED = {
    "by variance": "the squared error of the gain is divided by its variance at each step",
    "by deviation": "the same, by its standard deviation",
    "small λ": "smaller λ are drawn more often",
    "continuation": "`min_continuation` 0.3",
    "four rollouts": "`rollouts` 4",
    "no dropout": "`policy_dropout` 0 and `policy_weight_decay` 0.02",
    "wider": "`hidden_size` 256",
    "softer": "a higher stop temperature towards the low end of the range",
    "harder": "`stop_softness_end` 0.2",
    "by variance, no dropout": "both",
    "by variance, small λ": "both",
}
#: Changes of fitted models of the default; only their record is left.
AFTER_TRAINING = {
    "two models": "the predictors of two fits, their mean gain and their mean selection policy",
    "twice the predictors": "the predictors of two fits, the policy of one",
    "earlier": "the expected gain is lowered by half of the stop temperature",
    "later": "it is raised by as much",
}


def measure(folder: Path, case: dict[str, Any]) -> dict[str, Any]:
    """Points of each seed, and the mean loss over 2 to 10 features."""
    task, areas, points = load(folder, case), [], []
    scale = constant_loss(task)
    for seed in range(N_SEEDS):
        params = {"sparsity_weight": tuple(share * scale for share in RANGE)}
        cell = Cell("tables", case["table"], "SUWRRange", seed, params=params)
        model = fit_alone(Cell("tables", case["table"], "SUWR", seed, params=params), task)[0]
        found = TablesExperiment().measure(cell, model, task)
        curve = found["curves"]["path"]
        cost, loss = [0.0, *curve["cost"]], [found["constant"]["loss"], *curve["loss"]]
        areas.append(float(Curve.of(cost, loss).mean(2, min(10, task.X.shape[1]))))
        points.append([*zip(cost, loss, strict=True)])
    return case | {"variant": "default", "mean_loss": areas, "points": points}


def page(results: list[dict[str, Any]], single: dict[str, float], note: str) -> str:
    """All results as Markdown."""
    found: dict[str, dict[str, float]] = {variant: {} for variant in VARIANTS}
    for result in results:
        found[result["variant"]][result["table"]] = float(np.mean(result["mean_loss"]))
    reference = next(iter(VARIANTS))
    low, high = RANGE
    lines = [
        "# Training for a range of λ",
        "",
        "Written by `benchmarks/training/ranges.py` from `ranges.json.xz`. "
        "One SUWR model for λ from "
        f"{low:g} to {high:g} times the loss of the constant prediction, on one split of "
        "development tables, none of which is a table of "
        "[tables.md](../../docs/results/tables.md): the mean loss over 2 to 10 features, as a "
        f"geometric mean over tables relative to that of '{reference}' with its standard error, "
        "and relative to that of single λ where [encoding](encoding.md) has one. "
        f"{LEFT_OUT}, whose loss is below 1 % of the constant's, is left out of the means.",
        "",
        note,
        "",
        f"| variant | training | relative to '{reference}' | relative to single λ |",
        "| --- | --- | --- | --- |",
    ]
    for variant, meaning in VARIANTS.items():
        own, columns = found[variant], []
        for other in (found[reference], single):
            tables = [table for table in own if table in other and table != LEFT_OUT]
            ratio = np.log([own[table] / other[table] for table in tables])
            error = ratio.std() / len(ratio) ** 0.5
            columns.append(f"{np.exp(ratio.mean()):.3f} ± {error:.3f} ({len(tables)} tables)")
        lines.append(f"| {variant} | {meaning} | {' | '.join(columns)} |")
    lines += ["", "Mean loss:", "", f"| table | single λ | {' | '.join(VARIANTS)} |"]
    lines.append("| --- " * (2 + len(VARIANTS)) + "|")
    for table in sorted(found[reference]):
        cells = [f"{f[table]:.4g}" if table in f else "–" for f in (single, *found.values())]
        lines.append(f"| {table} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def changes(title: str, text: str, ratios: dict[str, tuple[str, list[float]]]) -> str:
    """A table of changes that were not adopted as Markdown.

    ``ratios`` maps a change to its description and its mean losses relative to the default.
    """
    rows, lower = [], []
    for name, (meaning, values) in ratios.items():
        ratio = np.log(values)
        mean, error = ratio.mean(), ratio.std(ddof=1) / len(ratio) ** 0.5
        lower += [name] if mean + 2 * error < 0 else []
        rows.append(
            f"| {name} | {meaning} | {np.exp(mean):.3f} ± {error:.3f} | "
            f"{(ratio < 0).sum()} of {len(ratio)} splits |"
        )
    lines = [
        "",
        f"## {title}",
        "",
        f"{text} Lower by more than two standard errors: {', '.join(lower) or 'none'}.",
        "",
        "| change | what differs | mean loss | lower on |",
        "| --- | --- | --- | --- |",
        *rows,
    ]
    return "\n".join(lines) + "\n"


def tried(record: dict[str, Any]) -> str:
    """The changes that were not adopted as Markdown."""
    found = {
        (r["variant"], r["table"], r["split"]): r["mean_loss"] for r in record["tried"]["results"]
    }
    training = {
        variant: (
            meaning,
            [loss / found["default", *at] for (of, *at), loss in found.items() if of == variant],
        )
        for variant, meaning in TRIED.items()
    }
    after = {
        variant: (
            meaning,
            [
                r["mean_loss"] / r["default"]
                for r in record["after_training"]["results"]
                if r["variant"] == variant
            ],
        )
        for variant, meaning in AFTER_TRAINING.items()
    }
    splits = "splits of development tables with at most 1,000 training rows"
    return changes(
        "Changes of the training that were not adopted",
        f"One fit of each of some {splits}: the mean loss relative to that of the default, as a "
        "geometric mean with its standard error.",
        training,
    ) + changes(
        "Changes of fitted models that were not adopted",
        f"Two fits of the default on the same {splits}; the mean loss relative to those of the "
        "models that were changed. Two models take twice the time.",
        after,
    )


def main() -> None:
    record = read_json(OUT)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    single = {
        r["table"]: float(np.mean(r["mean_loss"]))
        for r in read_json(ENCODING)["results"]
        if r["variant"] == SINGLE and r["split"] == 0 and r["n_train"] is None and not r["many"]
    }
    results = {(r["table"], r["variant"]): r for r in record["results"]}
    names = ("table", "split", "n_train", "regression")
    cases = [
        {name: r[name] for name in names}
        for r in record["results"]
        if r["variant"] == next(iter(VARIANTS))
    ]
    for case in cases if sys.argv[1:] else []:
        results[case["table"], "default"] = measure(Path(sys.argv[1]), case) | {
            "provenance": machine()
        }
        write_json(OUT, record | {"results": list(results.values())})
    first = page(list(results.values()), single, record["note"])
    Path(__file__).with_suffix(".md").write_text(first + tried(record))


if __name__ == "__main__":
    main()
