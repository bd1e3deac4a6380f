"""How much fits of different seeds differ, beside an earlier version of the library.

    python benchmarks/training/stability.py CHECKOUT [JOBS [VERSION]]
    python benchmarks/training/stability.py    # only write the page from the JSON

CHECKOUT is a clone at the earlier commit. Both versions, or only VERSION ('earlier' or 'present'),
are fitted with default settings to the same training rows, each fit in a process of its own and on
one core; only the seed of the fit differs. Tables are split as in the benchmark of tables; Syn4 has
10,000 test rows. Finished fits are not repeated.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

OUT = Path(__file__).with_suffix(".json")
ROOT = Path(__file__).parents[2]
DATA = ("german", "attrition", "Syn4, 2,500 rows")
N_SEEDS = 10
SPLIT = 0
SYN_SEEDS = (61_000, 71_000)


def write_data(name: str, folder: Path) -> None:
    """Write training and test rows, with the target in the last column."""
    import pandas as pd

    from suwr_experiments.synthetic import synthetic
    from suwr_experiments.tabular_data import TABLES, read_source, split_rows

    if name in TABLES:
        data = read_source(name, TABLES[name])
        train, validation, test = split_rows(len(data.y), SPLIT)
        table = data.X.assign(Outcome=data.y)
        parts = table.iloc[np.concatenate([train, validation])], table.iloc[test]
    else:
        drawn = (synthetic(4, n, seed) for n, seed in zip((2_500, 10_000), SYN_SEEDS, strict=True))
        parts = tuple(pd.DataFrame(d.X).assign(Outcome=d.y) for d in drawn)
    for part, rows in zip(("train", "test"), parts, strict=True):
        rows.to_csv(folder / f"{name}-{part}.csv", index=False)


def fit(folder: Path, name: str, seed: int) -> dict[str, float]:
    """Test log loss and mean number of features of one fit, by the library that is imported."""
    import warnings

    import pandas as pd
    import torch
    from sklearn.metrics import log_loss

    from suwr import SUWRClassifier

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    train, test = (pd.read_csv(folder / f"{name}-{part}.csv") for part in ("train", "test"))
    y, y_test = train.pop("Outcome"), test.pop("Outcome")
    begun = time.process_time()
    model = SUWRClassifier(random_state=seed, device="cpu").fit(train, y)
    seconds = time.process_time() - begun
    probability = np.clip(model.predict_proba(test), 1e-7, 1.0)
    return {
        "loss": float(log_loss(y_test, probability, labels=model.classes_)),
        "cost": float(np.mean(model.cost(test))),
        "cpu_seconds": round(seconds, 1),
    }


def table(record: dict[str, Any]) -> str:
    """The record as a page."""
    fits = record["fits"]
    earlier, present = (
        ", ".join(sorted({f["commit"] for f in fits if f["version"] == version}))
        for version in ("earlier", "present")
    )
    lines = [
        "# Differences between seeds",
        "",
        "Written by `benchmarks/training/stability.py` from `stability.json`. Fits with default "
        "settings to the same rows, which differ in the seed only: mean test log loss, its "
        "standard deviation over the seeds, the mean number of features and its standard "
        f"deviation, at commit {present} and at the earlier commit {earlier}. The ratio is that of "
        "the standard deviations of the loss.",
        "",
        "| data | version | seeds | log loss | standard deviation | features | standard deviation "
        "| ratio |",
        "| --- | --- |" + " ---: |" * 6,
    ]
    for name in DATA:
        spread: dict[str, float] = {}
        for version in ("earlier", "present"):
            own = [f for f in fits if (f["data"], f["version"]) == (name, version)]
            if len(own) < 2:
                continue
            loss, cost = (np.array([f[key] for f in own]) for key in ("loss", "cost"))
            spread[version] = loss.std(ddof=1)
            ratio = f"{spread['present'] / spread['earlier']:.2f}" if len(spread) == 2 else ""
            lines.append(
                f"| {name} | {version} | {len(own)} | {loss.mean():.4f} | {loss.std(ddof=1):.4f} "
                f"| {cost.mean():.1f} | {cost.std(ddof=1):.1f} | {ratio} |"
            )
    machines = sorted({f"{f['about']['machine']}, {f['about']['date']}" for f in fits})
    return "\n".join([*lines, "", f"Machine: {'; '.join(machines)}.", ""])


def main() -> None:
    """Run the fits that are missing, and write the page."""
    sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "src")]
    from common import machine, write_json

    record = json.loads(OUT.read_text()) if OUT.exists() else {"fits": []}
    if sys.argv[1:]:
        trees = {"earlier": Path(sys.argv[1]).resolve() / "src", "present": ROOT / "src"}
        if sys.argv[3:]:
            trees = {sys.argv[3]: trees[sys.argv[3]]}
        commits = {version: commit(tree) for version, tree in trees.items()}
        done = {(f["data"], f["version"], f["seed"]) for f in record["fits"]}
        jobs = [
            (name, version, seed)
            for name in DATA for seed in range(N_SEEDS) for version in trees
            if (name, version, seed) not in done
        ]  # fmt: skip
        about = machine()
        n_jobs = int(sys.argv[2]) if sys.argv[2:] else os.cpu_count()
        with TemporaryDirectory() as folder, ThreadPoolExecutor(n_jobs) as pool:
            for name in {job[0] for job in jobs}:
                write_data(name, Path(folder))

            def run(job: tuple[str, str, int]) -> dict[str, Any]:
                name, version, seed = job
                done = subprocess.run(
                    [sys.executable, __file__, "--fit", folder, name, str(seed)],
                    env=os.environ | {"PYTHONPATH": path_of(trees[version])},
                    capture_output=True, text=True, check=True,
                )  # fmt: skip
                found = json.loads(done.stdout.splitlines()[-1])
                case = {"data": name, "version": version, "commit": commits[version], "seed": seed}
                return {**case, **found, "about": about}

            for found in pool.map(run, jobs):
                record["fits"].append(found)
                write_json(OUT, record)
                print(found["data"], found["version"], found["seed"], f"{found['loss']:.4f}")
    OUT.with_suffix(".md").write_text(table(record))
    print(table(record))


def path_of(tree: Path) -> str:
    """Import path of a process that uses the library in ``tree``."""
    rest = os.environ.get("PYTHONPATH")
    return os.pathsep.join([str(tree), *([rest] if rest else [])])


def commit(tree: Path) -> str:
    """The commit of a checkout."""
    git = ["git", "-C", str(tree), "rev-parse", "--short", "HEAD"]
    return subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--fit"]:
        print(json.dumps(fit(Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]))))
    else:
        main()
