"""Doctests of every module, private ones included.

The docstrings of the names in the API reference are excluded here: tests/docs/test_api.py runs them
one by one, with the warnings of optional dependencies ignored.
"""

import doctest
import importlib
import re
from pathlib import Path

import matplotlib as mpl
import pytest

mpl.use("Agg")

import matplotlib.pyplot as plt

ROOT = Path(__file__).parents[1]
MODULES = [
    ".".join(path.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__")
    for path in sorted((ROOT / "src").rglob("*.py"))
    if path.name != "__main__.py" and ">>> " in path.read_text(encoding="utf-8")
]


def in_api_reference():
    """Fully qualified names of the objects that the API reference lists."""
    names = set()
    for page in (ROOT / "docs" / "api").glob("*.md"):
        for module, name in re.findall(r"^::: (\S+)\.(\w+)$", page.read_text(), re.MULTILINE):
            documented = getattr(importlib.import_module(module), name, None)
            names.add(f"{getattr(documented, '__module__', module)}.{name}")
    return names


@pytest.mark.parametrize("name", MODULES)
def test_doctests(name):
    module = importlib.import_module(name)
    documented = in_api_reference()
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for test in doctest.DocTestFinder().find(module, name):
        if test.examples and test.name not in documented:
            assert runner.run(test).failed == 0
    plt.close("all")
