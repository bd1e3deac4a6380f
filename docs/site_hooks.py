"""Adds pages from outside of docs/ to the site: README, CONTRIBUTING, CHANGELOG and benchmarks.

Links between these files and docs/ work both in the repository and on the site.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Page

ROOT = Path(__file__).parents[1]
RENAMED = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
# Links to other files of the repository, such as scripts, become plain text.
TEXT_LINK = re.compile(r"(?<!!)\[([^\]\n]+)\]\(([^)\s]+)\)")
ANY_LINK = re.compile(r"(\]\()([^)\s]+)(\))")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add every page of docs/results to the navigation."""
    pages = sorted(p.name for p in (ROOT / "docs" / "results").glob("*.md") if p.name != "index.md")
    for entry in config.nav or []:
        if "Results" in entry:
            entry["Results"] += [f"results/{page}" for page in pages]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the files from outside of docs/."""
    for source, target in outside().items():
        files.append(File.generated(config, target, abs_src_path=str(ROOT / source)))
    return files


def outside() -> dict[str, str]:
    """Map paths in the repository to paths on the site."""
    tables = sorted((ROOT / "benchmarks").glob("*/*.md"))
    figures = sorted(p for p in (ROOT / "benchmarks").glob("*/*") if p.suffix in (".png", ".svg"))
    kept = [path.relative_to(ROOT).as_posix() for path in [*tables, *figures]]
    return RENAMED | {path: path for path in kept}


def on_page_markdown(markdown: str, page: Page, files: Files, **_: object) -> str:
    """Rewrite links to files of the repository as links to pages of the site."""
    targets = outside()
    source = {target: source for source, target in targets.items()}
    here = source.get(page.file.src_uri, f"docs/{page.file.src_uri}")

    def site_path(link: str) -> str | None:
        """Return the page that a link from this page refers to, or None."""
        path = posixpath.normpath(posixpath.join(posixpath.dirname(here), link))
        if (ROOT / path).is_dir():
            path = next(
                (p for p in (f"{path}/results.md", f"{path}/index.md") if p in targets), path
            )
        target = targets.get(path, path.removeprefix("docs/"))
        return target if files.get_file_from_path(target) else None

    def rewritten(link: str) -> str | None:
        if re.match(r"[a-z]+:|#", link):
            return link
        path, sign, anchor = link.partition("#")
        target = site_path(path)
        if target is None:
            return None
        return (
            posixpath.relpath(target, posixpath.dirname(page.file.src_uri) or ".") + sign + anchor
        )

    def plain_or_linked(match: re.Match[str]) -> str:
        return match[0] if rewritten(match[2]) else match[1]

    markdown = TEXT_LINK.sub(plain_or_linked, markdown)
    return ANY_LINK.sub(lambda m: m[1] + (rewritten(m[2]) or m[2]) + m[3], markdown)
