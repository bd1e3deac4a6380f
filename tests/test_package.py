"""The layers: lower ones never import higher ones, and torch stays where it belongs."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import suwr
from suwr._utils.optional import require
from suwr.exceptions import MissingExtraError

SOURCE = Path(suwr.__file__).parent
# Each layer may import the ones before it.
LAYERS = [
    {"exceptions", "_utils"},
    {"data", "explanation", "selector", "plots", "report"},
    {"exact"},
    {"audit"},
    {"nn"},
    {"training"},
    {"estimators"},
    {"baselines", "scale"},
    {"cli"},
]
TORCH = {"nn", "training", "estimators", "baselines"}


def imports(path):
    tree = ast.parse(path.read_text())
    typing_only = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if node in typing_only:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def layer_of(part):
    return next(i for i, names in enumerate(LAYERS) if part in names)


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: p.stem)
def test_layers(path):
    part = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    if part == "__init__":
        return
    for module in imports(path):
        if module.split(".")[0] == "torch":
            assert part in TORCH, f"{path} imports torch"
        if module.startswith("suwr."):
            other = module.split(".")[1]
            assert layer_of(other) <= layer_of(part), f"{path} imports {module}"


def test_importing_the_package_is_light():
    code = (
        "import sys, suwr, suwr.exact; print({'torch', 'matplotlib', 'pandas'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_public_names_exist():
    for name in suwr.__all__:
        assert getattr(suwr, name) is not None
    assert set(suwr.__all__) <= set(dir(suwr))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        suwr.__getattr__("nothing")


def test_a_missing_extra_is_named():
    with pytest.raises(MissingExtraError, match=r"pip install 'suwr\[plots\]'"):
        require("no_such_module_xyz", "plots", "Plotting")
