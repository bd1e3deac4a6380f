"""Every Python block of README and pages runs, top to bottom; every local link resolves."""

import re
from pathlib import Path

import pytest

import suwr.estimators.base as base

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
# Pages whose blocks are one script; the others are doctests and have tests of their own.
SCRIPTS = [ROOT / "README.md", ROOT / "docs" / "quickstart.md"]


@pytest.mark.parametrize("page", SCRIPTS, ids=lambda p: p.name)
def test_python_blocks_run(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    # The code is the page's own; only the training is cut short.
    monkeypatch.setattr(base, "Settings", _brief(base.Settings))
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)
    assert blocks
    exec(compile("\n".join(blocks), str(page), "exec"), {"__name__": "page"})
    assert "Before anything is revealed" in capsys.readouterr().out


def _brief(settings):
    def make(**kwargs):
        return settings(**kwargs | {"max_epochs": min(kwargs["max_epochs"], 3)})

    return make


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_local_links_resolve(page):
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text()):
        if not target.startswith(("http:", "https:", "mailto:")):
            assert (page.parent / target).exists(), f"{page}: {target}"
