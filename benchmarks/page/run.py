"""The HTML page: size, loading time, and agreement of its JavaScript model with Python.

    python benchmarks/page/run.py

Size and time: 1,000 rows × 30 columns with an embedded model of the default size, opened in
headless Chromium in a fresh context each time. The time to first view is from the navigation until
list, narrative and charts are drawn and every control works. Agreement: the page's JavaScript
recomputes every recorded narrative of three data sets. Needs playwright and chromium.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"
sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
from sklearn.datasets import make_classification

from common import machine, write_json
from helpers import page_models
from helpers.pages import chromium
from suwr import SUWRClassifier

HERE = Path(__file__).parent
ROWS, COLUMNS, REPEATS = 1000, 30, 9
TOLERANCE = 1e-5

LOADING = """() => ({
  first_view: performance.getEntriesByName("suwr-shown")[0].startTime,
})"""
RETELLING = """() => {
  const start = performance.now();
  for (let i = 0; i < 100; i++) suwr.computedNarrative(i);
  return (performance.now() - start) / 100;
}"""
AGREEMENT = """(tolerance) => {
  const found = { rows: 0, steps: 0, different: 0, near_ties: 0, largest_difference: 0 };
  suwr.data.rows.forEach((row, i) => {
    const narrative = suwr.computedNarrative(i);
    const { same, difference } = suwr.compareNarratives(suwr.recordedNarrative(row), narrative);
    found.rows += 1;
    found.steps += narrative.steps.length;
    found.different += same ? 0 : 1;
    found.near_ties += narrative.margin < tolerance ? 1 : 0;
    found.largest_difference = Math.max(found.largest_difference, difference);
  });
  return found;
}"""


def large_page(path: Path) -> dict:
    """Write the page of 1,000 rows × 30 columns."""
    X, y = make_classification(2 * ROWS, COLUMNS, n_informative=8, random_state=0)
    model = SUWRClassifier(max_steps=10, max_epochs=20, random_state=0, device="cpu")
    model.fit(X[:ROWS], y[:ROWS])
    explanation = model.explain(X[ROWS:])
    start = time.perf_counter()
    explanation.to_html(path, y=y[ROWS:], hidden_values=True)
    return {
        "rows": ROWS,
        "columns": COLUMNS,
        "mean_steps": sum(len(n.steps) for n in explanation) / ROWS,
        "parameters": sum(p.numel() for p in model.policy_.network.parameters()),
        "megabytes": path.stat().st_size / 1e6,
        "seconds_to_write": time.perf_counter() - start,
    }


def measure() -> dict:
    """Run all measurements in one browser."""
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:

        def open_page(path: Path):
            page = browser.new_context().new_page()
            page.goto(path.as_uri())
            page.wait_for_selector("html[data-ready=true]")
            return page

        def load(path: Path) -> dict:
            """Wall-clock milliseconds, and milliseconds of work in the page's main thread."""
            page = browser.new_context().new_page()
            tools = page.context.new_cdp_session(page)
            tools.send("Performance.enable", {"timeDomain": "threadTicks"})
            page.goto(path.as_uri())
            page.wait_for_selector("html[data-ready=true]")
            worked = {
                m["name"]: m["value"] for m in tools.send("Performance.getMetrics")["metrics"]
            }
            page.wait_for_function("performance.getEntriesByName('suwr-shown').length")
            times = page.evaluate(LOADING) | {"work": 1000 * worked["TaskDuration"]}
            page.context.close()
            return times

        path = Path(folder) / "large.html"
        result = large_page(path)
        load(path)
        loads = [load(path) for _ in range(REPEATS)]
        page = open_page(path)
        result |= {
            "milliseconds": loads,
            "milliseconds_per_story": page.evaluate(RETELLING),
            "chromium": browser.version,
            "load_average": os.getloadavg()[0],
        }
        page.context.close()
        agreement = {}
        for name in ("cancer", "mixed", "digits"):
            model, X, _ = getattr(page_models, name)()
            path = Path(folder) / f"{name}.html"
            model.explain(X).to_html(path, hidden_values=True)
            agreement[name] = open_page(path).evaluate(AGREEMENT, TOLERANCE)
        return result | {"agreement": agreement}


def table(result: dict) -> str:
    """Format the results as Markdown."""
    about = result["about"]

    def times(name: str) -> str:
        values = [load[name] for load in result["milliseconds"]]
        return f"{statistics.median(values):,.0f} (slowest {max(values):,.0f})"

    titles = {
        "cancer": "breast cancer, 30 numbers",
        "mixed": "mixed table: numbers with missing values, strings, booleans, a group",
        "digits": "digits, 8 × 8 pixels in 3 × 3 patches",
    }
    lines = [
        "# The HTML page",
        "",
        f"{result['rows']:,} rows × {result['columns']} columns, {result['mean_steps']:.1f} steps "
        f"per row, an embedded model of {result['parameters']:,} parameters. Chromium "
        f"{result['chromium']}, {about['machine']}, {about['date']}; load average "
        f"{result['load_average']:.1f}.",
        "",
        "| | |",
        "| --- | ---: |",
        f"| size, MB | {result['megabytes']:.2f} |",
        f"| time to first view, milliseconds, median of {REPEATS} | {times('first_view')} |",
        f"| of that, work in the main thread, milliseconds | {times('work')} |",
        f"| recomputing one narrative, milliseconds | {result['milliseconds_per_story']:.1f} |",
        f"| writing the page, seconds | {result['seconds_to_write']:.2f} |",
        "",
        "Difference between the model in the page and Python, over the decisions, stop",
        "probabilities and predictions of every step of every row. A near tie is a decision with a",
        f"margin below {TOLERANCE:g}.",
        "",
        "| data | rows | steps | different decisions | near ties | largest difference |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, found in result["agreement"].items():
        lines.append(
            f"| {titles[name]} | {found['rows']} | {found['steps']:,} | {found['different']} | "
            f"{found['near_ties']} | {found['largest_difference']:.1e} |"
        )
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    if "--table" in sys.argv:
        stored = json.loads((HERE / "results.json").read_text())
    else:
        stored = {"about": machine(), **measure()}
        write_json(HERE / "results.json", stored)
    (HERE / "results.md").write_text(table(stored))
    print(table(stored))
