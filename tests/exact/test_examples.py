"""The example and the benchmark of the exact methods, and their dependencies."""

import json
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import suwr.exact

ROOT = Path(__file__).parents[2]


def test_public_names_are_documented():
    for name in suwr.exact.__all__:
        assert getattr(suwr.exact, name).__doc__, name


def test_optional_dependencies_are_not_imported():
    code = "import sys, suwr.exact; print({'torch', 'matplotlib', 'pandas'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_the_conjecture_example(capsys, tmp_path):
    example = runpy.run_path(str(ROOT / "examples" / "conjecture.py"))
    example["show_counterexample"]()
    example["show_missing_support"]()
    printed = capsys.readouterr().out
    assert "policy earns 5, a SUWR policy at most 4" in printed
    assert printed.count("certificate verified: True") == 2
    assert "lp     reveals 2.25 features\ndp     reveals 2.50 features" in printed
    results = {d: example["search"](3, d) for d in (3, 4)}
    assert all(gap >= 0 for families in results.values() for g in families.values() for gap in g)
    example["show_search"](results)
    example["draw"](results, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000


def test_the_benchmark_and_its_committed_results(tmp_path):
    folder = ROOT / "benchmarks" / "exact"
    benchmark = runpy.run_path(str(folder / "run.py"))
    found = benchmark["measure"]("solve dp", 4)
    assert found["objective"] == pytest.approx(0.703125)
    assert benchmark["measure"]("front dp", 4)["corners"] == 3
    data = json.loads((folder / "results.json").read_text())
    benchmark["write_table"](data, tmp_path / "results.md")
    assert (tmp_path / "results.md").read_text() == (folder / "results.md").read_text()
