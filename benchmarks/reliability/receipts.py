"""Forged and altered receipts.

    python benchmarks/reliability/receipts.py [--mutants N] [--table]

Every mutant of a receipt must be refused by `suwr.verify`. Forgeries have a valid digest, since
anyone can compute it, and consistent fields; alterations change the text. A mutant that the model
itself issues for the values in it is not a forgery: such mutants are counted separately. All are
seeded and therefore reproducible.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "helpers"))
import numpy as np
import torch
from forged_receipts import ALTERATIONS, FORGERIES, issued_by, mutant
from raw_cells import fit_random_policy, mixed_table
from sklearn.datasets import load_diabetes, load_digits

from common import machine, write_json
from suwr import Patches, SUWRClassifier, SUWRRegressor
from suwr.estimators.verify import Verifier

HERE = Path(__file__).parent
# Receipts per model; mutants that are verified together.
N_RECEIPTS, BATCH = 100, 100


def models() -> dict[str, tuple[Any, Any]]:
    """Small models of every kind of receipt, with rows."""
    mixed, y = mixed_table()
    X, target = load_diabetes(return_X_y=True, scaled=False)
    labels = np.where(target > 140, "high", "low")
    small: dict[str, Any] = {"max_epochs": 3, "hidden_size": 16, "random_state": 0}
    regressor = SUWRRegressor(units_per_step=2, sparsity_weight=30.0, **small)
    ranged = SUWRClassifier(sparsity_weight=(0.001, 0.05), max_steps=5, **small)
    images, digits = load_digits(return_X_y=True)
    patches = SUWRClassifier(groups=Patches((8, 8), size=3), max_steps=5, **small)
    return {
        "columns of every type": (fit_random_policy(mixed, y), mixed),
        "regression, two units a step": (regressor.fit(X, target), X),
        "a range of λ": (ranged.fit(X, labels), X),
        "overlapping patches": (patches.fit(images[:500], digits[:500]), images[500:]),
    }


def measure(n_mutants: int) -> dict[str, Any]:
    """Verify the mutants of all families, an equal number of each, over all models."""
    known = []
    for name, (model, X) in models().items():
        texts = [narrative.receipt().to_json() for narrative in model.explain(X[:N_RECEIPTS])]
        verifier = Verifier(model)
        genuine = verifier.verify(texts)
        assert all(genuine), f"{name}: a genuine receipt is refused"
        known.append((model, texts, verifier))
    families = [*FORGERIES, *ALTERATIONS]
    results = {}
    for place, family in enumerate(families):
        share = n_mutants // len(families) + (place < n_mutants % len(families))
        results[family] = measure_family(family, share, known)
        print(family, results[family], flush=True)
    return results


def measure_family(family: str, n_mutants: int, known: list[Any]) -> dict[str, Any]:
    begun, number = time.process_time(), 0
    counts = {"mutants": 0, "accepted": 0, "genuine": 0, "at a step": 0}
    while counts["mutants"] - counts["genuine"] < n_mutants:
        model, texts, verifier = known[(number // BATCH) % len(known)]
        left, found = min(BATCH, n_mutants - counts["mutants"] + counts["genuine"]), []
        for _ in range(BATCH):
            forged = mutant(family, texts, number, Random(f"{family} {number}"))
            number += 1
            if forged is not None and len(found) < left:
                found.append(forged)
        for forged, result in zip(found, verifier.verify(found), strict=True):
            counts["at a step"] += result.step is not None
            if result and issued_by(model, forged):
                counts["genuine"] += 1
            elif result:
                counts["accepted"] += 1
                print(f"{family}: accepted {forged!r:.2000}", file=sys.stderr)
        counts["mutants"] = counts["mutants"] + len(found)
    return {**counts, "cpu_seconds": round(time.process_time() - begun, 1)}


def table(result: dict[str, Any]) -> str:
    """Format the results as Markdown."""
    about, families = result["about"], result["families"]
    genuine = sum(family["genuine"] for family in families.values())
    total = sum(family["mutants"] for family in families.values()) - genuine
    accepted = sum(family["accepted"] for family in families.values())
    lines = [
        "# Forged and altered receipts",
        "",
        f"{total:,} seeded mutants of {4 * N_RECEIPTS} receipts of four models, {accepted} "
        f"accepted ({about['machine']}, {about['date']}). The genuine receipts are all verified. "
        "The models have columns of every type, two units a step, a range of λ, and overlapping "
        "patches of images. Forgeries have consistent fields and a valid digest, which anyone can "
        "compute; alterations change the text. The last column counts mutants that are "
        "well-formed and differ at a step of the replay; the others are refused before it.",
        "",
        "| mutant | digest | forgeries | accepted | differ at a step |",
        "| --- | --- | ---: | ---: | ---: |",
    ]
    for name, family in families.items():
        digest = "valid" if name in FORGERIES or "fields" in name else "wrong"
        lines.append(
            f"| {name} | {digest} | {family['mutants'] - family['genuine']:,} | "
            f"{family['accepted']} | "
            f"{family['at a step']:,} |"
        )
    lines += [
        "",
        "Row label, version and environment are not computed by the model. Their changes are "
        "refused because the digest is wrong; with a new digest no replay can detect them. Sign "
        "receipts if their recipients must know who issued them.",
        "",
        f"{genuine} further mutants are verified and not counted above, since they are no "
        "forgeries: the model itself issues them for the values in them. The changed value is one "
        "that the model cannot distinguish from the original, such as the median and a missing "
        "value of a column without missing values in `fit`.",
        "",
        f"Command: `{about['command']}`",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mutants", type=int, default=20_000)
    parser.add_argument("--table", action="store_true", help="only rewrite the page")
    options = parser.parse_args()
    path = HERE / "receipts.json"
    if options.table:
        stored = json.loads(path.read_text())
    else:
        warnings.simplefilter("ignore")  # the models are trained briefly
        torch.set_num_threads(1)
        stored = {"about": machine(), "families": measure(options.mutants)}
        write_json(path, stored)
    (HERE / "receipts.md").write_text(table(stored))
    print(table(stored))


if __name__ == "__main__":
    main()
