"""Command line, and result pages from records."""

import json

import pytest

from suwr_experiments.__main__ import main


@pytest.mark.slow
def test_page_from_records(tmp_path, capsys):
    folder = tmp_path / "benchmarks" / "pareto"
    arguments = ["pareto", "--preset", "mini", "--methods", "CAE,GlobalOptimum,LP"]
    assert main([*arguments, "--out", str(folder)]) == 0
    out = tmp_path / "docs" / "results"
    missing = str(tmp_path / "nothing")
    folders = ["--pareto", str(folder), "--synthetic", missing, "--images", missing]
    assert main(["pages", *folders, "--out", str(out)]) == 0
    text = (out / "pareto.md").read_text()
    assert "![Policies and exact Pareto fronts](../../benchmarks/pareto/front.svg)" in text
    assert "python -m suwr_experiments pareto --preset mini" in text
    assert "is that of SUWR policies. | equal at all 2 break points |" in text
    # No method that could be below the front was run.
    assert "have policies below the front. | not measured |" in text
    assert not (out / "synthetic.md").exists()
    # Tables alone, from the same records.
    table = (folder / "table.md").read_text()
    (folder / "table.md").unlink()
    assert main([*arguments, "--tables", "--out", str(folder)]) == 0
    assert (folder / "table.md").read_text() == table


def test_one_cell_from_its_json(tmp_path, capsys):
    cell = {"experiment": "pareto", "data": "toy4", "method": "LP"}
    cell["params"] = {"sparsity_weight": 1}
    assert main(["cell", json.dumps(cell), "--out", str(tmp_path)]) == 0
    assert "toy4 LP sparsity_weight=1 seed 0" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["pareto", "--tables"], "holds no finished record"),
        (["pareto", "--preset", "wide"], "'preset' parameter of ParetoExperiment"),
        (["synthetic", "--methods", "NONE"], "'methods' parameter of RunConfig"),
    ],
)
def test_errors_are_one_line(tmp_path, capsys, words, message):
    assert main([*words, "--out", str(tmp_path / "out")]) == 1
    error = capsys.readouterr().err
    assert error.startswith("Error: ")
    assert message in error
    assert not (tmp_path / "out").exists()
