"""Tables as Markdown and LaTeX, and the names of methods in tables and figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from suwr._utils.files import write_atomic

__all__ = ["Grid", "findings_grid", "label", "mean_and_sd", "mean_sd", "write_text"]

#: Names of methods in tables and figures, if they differ from the class name.
LABELS = {
    "AllFeatures": "no selection",
    "Oracle": "oracle",
    "GlobalOptimum": "best subset",
    "REALX": "REAL-X",
}


def label(method: str) -> str:
    """Name of a method in tables and figures.

    Examples
    --------
    >>> label("AllFeatures"), label("L2X")
    ('no selection', 'L2X')
    """
    return LABELS.get(method, method)


def mean_and_sd(values: Iterable[float]) -> tuple[float, float]:
    """Mean and sample standard deviation; the latter is 0 for a single value.

    Examples
    --------
    >>> mean_and_sd([1.0, 3.0])
    (2.0, 1.4142135623730951)
    """
    numbers = np.fromiter(values, dtype=float)
    return float(numbers.mean()), float(numbers.std(ddof=1)) if len(numbers) > 1 else 0.0


def mean_sd(values: Iterable[float], digits: int) -> str:
    """Format as mean ± standard deviation, or as the value if there is only one.

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
    """A table of strings.

    Attributes
    ----------
    header : sequence of str
    rows : sequence of sequences of str
    n_left : int
        Number of left-aligned columns; the others are right-aligned.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    n_left: int = 1

    def markdown(self) -> str:
        """Format as a Markdown table.

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
        """Format as a LaTeX tabular for the booktabs package.

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


def write_text(folder: Path, files: Mapping[str, str]) -> list[Path]:
    """Write files, given as name and text, into a folder; return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        write_atomic(folder / name, text.encode())
    return [folder / name for name in files]


def findings_grid(findings: Sequence[tuple[str, str]]) -> Grid:
    """Table of published findings, each with the corresponding measurement.

    Examples
    --------
    >>> findings_grid([("The method works.", "accuracy 0.9")]).rows
    [['The method works.', 'accuracy 0.9']]
    """
    return Grid(["the paper reports", "measured here"], [list(row) for row in findings], n_left=2)
