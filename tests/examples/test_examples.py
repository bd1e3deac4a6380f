"""Every example runs, with few epochs, and prints what it should."""

import runpy
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

from helpers.models import train_one_epoch

FOLDER = Path(__file__).parents[2] / "examples"
# Arguments of each script, and a text that its output contains.
EXAMPLES = {
    "audit_others": (["--quick"], "leaks"),
    "credit": (["--quick"], "per row"),
    "exact_fronts": (["--output", "out.png"], "wrote out.png"),
    "front_picture": (["--quick", "--output", "out.png"], "leak-free by construction"),
    "images": (["--quick", "--output", "out.png"], "wrote out.png"),
    "panel": (["--quick"], "Prediction: "),
    "path": (["--quick", "--output", "out.png"], "wrote out.png"),
    "pipeline": (["--quick"], "Before anything is revealed"),
    "texts": (["--quick", "--output", "out.html"], "wrote out.html"),
}
# Scripts that create committed files; parts of them are tested below and in tests/exact.
GENERATORS = {"conjecture", "html_page", "plots"}


def test_every_script_is_listed():
    assert {path.stem for path in FOLDER.glob("*.py")} == set(EXAMPLES) | GENERATORS


# Importing SHAP and LIME emits deprecation warnings of their own dependencies.
OTHER_LIBRARIES = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize(
    "name",
    [
        "exact_fronts",
        "pipeline",
        pytest.param("audit_others", marks=[OTHER_LIBRARIES, pytest.mark.slow]),
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in EXAMPLES
            if name not in ("exact_fronts", "pipeline", "audit_others")
        ),
    ],
)
def test_script_runs(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    arguments, word = EXAMPLES[name]
    monkeypatch.setattr(sys, "argv", [f"{name}.py", *arguments])
    runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
    assert word in capsys.readouterr().out
    plt.close("all")


@pytest.fixture
def one_epoch(monkeypatch):
    """Reduce every fit to one epoch."""
    train_one_epoch(monkeypatch)


def test_page_script(one_epoch, tmp_path):
    make = runpy.run_path(str(FOLDER / "html_page.py"))["breast_cancer"]
    assert len(make(tmp_path / "page.html")) == 143
    assert (tmp_path / "page.html").read_text().startswith("<!DOCTYPE html>")


def test_path_script(one_epoch, tmp_path):
    runpy.run_path(str(FOLDER / "plots.py"))["draw_path"](tmp_path)
    assert (tmp_path / "path.png").exists()
