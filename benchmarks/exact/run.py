"""Run time and memory of the exact methods on the toy problem of the paper, d = 4 … 16.

    python benchmarks/exact/run.py            # measure, then write results.json, .md and .png
    python benchmarks/exact/run.py --draw     # only regenerate the table and the figure

Every measurement runs in a separate process on one core, so that its memory is measured separately
and it can be terminated after the time limit. Time includes the enumeration of the masked states;
memory is the peak above that of an interpreter that has imported the package.
"""

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
CAP_SECONDS = 120
WEIGHT = 0.3
FEATURES = (4, 6, 8, 10, 12, 14, 16)
METHODS = {
    "solve global": "global: one subset",
    "solve dp": "dp: best SUWR policy",
    "solve lp": "lp: best leak-free policy",
    "front global": "global: whole front",
    "front dp": "dp: whole front",
    "front lp": "lp: whole front",
}


def measure(task: str, n_features: int) -> dict[str, Any]:
    """Run one task in this process."""
    import resource

    from suwr.exact import pareto_front, solve, toy_problem

    problem = toy_problem(n_features)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    what, method = task.split()
    result: dict[str, Any] = {}
    if what == "solve":
        solution = solve(problem, WEIGHT, method)
        result["objective"] = solution.objective
    else:
        front = pareto_front(problem, method)
        result["corners"] = len(front)
    result["seconds"] = time.perf_counter() - start
    result["megabytes"] = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    result["states"] = problem.n_states
    return result


def run(task: str, n_features: int) -> dict[str, Any]:
    """Run one task in a separate process, with a time limit."""
    command = [sys.executable, __file__, "--worker", task, str(n_features)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    entry: dict[str, Any] = {"task": task, "features": n_features}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=CAP_SECONDS, env=environment
        )
    except subprocess.TimeoutExpired:
        return {**entry, "stopped": f"over {CAP_SECONDS} s"}
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1]
        return {**entry, "stopped": last.removeprefix("suwr.exceptions.")}
    return {**entry, **json.loads(done.stdout)}


def machine() -> dict[str, Any]:
    """Hardware and software versions."""
    import numpy
    import scipy

    import suwr

    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        model = names[0].split(":", 1)[1].strip() if names else model
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "memory_gb": round(pages / 1e9),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "scipy": scipy.__version__,
        "suwr": suwr.__version__,
    }


def run_all() -> dict[str, Any]:
    """Run all tasks, each up to the first size that exceeds a limit."""
    results = []
    for task in METHODS:
        for n_features in FEATURES:
            entry = run(task, n_features)
            print(entry, flush=True)
            results.append(entry)
            if "stopped" in entry:
                break
    return {
        "date": datetime.date.today().isoformat(),
        "command": "python benchmarks/exact/run.py",
        "problem": "y = (x1 x2 + x3 x4 + …)², uniform bits, squared error",
        "sparsity_weight": WEIGHT,
        "cap_seconds": CAP_SECONDS,
        "machine": machine(),
        "results": results,
    }


def write_table(data: dict[str, Any], path: Path) -> None:
    """Write the results as a Markdown table."""
    found = {(e["task"], e["features"]): e for e in data["results"]}
    states = {e["features"]: e["states"] for e in data["results"] if "states" in e}
    m = data["machine"]
    lines = [
        "# Exact methods: time and memory",
        "",
        f"Measured by `{data['command']}` on {data['date']}: {data['problem']}, "
        f"λ = {data['sparsity_weight']}, on one of {m['cores']} cores ({m['processor']}, "
        f"{m['memory_gb']} GB, {m['system'].split()[0]}), "
        f"Python {m['python']}, NumPy {m['numpy']}, SciPy {m['scipy']}. Time includes the "
        "enumeration of the masked states. Each method is run up to the first size that takes more "
        f"than {data['cap_seconds']} s or exceeds the memory limit.",
        "",
        "| d | masked states | " + " | ".join(METHODS.values()) + " |",
        "| ---: | ---: | " + " | ".join("---:" for _ in METHODS) + " |",
    ]
    for d in sorted(states):
        cells = [_cell(found.get((task, d))) for task in METHODS]
        lines.append(f"| {d} | {states[d]:,} | " + " | ".join(cells) + " |")
    stops = [e for e in data["results"] if "stopped" in e]
    lines += ["", "First size that was not completed:", ""]
    lines += [f"- {METHODS[e['task']]}, d = {e['features']}: {e['stopped']}" for e in stops]
    lines += ["", "![Time and memory against the number of features](results.png)"]
    path.write_text("\n".join(lines) + "\n")


def _cell(entry: dict[str, Any] | None) -> str:
    if entry is None:
        return ""
    if "stopped" in entry:
        return "stopped"
    seconds = entry["seconds"]
    shown = f"{1000 * seconds:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"
    return f"{shown}, {max(entry['megabytes'], 0):.0f} MB"


def draw(data: dict[str, Any], path: Path) -> None:
    """Plot time and memory on logarithmic axes."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({"font.size": 12, "axes.titlesize": 13, "axes.titleweight": "bold"})
    figure, axes = plt.subplots(1, 2, figsize=(13, 5), layout="constrained")
    colours = {"global": "#009E73", "dp": "#D55E00", "lp": "#0072B2"}
    markers = {"global": "^", "dp": "s", "lp": "o"}
    for task, name in METHODS.items():
        what, method = task.split()
        done = [e for e in data["results"] if e["task"] == task and "seconds" in e]
        style = {
            "color": colours[method],
            "marker": markers[method],
            "linestyle": "-" if what == "solve" else "--",
            "markerfacecolor": colours[method] if what == "solve" else "white",
            "linewidth": 2,
            "label": name,
        }
        d = [e["features"] for e in done]
        axes[0].plot(d, [e["seconds"] for e in done], **style)
        axes[1].plot(d, [max(e["megabytes"], 0.5) for e in done], **style)
    axes[0].axhline(data["cap_seconds"], color="#777777", linewidth=1, linestyle=":")
    axes[0].text(4, data["cap_seconds"] * 1.15, "time limit", color="#555555", va="bottom")
    axes[0].set_ylabel("Seconds")
    axes[0].set_title("Time", loc="left")
    axes[1].set_ylabel("Peak memory (MB)")
    axes[1].set_title("Memory", loc="left")
    for ax in axes:
        ax.set_yscale("log")  # before the limits are set, which may be 0 on a linear axis
        ax.set_xlabel("Binary features d")
        ax.set_xticks(FEATURES)
        ax.grid(axis="y", color="#E5E5E5")
        ax.set_axisbelow(True)
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylim(3e-3, data["cap_seconds"] * 3)
    axes[1].legend(frameon=False, loc="upper left")
    figure.savefig(path, dpi=150)
    plt.close(figure)


def main() -> None:
    """Run the benchmark, or only regenerate its table and figure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--worker", nargs=2, metavar=("TASK", "FEATURES"), help=argparse.SUPPRESS)
    parser.add_argument(
        "--draw", action="store_true", help="only regenerate the table and the figure"
    )
    arguments = parser.parse_args()
    if arguments.worker:
        task, n_features = arguments.worker
        print(json.dumps(measure(task, int(n_features))))
        return
    store = HERE / "results.json"
    if not arguments.draw:
        store.write_text(json.dumps(run_all(), indent=1, ensure_ascii=False) + "\n")
    data = json.loads(store.read_text())
    write_table(data, HERE / "results.md")
    draw(data, HERE / "results.png")


if __name__ == "__main__":
    main()
