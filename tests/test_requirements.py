"""The version of the package, its requirements, the pinned versions and their digests."""

import re
import tomllib
from pathlib import Path

import pytest

import suwr

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PIN = re.compile(r"^([\w.-]+)==([^\s;]+)", re.MULTILINE)


def test_every_pinned_version_has_digests():
    pinned = dict(PIN.findall((ROOT / "constraints.txt").read_text()))
    hashed = (ROOT / "requirements-hashed.txt").read_text()
    assert dict(PIN.findall(hashed)) == pinned
    # One requirement per name, which starts in the first column; the others are comments.
    for requirement in re.split(r"\n(?=\S)", hashed.strip())[1:]:
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", requirement), requirement


def test_files_state_the_same_version():
    yaml = pytest.importorskip("yaml", reason="requires the extra 'docs'")
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    recipe = yaml.safe_load((ROOT / "conda" / "recipe.yaml").read_text())
    found = [suwr.__version__, citation["version"], recipe["context"]["version"]]
    assert found == [PROJECT["version"]] * 3


def test_conda_recipe_has_the_requirements_of_the_wheel():
    yaml = pytest.importorskip("yaml", reason="requires the extra 'docs'")
    recipe = yaml.safe_load((ROOT / "conda" / "recipe.yaml").read_text())
    wheel = [text.replace("torch>", "pytorch>") for text in PROJECT["dependencies"]]
    wheel += [f"python{PROJECT['requires-python']}"]
    conda = [text.replace(" ", "") for text in recipe["requirements"]["run"]]
    assert sorted(conda) == sorted(wheel)
    [script] = recipe["build"]["python"]["entry_points"]
    assert dict([script.split(" = ")]) == PROJECT["scripts"]
