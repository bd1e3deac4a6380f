"""The results in the README and in their summary agree with the result pages."""

import re
from pathlib import Path

import numpy as np
import pytest

from suwr_experiments.records import RecordStore
from suwr_experiments.tabular_results import TableResults

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"
SUMMARY = (RESULTS / "summary.md").read_text()
README = (ROOT / "README.md").read_text()
LINES = README.split("## Results")[1].split("\n## ")[0]


def rows(text):
    """Map the first cell of every table row to the other cells."""
    lines = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    return {cells[0].strip(): [cell.strip() for cell in cells[1:]] for cells in lines}


def test_results_agree_with_the_result_page():
    summary = rows(SUMMARY)
    page = (RESULTS / "draws.md").read_text()
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
            assert float(summary[label][number]) == float(value), label


def test_ranks_agree_with_the_benchmark_of_tables():
    names = {
        "suwr": "SUWR",
        "suwr, range of λ": "SUWR, range",
        "network, fixed subset": "network on k",
        "SEFA": "SEFA, budget",
        "DIME": "DIME, cost",
        "boosting, fixed subset": "boosting on k",
    }
    header = next(line for line in SUMMARY.splitlines() if line.startswith("| | suwr |"))
    methods = [names.get(cell.strip(), cell.strip()) for cell in header.strip("|").split("|")[1:]]
    page = (RESULTS / "tables.md").read_text()
    ranks = rows(page.split("## Mean rank")[1].split("\n## ")[0])
    summary = rows(SUMMARY)
    # The page has two digits, the summary one.
    expected = [float(ranks[method][0]) for method in methods]
    assert [float(cell) for cell in summary["mean rank"]] == pytest.approx(expected, abs=0.0501)
    results = TableResults(RecordStore(ROOT / "benchmarks" / "tables").records())
    loss = {(t, m): np.mean(results.means(t, m)) for t in results.tables for m in methods}
    ahead = [sum(loss[t, "SUWR"] < loss[t, m] for t in results.tables) for m in methods[1:]]
    assert [int(cell) for cell in summary["tables on which suwr is ahead"][1:]] == ahead


def test_accuracies_agree_with_the_page_of_images():
    summary = rows(SUMMARY)
    sections = (RESULTS / "mnist.md").read_text().split("\n### ")
    first = {name: next(s for s in sections if s.startswith(name)) for name in ("MNIST", "Fashion")}
    pages = {name: rows(section.split("\n## ")[0]) for name, section in first.items()}
    assert "10 units | 20 units | 30 units" in first["MNIST"]
    assert "5 units | 10 units | 15 units" in first["Fashion"]
    shown = [name for name in summary if name.startswith(("GDFS", "DIME", "suwr"))]
    for name in (name for name in shown if len(summary[name]) == 6):
        own = name.replace("suwr", "SUWR")
        expected = [pages[d].get(own, ["–"] * 5)[k] for d in ("MNIST", "Fashion") for k in range(3)]
        found = [float(cell or "nan") for cell in summary[name]]
        numbers = [float(value.split(" ±")[0].replace("–", "nan")) for value in expected]
        assert found == pytest.approx(numbers, abs=0.0501, nan_ok=True), name
    assert len([name for name in shown if len(summary[name]) == 6]) == 6


