"""The README's table of results is that of the benchmark."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def rows(text):
    """Cells of every table row, by the first of them."""
    lines = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    return {cells[0].strip(): [cell.strip() for cell in cells[1:]] for cells in lines}


def test_results_are_those_of_the_benchmark():
    readme = rows((ROOT / "README.md").read_text())
    page = (ROOT / "docs" / "results" / "synthetic.md").read_text()
    reached = rows(page.split("## What was to be reached")[1].split("\n## ")[0])
    for number in range(6):
        auroc, fdr, _, published, limit, _ = reached[f"Syn{number + 1}"]
        assert float(readme["AUROC, here"][number]) == float(auroc.split()[0])
        assert float(readme["AUROC, published SUWR"][number]) == float(published)
        assert float(readme["AUROC, limit"][number]) == float(limit)
        told = readme["selected but irrelevant (FDR, %), here"][number]
        assert float(told) == float(fdr.split()[0])


def test_published_false_discoveries():
    readme = rows((ROOT / "README.md").read_text())
    page = (ROOT / "docs" / "results" / "synthetic.md").read_text()
    for number, part in enumerate(re.split(r"### Syn\d", page)[1:7]):
        cells = rows(part.split("\n## ")[0])["SUWR"]
        assert float(re.search(r"\((.*)\)", cells[2])[1]) == float(
            readme["FDR, published SUWR"][number]
        )
