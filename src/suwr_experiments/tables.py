"""Tables in three forms: Markdown for people, CSV for programs, LaTeX for papers."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from suwr._utils.files import write_atomic

__all__ = ["LABELS", "Grid", "csv_text", "mean_sd", "write_text"]

#: What the methods are called in tables and figures.
LABELS = {
    "AllFeatures": "no selection",
    "Oracle": "oracle",
    "GlobalOptimum": "best subset",
    "REALX": "REAL-X",
}


def mean_sd(values: Iterable[float], digits: int) -> str:
    """Mean ± standard deviation; of one value, the value.

    Examples
    --------
    >>> mean_sd([0.5, 0.6], 3)
    '0.550 ± 0.071'
    >>> mean_sd([12.34], 1)
    '12.3'
    """
    numbers = np.fromiter(values, dtype=float)
    mean = f"{numbers.mean():.{digits}f}"
    return mean if len(numbers) < 2 else f"{mean} ± {numbers.std(ddof=1):.{digits}f}"


@dataclass(frozen=True)
class Grid:
    """Cells of text under a header.

    Attributes
    ----------
    header : sequence of str
    rows : sequence of sequences of str
    n_left : int
        Columns that are words; the others are numbers and stand to the right.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    n_left: int = 1

    def markdown(self) -> str:
        """A Markdown table.

        Examples
        --------
        >>> print(Grid(["a", "b"], [["x", "1"]]).markdown())
        | a | b |
        | --- | ---: |
        | x | 1 |
        """
        lines = [" | ".join(self.header)]
        lines.append(
            " | ".join("---" if i < self.n_left else "---:" for i in range(len(self.header)))
        )
        lines += [" | ".join(row) for row in self.rows]
        return "\n".join(f"| {line} |" for line in lines)

    def latex(self) -> str:
        """A LaTeX tabular for the package booktabs.

        Examples
        --------
        >>> print(Grid(["a", "50 %"], [["x", "1 ± 2"]]).latex())
        \\begin{tabular}{lr}
        \\toprule
        a & 50 \\% \\\\
        \\midrule
        x & 1 $\\pm$ 2 \\\\
        \\bottomrule
        \\end{tabular}
        """
        columns = "l" * self.n_left + "r" * (len(self.header) - self.n_left)
        lines = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", _latex_row(self.header)]
        lines += [r"\midrule", *(_latex_row(row) for row in self.rows)]
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])


def _latex_row(cells: Sequence[str]) -> str:
    replaced = {"%": r"\%", "±": r"$\pm$", "λ": r"$\lambda$", "–": "--", "·": r"$\cdot$"}
    text = " & ".join(cells)
    for sign, command in replaced.items():
        text = text.replace(sign, command)
    return text + r" \\"


def csv_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows of one kind as CSV; the first names the columns.

    Examples
    --------
    >>> csv_text([{"data": "Syn1", "auroc": 0.7}])
    'data,auroc\\nSyn1,0.7\\n'
    """
    names = list(dict.fromkeys(name for row in rows for name in row))
    file = io.StringIO()
    writer = csv.DictWriter(file, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


def write_text(folder: Path, files: Mapping[str, str]) -> list[Path]:
    """Write named texts into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        write_atomic(folder / name, text.encode())
    return [folder / name for name in files]
