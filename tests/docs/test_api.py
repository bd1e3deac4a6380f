"""Public names, their docstrings and the pages of the API reference are consistent."""

import doctest
import importlib
import inspect
import re
import warnings
from pathlib import Path
from types import ModuleType

import matplotlib as mpl
import pytest

mpl.use("Agg")

import matplotlib.pyplot as plt

PAGES = Path(__file__).parents[2] / "docs" / "api"
# The modules whose names each page lists.
MODULES = {
    "index.md": ["suwr"],
    "exact.md": ["suwr.exact"],
    "auditing.md": ["suwr.auditing", "suwr.auditing.adapters"],
    "plots.md": ["suwr.plots"],
    "baselines.md": ["suwr.baselines"],
    "deployment.md": ["suwr.deploy", "suwr.deploy.mlflow"],
    "exceptions.md": ["suwr.exceptions"],
}
# Packages that the examples of these names require.
NEEDS = {
    "from_captum": "captum.attr",
    "from_lime": "lime.lime_tabular",
    "from_shap": "shap",
    "from_tabnet": "pytorch_tabnet.tab_model",
    "log_model": "mlflow",
    "save_model": "mlflow",
    "TabNetClassifier": "pytorch_tabnet",
    "TabNetRegressor": "pytorch_tabnet",
}


def public(module):
    """Return the public functions and classes of a module by name."""
    package = importlib.import_module(module)
    found = {name: getattr(package, name) for name in package.__all__}
    return {k: v for k, v in found.items() if not isinstance(v, ModuleType | tuple)}


def listed(page):
    """What a page's directives name, as objects."""
    paths = re.findall(r"^::: (\S+)\.(\w+)$", (PAGES / page).read_text(), flags=re.MULTILINE)
    return {f"{m}.{n}": getattr(importlib.import_module(m), n) for m, n in paths}


NAMES = [(m, n) for modules in MODULES.values() for m in modules for n in public(m)]


@pytest.mark.parametrize("page", MODULES)
def test_page_lists_every_public_name(page):
    on_page = list(listed(page).values())
    missing = [n for m in MODULES[page] for n, o in public(m).items() if o not in on_page]
    assert not missing


def test_every_page_is_checked():
    assert {path.name for path in PAGES.iterdir()} == set(MODULES)


@pytest.mark.parametrize("page", MODULES)
def test_page_has_no_duplicates_and_no_private_names(page):
    names = list(listed(page))
    assert len(names) == len(set(names))
    assert not [name for name in names if "._" in name]


@pytest.mark.parametrize(("module", "name"), NAMES, ids=lambda part: part)
def test_docstring(module, name):
    documented = public(module)[name]
    text = inspect.getdoc(documented)
    assert text
    assert documented.__doc__, "the docstring is inherited from another object"
    summary = text.split("\n\n")[0]
    assert summary.rstrip().endswith("."), summary
    if inspect.isfunction(documented) and inspect.signature(documented).parameters:
        assert "Parameters\n----------" in text
    assert "Examples\n--------" in text


@pytest.mark.parametrize(("module", "name"), NAMES, ids=lambda part: part)
def test_example(module, name):
    documented = public(module)[name]
    needs_package = name in NEEDS
    with warnings.catch_warnings():
        if needs_package:  # warnings of other packages are not tested
            warnings.simplefilter("ignore")
            pytest.importorskip(NEEDS[name])
        home = vars(importlib.import_module(documented.__module__))
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
        finder = doctest.DocTestFinder(recurse=False)
        tests = [t for t in finder.find(documented, name, globs=dict(home)) if t.examples]
        assert tests
        for test in tests:
            assert runner.run(test).failed == 0
    plt.close("all")
