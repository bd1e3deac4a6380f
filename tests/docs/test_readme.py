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
    page = (ROOT / "docs" / "results" / "synthetic.md").read_text()
    sections = re.split(r"### Syn(?=\d)", page)[1:7]
    assert len(sections) == 6
    for number, section in enumerate(sections):
        heading, body = section.split("\n", 1)
        auroc, _, fdr, *_ = rows(body.split("\n## ")[0])["SUWR"]
        expected = {
            "AUROC, suwr": auroc.split()[0],
            "AUROC, published SUWR": re.search(r"\((.*)\)", auroc)[1],
            "AUROC, limit": re.search(r"0\.\d+", heading)[0],
            "FDR (%), suwr": fdr.split()[0],
            "FDR (%), published SUWR": re.search(r"\((.*)\)", fdr)[1],
        }
        for label, value in expected.items():
            assert float(readme[label][number]) == float(value), label
