"""Result pages from records."""

import pytest

from suwr_experiments.__main__ import main
from suwr_experiments.claims import Claim, claim_grid
from suwr_experiments.targets import TARGETS, target_grid


def test_a_page_from_real_records(tmp_path, capsys):
    folder = tmp_path / "benchmarks" / "pareto"
    arguments = ["pareto", "--preset", "mini", "--methods", "CAE,GlobalOptimum,LP"]
    assert main([*arguments, "--out", str(folder)]) == 0
    out = tmp_path / "docs" / "results"
    missing = str(tmp_path / "nothing")
    assert (
        main(
            [
                "pages",
                "--pareto",
                str(folder),
                "--synthetic",
                missing,
                "--mnist",
                missing,
                "--out",
                str(out),
            ]
        )
        == 0
    )
    text = (out / "pareto.md").read_text()
    assert "![Policies among exact fronts](../../benchmarks/pareto/front.png)" in text
    assert "suwr reproduce pareto --preset mini" in text
    assert "linear program, is that of SUWR's policies. | holds |" in text
    # Nothing was trained that could lie under the front.
    assert "all have policies under the front. | does not hold |" in text
    assert not (out / "synthetic.md").exists()


def test_one_cell_from_its_json(tmp_path, capsys):
    cell = (
        '{"experiment": "pareto", "data": "toy4", "method": "LP", "params": {"sparsity_weight": 1}}'
    )
    assert main(["cell", cell, "--out", str(tmp_path)]) == 0
    assert "toy4 LP sparsity_weight=1 seed 0" in capsys.readouterr().out
    assert main(["pareto", "--tables", "--out", str(tmp_path / "empty")]) == 1
    assert "holds no finished cell" in capsys.readouterr().err


def test_claims():
    grid = claim_grid([Claim("a", True, "1"), Claim("b", False, "2")])
    assert [row[1] for row in grid.rows] == ["holds", "does not hold"]


@pytest.mark.parametrize(("auroc", "said"), [(0.9, "reached"), (0.69, "AUROC by 0.0090")])
def test_targets_are_named_when_missed(auroc, said):
    from suwr_experiments.benchmark_summary import Summary

    test = {"auroc": auroc, "fdr": 0.0, "tpr": 99.0}
    summary = Summary("Syn1", "SUWR", 0.01, ({"metrics": {"test": test}},))
    assert TARGETS["Syn1"][0] == 0.699
    assert target_grid([summary]).rows[0][-1] == said
