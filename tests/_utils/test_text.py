"""Examples in the documentation of small helpers are true."""

import doctest
import importlib

import pytest

MODULES = ["_words", "narrative", "plots._style", "report.notebook", "cli.ask"]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    found = doctest.testmod(importlib.import_module(f"suwr.{name}"))
    assert found.attempted > 0
    assert found.failed == 0
