"""Figures as files, whole or not at all."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from suwr._utils.files import write_atomic
from suwr._utils.optional import require

__all__ = ["write_figure"]


def write_figure(figure: Any, path: Path, **options: Any) -> Path:
    """Draw a figure in memory, then put its file in place.

    The same figure gives the same bytes: no date, and no random names inside an SVG.

    Parameters
    ----------
    figure : matplotlib Figure
    path : Path
        Its suffix says what kind of file to write.
    **options
        For matplotlib's ``savefig``.
    """
    mpl = require("matplotlib", "plots", "Plotting")
    kind = path.suffix.lstrip(".").lower() or "png"
    if kind in ("svg", "pdf"):
        undated = "Date" if kind == "svg" else "CreationDate"
        options = {"metadata": {undated: None}, **options}
    buffer = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "suwr"}):
        figure.savefig(buffer, format=kind, **options)
    write_atomic(path, buffer.getvalue())
    return path
