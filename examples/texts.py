"""A model of texts, explained by the sentences that it takes: docs/examples/docstrings.html.

The texts are docstrings of Python's standard library, which every machine has; their classes are
the areas of the library. They are copyright of the Python Software Foundation (PSF licence).

python examples/texts.py                          # narratives in the terminal, and the page
python examples/texts.py --quick --output out.html
"""

from __future__ import annotations

import argparse
import ast
import sys
from importlib.util import find_spec
from pathlib import Path

from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from suwr import SUWRExplainer, TextUnits
from suwr.texts.splitting import sentence_spans

PAGE = Path(__file__).parents[1] / "docs" / "examples" / "docstrings.html"
AREAS = {
    "concurrency": ["asyncio", "concurrent", "multiprocessing", "queue", "subprocess", "threading"],
    "internet": ["email", "ftplib", "html", "http", "imaplib", "mailbox", "smtplib", "ssl",
                 "urllib", "wsgiref", "xml", "xmlrpc"],
    "numbers": ["calendar", "_pydatetime", "datetime", "_pydecimal", "decimal", "fractions",
                "random", "statistics"],
    "testing": ["bdb", "doctest", "logging", "pdb", "timeit", "trace", "traceback", "unittest"],
}  # fmt: skip


def docstrings(module: str) -> list[str]:
    """The docstrings of a module of the standard library, which is parsed and not imported."""
    found = find_spec(module)
    if found is None or found.origin is None:
        return []
    path = Path(found.origin)
    files = sorted(path.parent.rglob("*.py")) if path.name == "__init__.py" else [path]
    nodes = (node for file in files for node in ast.walk(ast.parse(file.read_bytes())))
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef, ast.Module)
    texts = [ast.get_docstring(node) for node in nodes if isinstance(node, kinds)]
    # Examples are code.
    return [text.split(">>>")[0].strip() for text in texts if text]


def load_docstrings() -> tuple[list[str], list[str]]:
    """Docstrings of 3 to 15 sentences, and their areas."""
    found = {
        text: area
        for area, modules in AREAS.items()
        for module in modules
        for text in docstrings(module)
        if 3 <= len(sentence_spans(text)) <= 15
    }
    return list(found), list(found.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=PAGE)
    parser.add_argument("--quick", action="store_true", help="a few epochs on some of the texts")
    options = parser.parse_args()
    texts, areas = load_docstrings()
    train, test, y_train, y_test = train_test_split(texts, areas, stratify=areas, random_state=0)
    if options.quick:
        train, y_train = train[:150], y_train[:150]
    model = make_pipeline(
        TfidfVectorizer(sublinear_tf=True), LogisticRegression(C=10.0, max_iter=1000)
    ).fit(train, y_train)
    print(f"{len(texts)} docstrings; accuracy of the model {model.score(test, y_test):.3f}")

    explainer = SUWRExplainer(
        model,
        groups=TextUnits(max_units=10, vectorizer=model.decision_function),
        queries_per_row=2 if options.quick else 20,
        max_epochs=2 if options.quick else 30,
        training={"hidden_size": 16 if options.quick else 64},
        random_state=0,
        verbose=0 if options.quick else 1,
    ).fit(train)
    print(explainer.fidelity(test).summary())
    shown = test[:40]
    explanation = explainer.explain(shown)
    units = explainer.text_units_
    highlight = units.highlight(explanation[0], shown[0])
    print(highlight.terminal() if sys.stdout.isatty() else highlight.text())
    options.output.parent.mkdir(parents=True, exist_ok=True)
    units.to_html(
        options.output,
        explanation,
        shown,
        y=y_test[:40],
        title="Docstrings, sentence by sentence",
        note="The texts are docstrings of Python's standard library, © Python Software Foundation, "
        "under the PSF licence version 2.",
    )
    print(f"wrote {options.output}")


if __name__ == "__main__":
    main()
