"""The README's table of results equals the page of the benchmark."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SECTION = re.compile(r"### (Syn\d) \(AUROC of the true p\(y \| x\): (.*?)\)\n(.*?)(?=\n##)", re.S)


def rows(text):
    """Cells of every table row, by the first cell."""
    lines = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    return {cells[0].strip(): [cell.strip() for cell in cells[1:]] for cells in lines}


def mean_and_published(cell):
    """'0.6991 ± 0.0012 (0.7)' as two numbers."""
    mean, published = re.fullmatch(r"(\S+) ± \S+ \((\S+)\)", cell).groups()
    return float(mean), float(published)


def test_results_are_those_of_the_benchmark():
    readme = rows((ROOT / "README.md").read_text())
    page = (ROOT / "docs" / "results" / "synthetic.md").read_text()
    sections = SECTION.findall(page)
    assert [name for name, _, _ in sections] == [f"Syn{n}" for n in range(1, 7)]
    for number, (_, limit, section) in enumerate(sections):
        auroc, _, fdr, *_ = rows(section)["SUWR"]

        def shown(name, number=number):
            return float(readme[name][number])

        found = shown("AUROC, here"), shown("AUROC, published SUWR")
        assert found == mean_and_published(auroc)
        found = shown("selected but irrelevant (FDR, %), here"), shown("FDR, published SUWR")
        assert found == mean_and_published(fdr)
        assert shown("AUROC, limit") == float(limit)
