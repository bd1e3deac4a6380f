"""The witness of a leak: two rows that agree on all that is revealed, yet are treated differently.

A witness is only reported after the selector was asked again, in several calls of different
company, and gave the same two answers each time. So neither chance nor the float noise of another
batch size can make one.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suwr.audit._oracle import Oracle
from suwr.audit._table import IntArray, column_values
from suwr.selector import BoolArray


@dataclass(frozen=True)
class Witness:
    """Two rows that agree on everything revealed and are yet treated differently.

    Attributes
    ----------
    x, x_other : array of shape (n_columns,)
        The rows: ``x[mask]`` and ``x_other[mask]`` are equal.
    mask, mask_other : bool array of shape (n_columns,)
        What the selector answers for each of them. For a selector that draws its masks, both are
        the mask whose probability differs.
    row : int
        Position of ``x`` in the data that was audited.
    row_other : int or None
        Position of ``x_other``, if it is a row of the data too.
    support : {"empirical", "product"}
        Whether both rows are rows of the data, or the second takes its hidden values from others.
    columns : list of str
    rows : array or data frame of shape (2, n_columns)
        Both rows in the container of the audited data, ready to be given to the selector again.
    probability, probability_other : float or None
        ζ(mask | x) and ζ(mask | x_other), for a selector that draws its masks.

    Examples
    --------
    >>> import numpy as np
    >>> import suwr
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> witness = suwr.audit(lambda X: X > X[:, ::-1], X, gaps=False, random_state=0).witness
    >>> bool((witness.x[witness.mask] == witness.x_other[witness.mask]).all())
    True
    >>> witness.mask.tolist() == witness.mask_other.tolist()
    False
    """

    x: NDArray[Any]
    x_other: NDArray[Any]
    mask: BoolArray
    mask_other: BoolArray
    row: int
    row_other: int | None
    support: str
    columns: list[str]
    rows: Any
    probability: float | None = None
    probability_other: float | None = None

    @property
    def revealed(self) -> list[str]:
        """Names of the columns that ``mask`` reveals."""
        return [name for name, shown in zip(self.columns, self.mask, strict=True) if shown]

    @property
    def changed(self) -> list[str]:
        """Names of the hidden columns in which the two rows differ."""
        same = [_same(a, b) for a, b in zip(self.x, self.x_other, strict=True)]
        return [name for name, equal in zip(self.columns, same, strict=True) if not equal]

    def table(self, max_columns: int = 8) -> str:
        """The two rows side by side, as text; hidden values in brackets.

        Columns that are revealed, or differ, or are revealed in one row only, come first.
        """
        return witness_table(self, max_columns)

    def to_dict(self) -> dict[str, Any]:
        """A form that JSON can hold."""
        return {
            "columns": self.columns,
            "x": [_plain(value) for value in self.x],
            "x_other": [_plain(value) for value in self.x_other],
            "mask": self.mask.tolist(),
            "mask_other": self.mask_other.tolist(),
            "row": self.row,
            "row_other": self.row_other,
            "support": self.support,
            "probability": self.probability,
            "probability_other": self.probability_other,
        }


def witness_table(witness: Witness, max_columns: int = 8) -> str:
    """See :meth:`Witness.table`."""
    changed = np.isin(witness.columns, witness.changed)
    interest = 4 * changed + 2 * (witness.mask ^ witness.mask_other) + witness.mask
    chosen = [int(j) for j in np.argsort(-interest, kind="stable") if interest[j]][:max_columns]
    chosen.sort()

    def cell(value: Any, shown: bool) -> str:
        text = f"{value:.4g}" if isinstance(value, float | np.floating) else str(value)
        return text if shown else f"[{text}]"

    rows = [["", *(witness.columns[j] for j in chosen), "reveals"]]
    for name, x, mask in (
        ("x", witness.x, witness.mask),
        ("x'", witness.x_other, witness.mask_other),
    ):
        shown = [c for c, m in zip(witness.columns, mask, strict=True) if m]
        listed = ", ".join(shown[:6]) + (f", … ({len(shown)})" if len(shown) > 6 else "")
        rows.append([name, *(cell(x[j], bool(mask[j])) for j in chosen), listed or "nothing"])
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    lines = ["  ".join(v.rjust(w) for v, w in zip(row, widths, strict=True)) for row in rows]
    n_more = len(witness.columns) - len(chosen)
    if n_more:
        all_shown = set(witness.changed) <= {witness.columns[j] for j in chosen}
        lines.append(f"({n_more} more columns{', equal in both rows' if all_shown else ''})")
    return "\n".join(lines)


def make_witness(
    oracle: Oracle,
    source: IntArray,
    source_other: IntArray,
    mask: BoolArray,
    mask_other: BoolArray,
    support: str,
    probability: float | None = None,
    probability_other: float | None = None,
) -> Witness:
    """Look up the values of a pair of probes."""
    table = oracle.table
    x, x_other = (
        _one_row([column_values(table.X, j)[s[j]] for j in range(table.n_columns)], table.X)
        for s in (source, source_other)
    )
    whole = bool((source_other == source_other[0]).all())
    return Witness(
        x=x,
        x_other=x_other,
        mask=mask,
        mask_other=mask_other,
        row=int(table.positions[source[0]]),
        row_other=int(table.positions[source_other[0]]) if whole else None,
        support=support,
        columns=table.names,
        rows=table.build(np.stack([source, source_other])),
        probability=probability,
        probability_other=probability_other,
    )


def confirm(oracle: Oracle, source: IntArray, source_other: IntArray) -> bool:
    """Ask again about a pair of probes, in different company; true if it is a leak each time.

    Together, in either order, each alone, and many times over: a selector with a bit of chance,
    or one whose answer depends on the other rows of the call, does not pass.
    """
    pair = np.stack([source, source_other])
    crowd = np.repeat(pair, 8, axis=0)
    answers = [oracle.select_alone(pair), oracle.select(pair), oracle.select(pair[::-1])[::-1]]
    many = oracle.select(crowd)
    answers += [np.stack([many[i], many[8 + i]]) for i in range(8)]
    first = answers[0]
    if any((answer != first).any() for answer in answers):
        return False
    codes = oracle.table.codes_at(pair)
    equal = codes[0] == codes[1]
    # Rows with equal values throughout (0.0 and -0.0, say) are one row to the auditor.
    agree = bool(equal[first[0]].all()) and not bool(equal.all())
    return agree and bool((first[0] != first[1]).any())


def shrink(
    oracle: Oracle, source: IntArray, source_other: IntArray, rng: np.random.Generator
) -> IntArray:
    """Change as few hidden units as possible, so that the witness shows what matters."""
    table = oracle.table
    mask = oracle.select(source[None])[0]
    codes = table.codes_at(np.stack([source, source_other]))
    units = np.unique(table.unit_of[codes[0] != codes[1]])
    singles = np.stack([np.where(table.unit_of == u, source_other, source) for u in units])
    hits = np.flatnonzero((oracle.select(singles) != mask).any(axis=1))
    if len(hits):
        return singles[rng.choice(hits)]
    # No single change is enough: give back random halves, then quarters, while the leak stays.
    share = 0.5
    for _ in range(60):
        back = units[rng.random(len(units)) < share]
        trial = np.where(np.isin(table.unit_of, back), source, source_other)
        if len(back) < len(units) and (oracle.select(trial[None])[0] != mask).any():
            source_other = trial
            units = np.setdiff1d(units, back)
        else:
            share = max(share * 0.7, 1.0 / max(len(units), 1))
    return source_other


def _one_row(values: list[Any], X: Any) -> NDArray[Any]:
    if isinstance(X, np.ndarray):
        return np.array(values, dtype=X.dtype)
    if all(isinstance(v, int | float | np.number) for v in values):
        return np.array(values, dtype=float)
    row = np.empty(len(values), dtype=object)
    row[:] = values
    return row


def _same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    try:
        return bool(a == b) or bool(a != a and b != b)
    except TypeError:  # pandas' NA has no truth value
        return False


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    return value if isinstance(value, str | int | float | bool | None) else str(value)
