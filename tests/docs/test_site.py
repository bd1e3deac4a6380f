"""The site builds without warnings, its links and anchors resolve, and it loads nothing remote."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

pytest.importorskip("material", reason="requires the extra 'docs'")
pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


class Links(HTMLParser):
    """Collects the links, loaded resources and anchors of a page."""

    def __init__(self, text):
        super().__init__()
        self.links, self.loads, self.anchors = [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.anchors |= {found[key] for key in ("id", "name") if found.get(key)}
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        if tag in ("script", "img", "iframe") and found.get("src"):
            self.loads.append(found["src"])
        if tag == "link" and found.get("rel") in ("stylesheet", "icon", "preload"):
            self.loads.append(found["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    # The theme prints an announcement that is unrelated to this build.
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    pages = {path.resolve(): Links(path.read_text()) for path in folder.rglob("*.html")}
    return folder, {p: page for p, page in pages.items() if p.name != "404.html"}


def _local(link):
    return not re.match(r"[a-z]+:|//", link)


def test_every_link_and_anchor_resolves(site):
    _, pages = site
    broken = []
    for path, page in pages.items():
        for link in filter(_local, page.links + page.loads):
            target, _, anchor = unquote(link).partition("#")
            there = (path.parent / target).resolve() if target else path
            if not there.exists() or (
                anchor and there in pages and anchor not in pages[there].anchors
            ):
                broken.append(f"{path.name}: {link}")
    assert not broken


def test_no_remote_resources(site):
    folder, pages = site
    loads = {load for page in pages.values() for load in page.loads}
    assert not [load for load in loads if not _local(load)]
    styles = "".join(path.read_text() for path in folder.rglob("*.css"))
    assert not re.findall(r"url\(\s*[\"']?https?:|@import", styles)


def test_api_pages_have_anchors(site):
    folder, pages = site
    exact = pages[(folder / "api" / "exact.html").resolve()]
    assert {"suwr.exact.leakage", "suwr.exact.FiniteProblem"} <= exact.anchors
