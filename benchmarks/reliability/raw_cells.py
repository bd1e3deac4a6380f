"""Raw cells that were not revealed change nothing, in every kind of input.

    python benchmarks/reliability/raw_cells.py [--seeds N]

Small models of several mixes of columns select features of rows. Then every cell that was not
revealed is replaced before it is parsed: by text in columns of numbers, numbers in columns of text,
'maybe' in columns of booleans, dates, overlong integers, infinities, nothing, and hostile strings.
All results of all rows must be the same bit for bit, and nothing may raise or warn. The
replacements are seeded and therefore reproducible.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "helpers"))
import chromium
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from asgi_client import Client
from hostile_strings import hostile_strings
from raw_cells import (
    OBJECTS,
    TEXTS,
    as_object_array,
    as_object_frame,
    as_text,
    mixed_table,
    poisoned_cells,
    randomize,
)  # fmt: skip
from typer.testing import CliRunner

from common import machine, write_json
from suwr import SUWRClassifier, SUWRRegressor, score_partitions, verify
from suwr.cli import app
from suwr.deploy import create_app

HERE = Path(__file__).parent
SMALL = {"max_epochs": 1, "hidden_size": 16, "max_steps": 3, "random_state": 0, "device": "cpu"}
NUMBERS = [np.nan, np.inf, -np.inf, 1e308, -1e308, 1e30, 0.0, -1.0, 2.0**53, 5e-324]
# Characters that a cell of a CSV file or a page can hold: no NUL and no lone surrogates.
STRINGS = [text for _, text in hostile_strings(120) if text.isprintable()]
TEXT_CELLS = [*TEXTS, *STRINGS, "-1e308", "1e-400", "nan", "None", "2020-02-30", "0x10", "٣"]
OBJECT_CELLS = [*OBJECTS, *STRINGS]
JSON_CELLS = [*TEXT_CELLS, None, 7, -1.5, 10**400, True, [1, "a"], {"a": {}}, 1e30]
Columns = dict[str, list[Any]]
# Reads the decisions of the model inside a page.
COMPUTE = """() => suwr.data.rows.map((_, i) => {
  const n = suwr.computedNarrative(i);
  return [n.steps, n.stop, n.start, n.ended, suwr.narrativeText(suwr.data, n)];
})"""


@dataclass
class Job:
    """A model, rows that it selects features of, and a folder for files."""

    model: Any
    X: pd.DataFrame
    folder: Path
    page: Any = None

    def __post_init__(self) -> None:
        self.mask = self.model.select(self.X)
        self.saved = self.folder / "model.suwr"
        self.model.save(self.saved)

    @property
    def clean(self) -> Columns:
        return {name: self.X[name].tolist() for name in self.X.columns}


def mixes() -> dict[str, tuple[Any, pd.DataFrame]]:
    """Return a fitted model and rows for each mix of columns."""
    X, y = mixed_table(160)
    other = mixed_table(200, seed=1)[0]
    rng = np.random.RandomState(0)
    numbers = pd.DataFrame(rng.randn(360, 6).round(2), columns=[f"x{i}" for i in range(6)])
    numbers["x5"] = rng.randint(0, 5, 360).astype(float)
    target = numbers["x0"] * numbers["x5"]
    gaps = numbers.mask(rng.rand(*numbers.shape) < 0.2)
    texts = X[["member", "code", "city", "level"]]
    groups = {"groups": {"where": ["code", "city"]}, "costs": {"age": 2.0}}
    made = {
        "mixed": (SUWRClassifier(**SMALL), X, y, other),
        "mixed, with groups": (SUWRClassifier(**SMALL | {"max_steps": 2}, **groups), X, y, other),
        "numbers": (SUWRRegressor(**SMALL), numbers[:160], target[:160], numbers[160:]),
        "unrecorded numbers": (
            SUWRRegressor(**SMALL, missing="unrecorded"), gaps[:160], target[:160], gaps[160:]
        ),
        "text and booleans": (SUWRClassifier(**SMALL | {"max_steps": 2}), texts, y,
                              other[texts.columns]),
    }  # fmt: skip
    found = {}
    for name, (model, rows, labels, unseen) in made.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(rows, labels)

            def accept(model: Any = model, rows: Any = rows) -> bool:
                masks = model.select(rows)
                return len(np.unique(masks, axis=0)) > 2 and masks.any(axis=0).sum() > 1

            found[name] = randomize(model, accept), unseen.reset_index(drop=True)
    return found


# The paths of rows into a model. Each returns what the model makes of them.


def results(model: Any, X: Any) -> list[Any]:
    """Everything that a model computes for rows, as bytes and texts."""
    mask = model.select(X)
    predict = getattr(model, "predict_proba", model.predict)
    return [
        mask.tobytes(),
        predict(X).tobytes(),
        model.cost(X).tobytes(),
        model.predict_masked(X, mask).tobytes(),
        model.mask_probability(X, mask, policy="sampled").tobytes(),
        model.explain(X).to_json(),
        [narrative.text() for narrative in model.explain(X)],
    ]


def as_array(columns: Columns, dtype: Any = None) -> np.ndarray:
    return np.array(list(columns.values()), dtype=dtype).T


def unnamed(job: Job, X: Any) -> list[Any]:
    """Results for rows without column names; the frame of the fit had names."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        return results(job.model, X)


