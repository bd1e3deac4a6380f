"""Forms as files: HTML, XLSForm, SurveyJS and the graph language of Graphviz."""

from __future__ import annotations

import os
from collections.abc import Callable

from suwr._utils.files import check_writable, write_atomic
from suwr._utils.text import printable
from suwr._utils.validation import check_choice
from suwr.forms.form import Form
from suwr.forms.html import form_html
from suwr.forms.survey import form_surveyjs
from suwr.forms.xlsform import form_xlsx

__all__ = ["FORMATS", "form_dot", "write_form"]


def form_dot(form: Form, note: str = "") -> bytes:
    """Return the form as a graph in the DOT language, one node per page."""
    lines = ["digraph form {", f"  label={_quote(note)};", "  node [fontname=sans];"]
    for page in form.pages:
        if page.column is None:
            label = form.result(page) + ("" if page.complete else " …")
            lines.append(f"  p{page.number} [shape=box, label={_quote(label)}];")
            continue
        label = f"{page.number}. {printable(page.column)}?"
        lines.append(f"  p{page.number} [shape=ellipse, label={_quote(label)}];")
        lines += [
            f"  p{page.number} -> p{branch.page} [label={_quote(branch.answer.text)}];"
            for branch in page.branches
        ]
    return "\n".join([*lines, "}\n"]).encode()


def _quote(text: str) -> str:
    escaped = printable(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


#: Writers by the name of the format.
FORMATS: dict[str, Callable[[Form, str], bytes]] = {
    "html": form_html,
    "xlsform": form_xlsx,
    "surveyjs": form_surveyjs,
    "dot": form_dot,
}


def write_form(
    form: Form, path: str | os.PathLike[str], format: str = "html", *, note: str = ""
) -> None:
    """Write a form to a file.

    Parameters
    ----------
    form : Form
    path : path
        An existing file is replaced atomically.
    format : {'html', 'xlsform', 'surveyjs', 'dot'}, default='html'
        A printable page; an Excel workbook for ODK, KoboToolbox and others; JSON for SurveyJS; a
        graph for Graphviz.
    note : str, default=""
        A text for readers of the form, such as its measured regret.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn.datasets import load_iris
    >>> from suwr import SUWRClassifier
    >>> from suwr.forms import ModelPolicy, make_form, write_form
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> clf = SUWRClassifier(max_epochs=1, random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_form(make_form(ModelPolicy(clf)), Path(folder) / "iris.dot", "dot")
    ...     (Path(folder) / "iris.dot").read_text().split()[0]
    'digraph'
    """
    check_choice(format, "format", "write_form", tuple(FORMATS))
    check_writable(path)
    write_atomic(path, FORMATS[format](form, note))
