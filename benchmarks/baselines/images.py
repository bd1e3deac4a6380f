"""The rivals on images: digits-MNIST by pixels, Fashion-MNIST by 3×3 patches.

    python benchmarks/baselines/images.py --jobs 12                 # what is not there yet
    python benchmarks/baselines/images.py --methods GDFS --seeds 1  # some of it
    python benchmarks/baselines/images.py --table                   # only remake the table

Training rows are the published 60,000, of which a tenth chooses the epoch; test rows are looked at
once. All networks have two hidden layers of 512. Several fits run at once, each in a process that
keeps its data on the device; ``--mps`` lets them share a GPU without taking turns. A finished cell
is never repeated, one that outruns ``--limit`` is given up, and none is started after
``--deadline`` seconds. ``--epochs`` and ``--rows`` make a small trial, written to the folder that
``--out`` names. The data are found as `suwr.experiments.images.load_images` says.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import machine, write_json

HERE = Path(__file__).parent
# Units of each set: single pixels, and patches around every pixel.
PATCH = {"mnist": 1, "fashion-mnist": 3}
BUDGETS = (5, 10, 15, 20, 30, 50)
# The paper's λ weigh the share of selected units.
REALX_WEIGHTS = (1.5, 3.0, 5.0, 8.0, 12.0, 20.0)
N_UNITS = 784
NETWORK: dict[str, Any] = {"hidden_size": 512, "n_layers": 2, "batch_size": 1024}
# What is the same in every cell of a method, and the parameter that is varied with its values.
METHODS: dict[str, tuple[dict[str, Any], str | None, tuple[float | None, ...]]] = {
    "AllFeatures": ({**NETWORK, "max_epochs": 60}, None, (None,)),
    "CAE": ({**NETWORK, "max_epochs": 60}, "n_units", BUDGETS),
    "REALX": (
        {**NETWORK, "max_epochs": 60},
        "sparsity_weight",
        tuple(weight / N_UNITS for weight in REALX_WEIGHTS),
    ),
    # One model for every budget: it is cut short after fewer steps.
    "GDFS": ({**NETWORK, "max_epochs": 150}, "max_steps", (50,)),
    "DIME": (
        {**NETWORK, "max_epochs": 150, "stopping": "budget"},
        "max_steps",
        (50,),
    ),
    "L2X": ({**NETWORK, "max_epochs": 60}, "n_units", BUDGETS),
    "INVASE": (
        {**NETWORK, "max_epochs": 60},
        "sparsity_weight",
        tuple(weight / N_UNITS for weight in REALX_WEIGHTS),
    ),
}
DEFAULT_METHODS = ("AllFeatures", "CAE", "REALX", "GDFS")
# Published accuracy of greedy selection on digits, pixels (Covert et al. 2023).
PUBLISHED_GDFS = {10: 87.1, 20: 94.4, 30: 96.4, 50: 97.4}

Cell = tuple[str, str, float | None, int]


def key(cell: dict[str, Any]) -> Cell:
    """What tells cells apart."""
    return cell["data"], cell["method"], cell["value"], cell["seed"]


@lru_cache(maxsize=2)
def images(name: str) -> Any:
    from suwr.experiments.images import load_images

    return load_images(name)


def fit(wanted: Cell, epochs: int | None, n_rows: int | None, device: str) -> dict[str, Any]:
    """One fit and its figures on the test rows."""
    import numpy as np
    import torch

    from suwr import Patches, baselines

    # Products of float32 by way of tf32: faster, and no figure here changes for it.
    torch.set_float32_matmul_precision("high")
    torch.set_num_threads(1)
    name, method, value, seed = wanted
    data = images(name)
    params, varied, _ = METHODS[method]
    params = {**params, **({varied: value} if varied else {})}
    if epochs is not None:
        params["max_epochs"] = epochs
    groups = Patches(data.shape, size=PATCH[name])
    kind = getattr(baselines, f"{method}Classifier")
    start = time.perf_counter()
    model = kind(**params, groups=groups, random_state=seed, device=device)
    model.fit(data.X_train[:n_rows], data.y_train[:n_rows])
    seconds = time.perf_counter() - start
    start = time.perf_counter()
    masks = model.select(data.X_test)
    right = model.predict(data.X_test) == data.y_test
    result = {
        "data": name,
        "method": method,
        "value": value,
        "seed": seed,
        "params": params,
        "accuracy": float(100 * right.mean()),
        "units": float(model.cost(data.X_test).mean()),
        "pixels": float(masks.sum(axis=1).mean()),
        "fit_seconds": round(seconds, 1),
        "test_seconds": round(time.perf_counter() - start, 1),
    }
    if hasattr(model, "predict_steps"):
        steps = model.predict_steps(data.X_test).argmax(axis=2)
        curve = 100 * (model.classes_[steps] == data.y_test[:, None]).mean(axis=0)
        result["accuracy_after"] = np.round(curve, 2).tolist()
    if torch.cuda.is_available():
        result["gpu_gigabytes"] = round(torch.cuda.max_memory_allocated() / 1e9, 2)
    return result


def limited(
    wanted: Cell, epochs: int | None, n_rows: int | None, device: str, limit: float
) -> dict[str, Any]:
    """`fit`, given up after ``limit`` seconds."""

    def give_up(*_: Any) -> None:
        raise TimeoutError(f"not done after {limit:g} s")

    signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, limit)
    try:
        return fit(wanted, epochs, n_rows, device)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


@contextmanager
def shared_gpu(wanted: bool) -> Iterator[None]:
    """CUDA's multi-process service while the cells run, where it is wanted and works."""
    if not wanted:
        yield
        return
    with tempfile.TemporaryDirectory() as folder:
        service = {"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}
        os.environ |= service
        try:
            started = subprocess.run(["nvidia-cuda-mps-control", "-d"], capture_output=True)
            works = started.returncode == 0
        except OSError:
            works = False
        if not works:
            print("the multi-process service does not start; going on without", file=sys.stderr)
            for name in service:
                del os.environ[name]
        try:
            yield
        finally:
            if works:
                subprocess.run(["nvidia-cuda-mps-control"], input=b"quit\n", capture_output=True)


def table(cells: list[dict[str, Any]]) -> str:
    """The Markdown page."""
    import numpy as np

    def shown(values: list[float]) -> str:
        return f"{np.mean(values):.2f} ± {np.std(values):.2f}"

    lines = ["# Rivals on images", "", "Test accuracy in percent, mean ± standard deviation."]
    for data in PATCH:
        unit = "pixels" if PATCH[data] == 1 else "patches"
        lines += ["", f"## {data}, {unit}", ""]
        lines += [f"| method | seeds | {unit} | pixels shown | accuracy | fit |"]
        lines += ["| --- | ---: | ---: | ---: | --- | ---: |"]
        for method in METHODS:
            some = [c for c in cells if c["data"] == data and c["method"] == method]
            for value in sorted({c["value"] for c in some}, key=lambda v: (v is not None, v)):
                same = [c for c in some if c["value"] == value]
                lines.append(
                    f"| {method} | {len(same)} | {np.mean([c['units'] for c in same]):.1f} | "
                    f"{np.mean([c['pixels'] for c in same]):.1f} | "
                    f"{shown([c['accuracy'] for c in same])} | "
                    f"{np.median([c['fit_seconds'] for c in same]):.0f} s |"
                )
        greedy = [c for c in cells if c["data"] == data and "accuracy_after" in c]
        if not greedy:
            continue
        names = sorted({c["method"] for c in greedy})
        published = data == "mnist" and "GDFS" in names
        lines += ["", "One model, cut short after fewer steps:", ""]
        lines += [f"| {unit} | {' | '.join(names)} |" + (" GDFS, published |" if published else "")]
        lines += ["| ---: |" + " --- |" * (len(names) + published)]
        for budget in BUDGETS:
            figures = [
                shown([c["accuracy_after"][budget] for c in greedy if c["method"] == name])
                for name in names
            ]
            if published:
                figures.append(str(PUBLISHED_GDFS.get(budget, "–")))
            lines.append(f"| {budget} | {' | '.join(figures)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", nargs="+", default=list(PATCH), choices=list(PATCH))
    parser.add_argument(
        "--methods", nargs="+", default=list(DEFAULT_METHODS), choices=list(METHODS)
    )
    parser.add_argument("--values", type=float, nargs="+", help="only these k or λ")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--mps", action="store_true")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds of one cell")
    parser.add_argument("--deadline", type=float, default=float("inf"))
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--out", type=Path, default=HERE)
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    if args.out == HERE and (args.epochs is not None or args.rows is not None):
        parser.error("--epochs and --rows make a trial: name another folder with --out")
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / "images.json"
    stored = json.loads(path.read_text()) if path.exists() else {"cells": []}
    known = {key(cell) for cell in stored["cells"]}
    # Seeds outermost: an interrupted run has every method once before any twice. The longest
    # method first, so that it does not run alone at the end.
    todo: list[Cell] = [
        (data, method, value, seed)
        for seed in range(args.seeds)
        for method in sorted(args.methods, key=lambda m: m not in ("GDFS", "DIME"))
        for data in args.data
        for value in METHODS[method][2]
        if (data, method, value, seed) not in known
        and (args.values is None or value in args.values)
    ]
    if todo and not args.table:
        stored["about"] = machine()
        run(todo, args, stored, path)
    order = list(METHODS)
    stored["cells"].sort(
        key=lambda c: (c["data"], order.index(c["method"]), c["value"] or 0, c["seed"])
    )
    write_json(path, stored)
    (args.out / "images.md").write_text(table(stored["cells"]))


def run(todo: list[Cell], args: argparse.Namespace, stored: dict[str, Any], path: Path) -> None:
    """Fit all cells, several at once, and write each down as it comes."""
    begun = time.perf_counter()
    spawn = multiprocessing.get_context("spawn")
    with shared_gpu(args.mps), ProcessPoolExecutor(args.jobs, mp_context=spawn) as pool:
        waiting = {
            pool.submit(limited, cell, args.epochs, args.rows, args.device, args.limit): cell
            for cell in todo
        }
        for done in as_completed(waiting):
            if time.perf_counter() - begun > args.deadline:
                pool.shutdown(wait=False, cancel_futures=True)
            if done.cancelled():
                continue
            error = done.exception()
            if error is not None:
                print(*waiting[done], "failed:", repr(error), file=sys.stderr, flush=True)
                continue
            result = done.result()
            stored["cells"].append(result)
            write_json(path, stored)
            print(
                f"{time.perf_counter() - begun:6.0f} s  {result['data']} {result['method']} "
                f"{result['value']} seed {result['seed']}: {result['accuracy']:.2f} % at "
                f"{result['units']:.1f} units, {result['fit_seconds']} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
