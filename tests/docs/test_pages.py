"""Every code block and command of README and docs runs, and every local link resolves.

The blocks of a page run in order, in one namespace and one folder. A block that cannot run is
marked in the source of the page with the reason: ``<!-- not run: reason -->``.
"""

import doctest
import re
import shlex
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import matplotlib as mpl
import pytest

from helpers.models import train_one_epoch
from suwr.cli import app

mpl.use("Agg")

import matplotlib.pyplot as plt

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
# tests/docs/test_plots_guide.py runs these pages, with models of its own.
TESTED_ELSEWHERE = {ROOT / "docs" / "guides" / "plots.md"}
BLOCK = re.compile(
    r"(?:<!-- not run: (?P<why>[^>]+) -->\n)?^```(?P<language>\w*)\n(?P<code>.*?)^```$",
    flags=re.DOTALL | re.MULTILINE,
)


def name(page):
    return page.relative_to(ROOT).as_posix()


def blocks(page):
    """Return language and code of the blocks that are not marked as not run."""
    found = [m for m in BLOCK.finditer(page.read_text()) if m["language"] != "text"]
    return [(m["language"], m["code"]) for m in found if m["why"] is None]


# The code of the other pages is slow.
FIRST = {"README", "quickstart", "tables", "acquisition", "audit"}
WITH_CODE = [
    pytest.param(page, marks=() if page.stem in FIRST else pytest.mark.slow, id=name(page))
    for page in PAGES
    if page not in TESTED_ELSEWHERE and blocks(page)
]


def test_every_record_is_in_the_index():
    index = (ROOT / "docs" / "results" / "index.md").read_text()
    # The tables of an experiment are part of its page.
    pages = {
        p for p in (ROOT / "benchmarks").rglob("*.md") if p.name not in ("table.md", "README.md")
    }
    missing = [name(page) for page in sorted(pages) if f"../../{name(page)}" not in index]
    assert len(pages) > 30
    assert missing == []


@pytest.mark.parametrize("page", WITH_CODE)
def test_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    warnings.filterwarnings("ignore", module="mlflow")
    # Only the number of epochs is changed.
    train_one_epoch(monkeypatch)
    namespace = {"__name__": "page"}
    for language, code in blocks(page):
        if language == "":
            for command in commands(code):
                run(command)
        elif ">>>" in code:
            test = doctest.DocTestParser().get_doctest(code, namespace, name(page), None, 0)
            assert doctest.DocTestRunner().run(test, clear_globs=False).failed == 0
            namespace |= test.globs
        else:
            assert language == "python"
            # The browser of other tests has an event loop in this thread.
            with ThreadPoolExecutor(1) as executor:
                executor.submit(exec, compile(code, name(page), "exec"), namespace).result()
    plt.close("all")


def commands(code):
    """Return the commands of a shell block as lists of words."""
    lines = code.replace("\\\n", " ").splitlines()
    split = [shlex.split(line, comments=True) for line in lines]
    return [words for words in split if words]


def run(words):
    """Run a command of this package; other commands must be marked as not run."""
    assert words[0] == "suwr", f"{shlex.join(words)}: mark it: <!-- not run: reason -->"
    app(words[1:], standalone_mode=False)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_make_targets_exist(page):
    known = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    mentioned = re.findall(r"(?:^|`)make ([a-z-]+)\b", page.read_text(), flags=re.MULTILINE)
    assert set(mentioned) <= set(known)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_scripts_exist(page):
    for script in re.findall(r"python ((?:examples|benchmarks)/\S+\.py)", page.read_text()):
        assert (ROOT / script).exists(), script


def test_tables_of_guides_are_those_of_records():
    record = (ROOT / "benchmarks" / "training" / "imbalance.md").read_text().splitlines()
    rows = [line for line in record if line.startswith("|")]
    assert len(rows) > 2
    assert "\n".join(rows) in (ROOT / "docs" / "guides" / "evaluating.md").read_text()


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_local_links_resolve(page):
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^)#\s]+)", text):
        # `make docs` writes the example pages.
        if not target.startswith(("http:", "https:", "mailto:", "../examples/")):
            assert (page.parent / target).exists(), f"{page}: {target}"
