"""The table of results in the README agrees with the result page."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def rows(text):
    """Map the first cell of every table row to the other cells."""
    lines = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    return {cells[0].strip(): [cell.strip() for cell in cells[1:]] for cells in lines}


def test_results_agree_with_the_result_page():
    readme = rows((ROOT / "README.md").read_text())
    page = (ROOT / "docs" / "results" / "draws.md").read_text()
    sections = re.split(r"## Syn\d", page.split("\n## Provenance")[0])[1:]
    assert len(sections) == 6
    for number, section in enumerate(sections):
        auroc, _, fdr, _, _, gap, *_ = rows(section)["SUWR, λ = 0.01 H"]
        expected = {
            "AUROC, suwr": auroc.split()[0],
            "gap, suwr": gap.split()[0],
            "gap, published SUWR": re.search(r"\((.*)\)", gap)[1],
            "FDR (%), suwr": fdr.split()[0],
            "FDR (%), published SUWR": re.search(r"\((.*)\)", fdr)[1],
        }
        for label, value in expected.items():
            assert float(readme[label][number]) == float(value), label