def test_sentence_on_unseen_tables_agrees_with_their_page():
    text = " ".join(SUMMARY.split("On 44 further tables")[1].split())
    page = (RESULTS / "unseen.md").read_text()
    lower = {
        tuple(cell.strip() for cell in line.split("|")[1:3]): line.split("|")[3].strip()
        for line in page.splitlines()
        if line.count("|") == 8
    }
    names = {
        "CART": r"CART on (\d+) tables",
        "L1": r"L1 on (\d+)",
        "boosting on k": r"boosting on a fixed subset on (\d+)",
        "network on k": r"network on a fixed subset on (\d+)",
        "GDFS, equal networks": r"GDFS with equal networks on (\d+)",
    }
    for name, pattern in names.items():
        assert lower[name, "all"] == f"{re.search(pattern, text)[1]} of 44", name
    assert f"on {lower['GDFS, equal networks', 'classes']} tables with classes" in text
    assert f"on {lower['GDFS, equal networks', 'regression']} for regression" in text
    worse = page.split("Worse than the constant at the default λ: ")[1].split("\n")[0]
    ratios = [float(ratio) for ratio in re.findall(r"\((.*?)\)", worse)]
    assert f"worse than the constant prediction on {len(ratios)} table, by less than 0.1 %" in text
    assert max(ratios) < 1.001
    behind = page.split("by more than 2 %, at the default λ: ")[1].split("\n")[0]
    assert f"on {len(behind.split(', '))} of these single splits" in text


def numbers(pattern):
    """Return the numbers of a line of the README."""
    return [float(number) for number in re.search(pattern, LINES).groups()]


def test_readme_is_brief():
    assert len(README.splitlines()) <= 110


def test_lines_on_known_features_agree_with_the_summary():
    summary = rows(SUMMARY)
    low, high = numbers(r"AUROC (\.\d+) to (\.\d+) below")
    gaps = [float(gap) for gap in summary["gap, suwr"]]
    assert (low, high) == (round(min(gaps), 3), round(max(gaps), 3))
    fdr = [float(rate) for rate in summary["FDR (%), suwr"]]
    assert numbers(r"; (\S+) to (\S+) % of the selected") == [min(fdr), max(fdr)]


def test_lines_on_tables_agree_with_the_summary():
    ranks = [float(rank) for rank in rows(SUMMARY)["mean rank"]]
    assert len(ranks) == 9
    own, second = numbers(r"mean rank (\S+) of nine methods, followed by GDFS with (\S+) \(not")
    assert (own, second) == (ranks[0], ranks[2])
    assert min(ranks[3:]) > second
    equal = re.search(r"GDFS with equal networks on (.*?) with classes, but on (.*?) for", LINES)
    found = re.search(r"(\d+ of \d+) tables with classes .*?, but on (.*?) for", SUMMARY)
    assert equal.groups() == found.groups()


def test_line_on_images_agrees_with_the_summary():
    summary = rows(SUMMARY)
    own, rival, everything = numbers(
        r"(\S+) % from 20 pixels, GDFS with its stopping rule (\S+) %, and (\S+) % without"
    )
    assert (own, rival) == (float(summary["suwr"][1]), float(summary["GDFS, confidence"][1]))
    page = (RESULTS / "mnist.md").read_text()
    accuracy = rows(page.split("### MNIST")[1])["no selection"][-1].split(" ±")[0]
    assert everything == round(float(accuracy), 1)
    assert f"reaches {everything} % on MNIST" in SUMMARY


def test_line_on_explainers_agrees_with_their_record():
    page = rows((ROOT / "benchmarks" / "explainer" / "results.md").read_text())
    found = numbers(
        r"in (\S+) % of the rows from (\d+) % of the columns on breast cancer, "
        r"in (\S+) % from (\d+) % on Syn4"
    )
    columns = page["table"].index("agreement"), page["table"].index("of all columns")
    for name, own in (("cancer", found[:2]), ("syn4", found[2:])):
        assert [float(page[name][c].strip(" %")) for c in columns] == own


def test_overview_repeats_what_the_readme_says():
    overview = (RESULTS / "index.md").read_text()
    for pattern in (
        r"AUROC \.\d+ to \.\d+ below that of the true probabilities",
        r"\d+\.\d to \d+\.\d %",
        r"\d+ of 27",
        r"\d+ of 17 for regression",
        r"mean rank \S+ of nine methods",
        r"\S+ % of the rows from \d+ % of the columns",
    ):
        assert re.search(pattern, LINES)[0] in overview
