"""Pages with hostile strings, in a real browser.

    python benchmarks/reliability/pages.py [strings]

Every string becomes the title, a column, a unit, a value, a class and the row label of a page, and
of the display in notebooks. Models are fitted to tables whose columns, groups, categories, classes
and row labels are hostile strings; their pages contain the model. Every control of a page is used.
No string may execute code, cause a request, a dialog or an error, or change the structure of the
page; the text must be that of Python. The strings are seeded and therefore reproducible.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "helpers"))
import numpy as np
import pandas as pd
from chromium import chromium
from hostile_strings import hostile_strings
from page_attack import STRUCTURE, Observer, exercise, make_explanation
from raw_cells import randomize

from common import machine, write_json
from suwr import SUWRClassifier
from suwr.exceptions import TableError, UninformativeModelWarning

HERE = Path(__file__).parent
# Strings per fitted model.
BATCH = 20


def harmless_structure(observer: Observer, folder: Path) -> list[str]:
    """The structure of the page of a harmless string."""
    path = folder / "harmless.html"
    make_explanation("name").to_html(path, y=["name"])
    with observer.open(path) as page:
        exercise(page)
        return page.evaluate(STRUCTURE)


def attack_pages(observer: Observer, strings: list[str], folder: Path) -> list[set[str]]:
    """Pages of narratives without a model, one per string."""
    path, structure = folder / "page.html", harmless_structure(observer, folder)
    outcomes = []
    for text in strings:
        explanation = make_explanation(text)
        explanation.to_html(path, title=text, y=[text])
        outcomes.append(observer.attack_page(path, structure, explanation[0].text()))
    return outcomes


def attack_notebooks(observer: Observer, strings: list[str], folder: Path) -> list[set[str]]:
    """The display in notebooks, which has no content security policy, one per string."""
    path, structures, outcomes = folder / "notebook.html", [], []
    for text in ["name", *strings]:
        display = make_explanation(text)._repr_html_()
        path.write_text(f"<!DOCTYPE html><meta charset=utf-8><title>x</title>{display}")
        with observer.open(path) as page:
            outcome = {problem.split(":")[0] for problem in observer.problems}
            structures.append(page.evaluate(STRUCTURE))
            if page.evaluate("() => 'executed' in window || document.title !== 'x'"):
                outcome.add("executed")
            if structures[-1] != structures[0]:
                outcome.add("changed the page")
            outcomes.append(outcome)
    return outcomes[1:]


def hostile_table(strings: list[str], seed: int) -> tuple[pd.DataFrame, np.ndarray, dict]:
    """A table with hostile names, categories, classes and row labels."""
    rng = np.random.RandomState(seed)
    n = 4 * len(strings)
    # Objects, because the string type of pandas cannot represent lone surrogates.
    texts = np.array(strings, dtype=object)
    columns = [
        pd.Series(rng.choice(texts, n), dtype=object) if i < len(strings) // 2 else rng.randn(n)
        for i in range(len(strings))
    ]
    frame = pd.DataFrame(dict(enumerate(columns))).set_axis(pd.Index(texts, dtype=object), axis=1)
    frame.index = pd.Index([f"{strings[i % len(strings)]} {i}" for i in range(n)], dtype=object)
    groups = {f"group {strings[0]}": [strings[0], strings[-1]]}
    return frame, rng.choice(texts[:4], n), groups


def attack_model(
    observer: Observer, strings: list[str], folder: Path, seed: int
) -> tuple[str, set[str]]:
    """The page of a model fitted to a hostile table; also whether the table was rejected."""
    X, y, groups = hostile_table(strings, seed)
    model = SUWRClassifier(
        groups=groups, sparsity_weight=0, max_steps=6, max_epochs=1, hidden_size=8, random_state=0
    )
    try:
        with warnings.catch_warnings():
            # There is nothing to learn, so random weights reveal values instead.
            warnings.simplefilter("ignore", UninformativeModelWarning)
            model.fit(X, y)
        randomize(model, lambda: bool(model.select(X[:40]).any(axis=1).mean() > 0.5))
        explanation = model.explain(X[:40])
    except (TableError, ValueError) as error:
        return f"rejected: {type(error).__name__}", set()
    path = folder / "model.html"
    explanation.to_html(path, title=strings[0], y=y[:40], model=True, hidden_values=True)
    with observer.open(path) as page:
        page.wait_for_selector("html[data-ready=true]", timeout=30_000)
        found = page.locator("#check").filter(has_text="recorded rows").text_content()
        exercise(page)
        outcome = observer.judge(page)
        texts = (
            "suwr.data.rows.map((r) => suwr.narrativeText(suwr.data, suwr.recordedNarrative(r)))"
        )
        if page.evaluate(f"() => {texts}") != [n.text() for n in explanation]:
            outcome.add("changed the text")
        # Answer questions with every kind of field.
        page.locator("#blank").click()
        for _ in range(6):
            if page.locator("form.question").count() == 0:
                break
            for field in page.locator("form.question select").all():
                field.select_option(index=2)
            page.locator("form.question button[type=submit]").click()
        outcome |= observer.judge(page)
    return ("agrees" if "reproduces" in found else found), outcome


def measure(n: int) -> dict:
    warnings.simplefilter("error")
    pairs = hostile_strings(n)
    strings = [text for _, text in pairs]
    results, begun = {}, time.perf_counter()
    with tempfile.TemporaryDirectory() as name, chromium() as browser:
        observer, folder = Observer(browser), Path(name)
        attacks = {"page": attack_pages, "notebook": attack_notebooks}
        for kind, attack in attacks.items():
            outcomes = attack(observer, strings, folder)
            found = Counter(problem for outcome in outcomes for problem in outcome)
            results[kind] = {"pages": len(outcomes), "problems": dict(found)}
            for text, outcome in zip(strings, outcomes, strict=True):
                if outcome:
                    print(f"{kind} {text[:80]!r}: {outcome}", file=sys.stderr)
            print(kind, results[kind], flush=True)
        # UTF-8 cannot encode lone surrogates, so tables with them are a batch of their own.
        lone = [s for s in strings if any("\ud800" <= c <= "\udfff" for c in s)]
        others = [s for s in strings if s not in lone and len(s) < 10_000]
        batches = [others[i :: -(-len(others) // BATCH)] for i in range(-(-len(others) // BATCH))]
        found, selfchecks = Counter(), Counter()
        for seed, batch in enumerate([*batches, *([lone] if lone else [])]):
            selfcheck, outcome = attack_model(observer, batch, folder, seed)
            found.update(outcome)
            selfchecks[selfcheck] += 1
            print(f"model {seed}: {selfcheck} {outcome or ''}", flush=True)
        results["page with model"] = {
            "pages": sum(selfchecks.values()),
            "strings": len(others) + len(lone),
            "self-check": dict(selfchecks),
            "problems": dict(found),
        }
        version = browser.version
    families = Counter(family for family, _ in pairs)
    return {
        "browser": f"Chromium {version}",
        "strings": len(strings),
        "families": dict(families),
        "seconds": round(time.perf_counter() - begun, 1),
        "kinds": results,
    }


def table(result: dict) -> str:
    """Format the results as Markdown."""
    about, kinds = result["about"], result["kinds"]
    families = ", ".join(f"{count} {name}" for name, count in result["families"].items())
    lines = [
        "# Pages with hostile strings",
        "",
        f"{result['strings']} seeded strings ({families}) in {result['browser']} "
        f"({about['machine']}, {about['date']}). Problems are executed code, a request, a dialog, "
        "an error or message of the console, a changed structure of the page, and a text that "
        "differs from Python's.",
        "",
        "| kind | roles of a string | pages | problems |",
        "| --- | --- | ---: | ---: |",
    ]
    roles = {
        "page": "title, column, unit, value, class, row, truth",
        "notebook": "column, unit, value, class, row",
        "page with model": "title, column, group, category, class, row, truth",
    }
    for kind, found in kinds.items():
        problems = sum(found["problems"].values())
        lines.append(f"| {kind} | {roles[kind]} | {found['pages']} | {problems} |")
    checks = ", ".join(f"{n} {name}" for name, n in kinds["page with model"]["self-check"].items())
    lines += [
        "",
        f"Self-checks of the pages with a model: {checks}. Each of these models has up to {BATCH} "
        "hostile columns and is used to answer questions; the strings with lone surrogates are in "
        "one table.",
        "",
        f"Command: `{about['command']}`",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    if "--table" in sys.argv:
        stored = json.loads((HERE / "pages.json").read_text())
    else:
        stored = {"about": machine(), **measure(int(sys.argv[1]) if len(sys.argv) > 1 else 200)}
        write_json(HERE / "pages.json", stored)
    (HERE / "pages.md").write_text(table(stored))
    print(table(stored))
