"""Every example runs, briefly trained, and prints what it promises."""

import runpy
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

import suwr.estimators.base as base

FOLDER = Path(__file__).parents[2] / "examples"
# Script → arguments and a word of its output.
EXAMPLES = {
    "audit_others": (["--quick"], "leaks"),
    "credit": (["--quick"], "per row"),
    "exact_fronts": (["--output", "out.png"], "wrote out.png"),
    "front_picture": (["--quick", "--output", "out.png"], "leak-free by construction"),
    "images": (["--quick", "--output", "out.png"], "wrote out.png"),
    "panel": (["--quick"], "Prediction: "),
    "path": (["--quick", "--output", "out.png"], "wrote out.png"),
    "pipeline": (["--quick"], "Before anything is revealed"),
}
# Scripts that make what is committed under docs; their parts are run below, and in tests/exact.
MAKERS = {"conjecture", "html_page", "plots"}


def test_all_are_known():
    assert {path.stem for path in FOLDER.glob("*.py")} == set(EXAMPLES) | MAKERS


@pytest.mark.parametrize("name", EXAMPLES)
def test_it_runs(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    arguments, word = EXAMPLES[name]
    monkeypatch.setattr(sys, "argv", [f"{name}.py", *arguments])
    runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
    assert word in capsys.readouterr().out
    plt.close("all")


@pytest.fixture
def brief(monkeypatch):
    """Cut every training short."""
    settings = base.Settings
    monkeypatch.setattr(base, "Settings", lambda **kwargs: settings(**kwargs | {"max_epochs": 1}))


def test_the_page(brief, tmp_path):
    make = runpy.run_path(str(FOLDER / "html_page.py"))["breast_cancer"]
    assert len(make(tmp_path / "page.html")) == 143
    assert (tmp_path / "page.html").read_text().startswith("<!DOCTYPE html>")


def test_the_path(brief, tmp_path):
    runpy.run_path(str(FOLDER / "plots.py"))["draw_path"](tmp_path)
    assert (tmp_path / "path.png").exists()
