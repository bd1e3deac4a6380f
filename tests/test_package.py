"""The structure of the package: layers, optional imports, cycles and the number of modules."""

import ast
import importlib
import re
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest

import suwr
from suwr._utils.validation import require
from suwr.exceptions import MissingExtraError

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "suwr"
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()
MODULES = sorted(SOURCE.rglob("*.py"))


def names_in(cell):
    return re.findall(r"`([\w.]+)`", cell)


def table(first_heading):
    """Return the rows of the table of the page whose first column has this heading."""
    body = ARCHITECTURE.split(f"| {first_heading} |")[1].split("\n\n")[0]
    lines = [line for line in body.splitlines()[2:] if line.startswith("|")]
    return [re.split(r"(?<!\\)\|", line.strip("|")) for line in lines]


# Part of the package → number of its layer.
LAYERS = {part: int(row[0]) for row in table("layer") for part in names_in(row[1])}
# Parts that `view` may reach.
VIEWS = set(names_in(re.search(r"views are in ([^;]+);", ARCHITECTURE)[1]))


def only_in(package):
    """Return the parts that may import a package, as stated on the page."""
    return set(names_in(re.search(rf"{package}[\w ]* only in ([^.;]+)", ARCHITECTURE)[1]))


def module_name(path):
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def part_of(module):
    """Return 'exact' for 'suwr.exact.solve'; '' for the root."""
    return module.split(".")[1] if "." in module else ""


def imports(path):
    """Return the modules that a file imports, under TYPE_CHECKING and inside functions too."""
    found, nodes = [], [ast.parse(path.read_text())]
    while nodes:
        node = nodes.pop()
        nodes += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            found += [_resolve(node.module, alias.name) for alias in node.names]
    return found


def _resolve(module, name):
    """Return the module that 'from module import name' depends on."""
    path = SOURCE.parent.joinpath(*module.split("."), name)
    return f"{module}.{name}" if path.with_suffix(".py").exists() or path.is_dir() else module


IMPORTS = {module_name(path): imports(path) for path in MODULES}


def test_page_lists_every_part_of_the_package():
    parts = {p.stem if p.suffix else p.name for p in SOURCE.iterdir() if p.suffix in ("", ".py")}
    assert set(LAYERS) == parts - {"__init__", "__pycache__"}


def test_imports_follow_the_layers():
    violations = []
    for module, found in IMPORTS.items():
        for imported in found:
            if module == "suwr" or not imported.startswith("suwr."):
                continue
            if LAYERS[part_of(imported)] > LAYERS[part_of(module)]:
                violations.append(f"{module} imports {imported}")
    assert violations == []


def test_views_exist():
    """The names of views, which are imported when they are called."""
    calls = [
        node.args[0].value
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "view"
    ]
    assert {name.partition(":")[0] for name in calls} == VIEWS
    for name in calls:
        module, _, function = name.partition(":")
        assert callable(getattr(importlib.import_module(f"suwr.{module}"), function))


@pytest.mark.parametrize("package", ["torch", "matplotlib"])
def test_heavy_packages_are_imported_only_where_stated(package):
    allowed = only_in(package)
    assert allowed
    for path in MODULES:
        module = module_name(path)
        used = {imported.split(".")[0] for imported in IMPORTS[module]}
        assert package not in used or part_of(module) in allowed, module


def test_no_import_cycles():
    """Strongly connected components of the graph of imports, inside functions too.

    The root is left out, because it imports the modules of its public names on first use.
    """
    graph = {}
    for module, path in zip(IMPORTS, MODULES, strict=True):
        graph[module] = set(imports(path)) & IMPORTS.keys() - {"suwr", module}
    del graph["suwr"]
    assert [sorted(c) for c in components(graph) if len(c) > 1] == []


def components(graph):
    """Tarjan's algorithm."""
    index, low, stack, found = {}, {}, [], []

    def connect(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in graph[node]:
            if other not in index:
                connect(other)
            if other in stack:
                low[node] = min(low[node], low[other])
        if low[node] == index[node]:
            place = stack.index(node)
            found.append(stack[place:])
            del stack[place:]

    for node in graph:
        if node not in index:
            connect(node)
    return found


def test_components_finds_cycles():
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"d"}}
    assert sorted(sorted(c) for c in components(graph)) == [["a"], ["b", "c"], ["d"]]


# Package → number of modules, '' for those of the root. A new module raises one of these numbers.
BUDGET = {
    "": 4,
    "_utils": 6,
    "auditing": 9,
    "baselines": 12,
    "cli": 7,
    "data": 10,
    "deploy": 8,
    "estimators": 18,
    "exact": 7,
    "explainer": 5,
    "narrative": 6,
    "nn": 8,
    "plots": 8,
    "report": 4,
    "texts": 4,
    "training": 14,
}
# Modules with one importer and less than 150 lines, with the reason why they are not part of it.
SMALL = {
    "training.registry": "the list that a new trainer is added to",
}


def test_number_of_modules():
    folders = [path.relative_to(SOURCE).parts[:-1] for path in MODULES]
    counts = Counter(folder[0] if folder else "" for folder in folders)
    assert {part: n for part, n in counts.items() if n > BUDGET.get(part, 0)} == {}


def test_small_modules_with_one_importer_have_a_reason():
    users = defaultdict(set)
    for module, found in IMPORTS.items():
        for imported in found:
            users[imported].add(module)
    small = {
        module.removeprefix("suwr.")
        for module, path in zip(IMPORTS, MODULES, strict=True)
        if path.stem != "__init__"
        and len(users[module] - {"suwr"}) == 1
        and len(path.read_text().splitlines()) < 150
    }
    assert small == set(SMALL)


def test_library_does_not_import_the_experiments():
    users = {m for m, found in IMPORTS.items() if any("suwr_experiments" in i for i in found)}
    assert users == set()


def test_no_private_modules_of_scikit_learn():
    users = defaultdict(set)
    for module, found in IMPORTS.items():
        for imported in found:
            if imported.startswith("sklearn.") and "._" in imported:
                users[imported].add(module)
    assert dict(users) == {}


def test_modules_are_not_imported_by_computed_names():
    """Otherwise the rules above could not be checked."""
    allowed = {"suwr", "suwr.baselines", "suwr._utils.validation"}
    users = {
        module_name(path)
        for path in MODULES
        if re.search(r"\b(import_module|__import__)\(", path.read_text())
    }
    assert users <= allowed


def test_records_name_no_folder_of_one_machine():
    records = sorted((ROOT / "benchmarks").rglob("*.json"))
    commands = {
        (path.name, command)
        for path in records
        for command in re.findall(r'"command": "([^"]*)"', path.read_text())
    }
    assert len(commands) > 10
    assert [found for found in commands if re.search(r"(^|[ =])/", found[1])] == []


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


def test_missing_extra_is_named():
    with pytest.raises(MissingExtraError, match=r"pip install 'suwr\[plots\]'"):
        require("no_such_module_xyz", "plots", "Plotting")