def command(*words: Any) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    if done.exit_code:
        raise RuntimeError(done.output)
    return done.output


def write_csv(path: Path, columns: Columns, separator: str = ",") -> Path:
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=separator)
        writer.writerow(columns)
        writer.writerows(zip(*as_text(columns).values(), strict=True))
    return path


def write_parquet(path: Path, columns: Columns) -> Path:
    pq.write_table(pa.table(as_text(columns)), path, row_group_size=64)
    return path


def by_command(kind: str) -> Callable[[Job, Columns], list[Any]]:
    """``suwr predict`` and ``suwr explain`` of one file."""

    def run(job: Job, columns: Columns) -> list[Any]:
        path = job.folder / f"rows.{kind}"
        if kind == "parquet":
            write_parquet(path, columns)
        else:
            write_csv(path, columns, "\t" if kind == "tsv" else ",")
        out, narratives = job.folder / "out.csv", job.folder / "narratives.json"
        command("predict", job.saved, path, "--out", out)
        command("explain", job.saved, path, "--json", narratives)
        shown = command("explain", job.saved, path, "--row", 3)
        return [out.read_text(), narratives.read_text(), shown]

    return run


def by_folder(job: Job, columns: Columns) -> list[Any]:
    """``score_partitions`` of a folder of CSV and Parquet files."""
    with tempfile.TemporaryDirectory(dir=job.folder) as name:
        folder = Path(name)
        half = len(job.X) // 2
        write_csv(folder / "a.csv", {k: v[:half] for k, v in columns.items()})
        write_parquet(folder / "b.parquet", {k: v[half:] for k, v in columns.items()})
        found = []
        for pattern in ("*.csv", "*.parquet"):
            out = folder / f"scored-{pattern[2:]}"
            scored = score_partitions(job.model, str(folder / pattern), out)
            found.append(scored.to_frame().drop(columns="file").to_csv())
    return found


def by_dask(job: Job, columns: Columns) -> list[Any]:
    """``score_partitions`` of a Dask data frame."""
    import dask.dataframe

    rows = as_object_frame(columns)
    parts = [rows.iloc[:70], rows.iloc[70:]]
    frame = dask.dataframe.from_map(lambda i: parts[i], [0, 1], meta=rows.iloc[:0])
    with tempfile.TemporaryDirectory(dir=job.folder) as folder:
        return [score_partitions(job.model, frame, Path(folder) / "out").to_frame().to_csv()]


def by_session(job: Job, columns: Columns) -> list[Any]:
    """``acquire``: every answer is looked up in the table."""
    found = []
    for row in range(len(job.X)):
        session = job.model.acquire()
        while not session.done:
            session.observe({name: columns[name][row] for name in session.next_columns})
        found.append(session.narrative().to_dict())
    return found


def by_interview(job: Job, columns: Columns) -> list[Any]:
    """``suwr ask``: the answers are typed, as texts."""
    texts, found = as_text(columns), []
    for row in range(len(job.X)):
        session, answers = job.model.acquire(), []
        while not session.done:
            typed = {name: texts[name][row] for name in session.next_columns}
            session.observe(typed)
            answers += [text or "missing" for text in typed.values()]
        words = ["ask", str(job.saved), "--no-record"]
        lines = "\n".join([*answers, *[""] * 3]) + "\n"
        done = CliRunner().invoke(app, words, input=lines, catch_exceptions=False)
        if done.exit_code:
            raise RuntimeError(done.output)
        found.append(done.output)
    return found


def by_receipt(job: Job, columns: Columns) -> list[Any]:
    """Receipts of narratives, which are verified by replay."""
    receipts = [narrative.receipt() for narrative in job.model.explain(as_object_frame(columns))]
    verdicts = [str(verify(receipt, job.model)) for receipt in receipts]
    return [*(receipt.to_json() for receipt in receipts), *verdicts]


def by_service(job: Job, columns: Columns) -> list[Any]:
    """The HTTP service."""
    client = Client(create_app(job.model))
    rows = [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
    rows = [{k: None if v != v else v for k, v in row.items()} for row in rows]
    found = []
    for path in ("/predict", "/explain"):
        for start in range(0, len(rows), 50):
            answer = client.post(path, content=json.dumps({"rows": rows[start : start + 50]}))
            if answer.status_code != 200:
                raise RuntimeError(answer.text[:300])
            found.append(answer.content)
    return found


def by_page(job: Job, columns: Columns) -> list[Any]:
    """The model inside a page, which also holds the hidden values, in Chromium."""
    path = job.folder / "page.html"
    job.model.explain(as_object_frame(columns)).to_html(path, model=True, hidden_values=True)
    job.page.goto(path.as_uri())
    job.page.wait_for_selector("html[data-ready=true]", timeout=20_000)
    return job.page.evaluate(COMPUTE)


PATHS: dict[str, tuple[list[Any], Callable[[Job, Columns], list[Any]]]] = {
    "array of objects": (OBJECT_CELLS, lambda job, c: unnamed(job, as_object_array(c))),
    "nested lists": (OBJECT_CELLS, lambda job, c: unnamed(job, as_object_array(c).tolist())),
    "array of texts": (TEXT_CELLS, lambda job, c: unnamed(job, as_array(as_text(c)))),
    "array of numbers": (NUMBERS, lambda job, c: unnamed(job, as_array(c, float))),
    "array of single precision": (
        [np.nan, np.inf, 3e38, 1e30, -1.0], lambda job, c: unnamed(job, as_array(c, np.float32))
    ),
    "pandas objects": (OBJECT_CELLS, lambda job, c: results(job.model, as_object_frame(c))),
    "pandas texts": (TEXT_CELLS, lambda job, c: results(job.model, pd.DataFrame(as_text(c)))),
    "pandas nullable texts": (
        TEXT_CELLS, lambda job, c: results(job.model, pd.DataFrame(as_text(c), dtype="string"))
    ),
    "polars": (TEXT_CELLS, lambda job, c: results(job.model, pl.DataFrame(as_text(c)))),
    "pyarrow": (TEXT_CELLS, lambda job, c: results(job.model, pa.table(as_text(c)))),
    "CSV, suwr predict and explain": (TEXT_CELLS, by_command("csv")),
    "TSV, suwr predict and explain": (TEXT_CELLS, by_command("tsv")),
    "Parquet, suwr predict and explain": (TEXT_CELLS, by_command("parquet")),
    "folders, score_partitions": (TEXT_CELLS, by_folder),
    "Dask, score_partitions": (
        [*TEXT_CELLS, None, np.nan, 7, -1.5, np.inf, 10**400, True], by_dask
    ),
    "sessions, acquire": (OBJECT_CELLS, by_session),
    "suwr ask": (TEXT_CELLS, by_interview),
    "receipts": (OBJECT_CELLS, by_receipt),
    "service": (JSON_CELLS, by_service),
    "pages in Chromium": (OBJECT_CELLS, by_page),
}  # fmt: skip
# Inputs of one row at a time get fewer rows.
SLOW = {"sessions, acquire": 50, "suwr ask": 10, "receipts": 50}


def available(path: str, mix: str) -> bool:
    if path in ("array of numbers", "array of single precision"):
        return "numbers" in mix
    # These models can be used in Python only.
    if mix == "unrecorded numbers" and path in ("service", "pages in Chromium"):
        return False
    if path.startswith("Dask"):
        return find_spec("dask") is not None
    return path != "pages in Chromium" or chromium.unavailable() is None


def compare(job: Job, path: str, seeds: range) -> dict[str, Any]:
    """Replace the hidden cells of all rows and compare the results."""
    cells, run = PATHS[path]
    if path in SLOW:
        job = Job(job.model, job.X[: SLOW[path]], job.folder, job.page)
    found = {"cells": 0, "changed": 0, "raised": 0}
    expected = run(job, job.clean)
    for seed in seeds:
        columns = poisoned_cells(job.X, job.mask, cells, seed)
        found["cells"] += int((~job.mask).sum())
        try:
            found["changed"] += run(job, columns) != expected
        except Exception:  # warnings are errors
            found["raised"] += 1
            traceback.print_exc()
    return found


def measure(seeds: range) -> dict[str, Any]:
    """Run every path of every mix."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, chromium.chromium() as browser:
        page = browser.new_page()
        for number, (mix, (model, X)) in enumerate(mixes().items()):
            path = Path(folder) / str(number)
            path.mkdir()
            job = Job(model, X, path, page)
            for name in PATHS:
                if available(name, mix):
                    found.setdefault(name, {})[mix] = compare(job, name, seeds)
                    print(f"{name:40}{mix:22}{found[name][mix]}", flush=True)
    return found


def table(stored: dict[str, Any]) -> str:
    """Format the results as Markdown."""
    about, paths = stored["about"], stored["paths"]
    every = [cell for mixes in paths.values() for cell in mixes.values()]
    total = sum(cell["cells"] for cell in every)
    bad = sum(cell["changed"] + cell["raised"] for cell in every)
    lines = [
        "# Raw cells that were not revealed",
        "",
        f"{total:,} poisoned cells, {bad} bad outcomes ({about['machine']}, {about['date']}). "
        "Every cell that was not revealed is replaced in the raw input, before it is parsed, by "
        "text in columns of numbers, numbers in columns of text, 'maybe' in columns of booleans, "
        "dates, overlong integers, infinities, nothing, other objects and hostile strings. Masks, "
        "predictions, costs, probabilities, narratives, files and answers of all rows are compared "
        "bit for bit; errors and warnings count as bad.",
        "",
        f"{stored['seeds']} tables for every input and mix of columns "
        f"({'; '.join(paths['pandas objects'])}), of 200 rows each, or of 10 to 50 rows if each "
        "row is a session or a receipt.",
        "",
        "| input | mixes | cells | changed tables | errors and warnings |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for name, mixes in paths.items():
        sums = {k: sum(c[k] for c in mixes.values()) for k in ("cells", "changed", "raised")}
        lines.append(
            f"| {name} | {len(mixes)} | {sums['cells']:,} | {sums['changed']} | {sums['raised']} |"
        )
    lines += ["", f"Command: `{about['command']}`", ""]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3, help="tables per input and mix")
    options = parser.parse_args()
    warnings.simplefilter("error")
    stored = {"about": machine(), "seeds": options.seeds, "paths": measure(range(options.seeds))}
    write_json(HERE / "raw_cells.json", stored)
    (HERE / "raw_cells.md").write_text(table(stored), encoding="utf-8")
    print(table(stored))


if __name__ == "__main__":
    main()
