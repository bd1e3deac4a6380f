"""Witnesses of leakage: two rows that agree on all revealed values but are treated differently.

A witness is reported only if repeated queries, in batches of different composition and size,
return the same two masks every time. Neither sampling noise nor floating-point differences
between batch sizes can produce one.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suwr._utils.text import printable
from suwr.auditing.background import IntArray
from suwr.auditing.queries import SelectorQueries
from suwr.data.frame import column_values
from suwr.selector import BoolArray

_N_REPEATS = 8


@dataclass(frozen=True)
class Witness:
    """Two rows that agree on all revealed values but are treated differently.

    Attributes
    ----------
    x, x_other : array of shape (n_columns,)
        The rows; ``x[mask]`` and ``x_other[mask]`` are equal.
    mask, mask_other : bool array of shape (n_columns,)
        Masks that the selector returns for them. For a stochastic selector, both are the mask
        whose probability differs.
    row, row_other : int or None
        Positions of ``x`` and ``x_other`` in the audited data; None for a row that is not among
        them but combines values of several.
    columns : list of str
    rows : array or data frame of shape (2, n_columns)
        Both rows in the container of the audited data, as the selector accepts them.
    probability, probability_other : float or None
        ζ(mask | x) and ζ(mask | x_other) of a stochastic selector.

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
    row: int | None
    row_other: int | None
    columns: list[str]
    rows: Any
    probability: float | None = None
    probability_other: float | None = None

    @property
    def support(self) -> str:
        """Either "empirical" if both rows were observed, or "product"."""
        return "product" if self.row is None or self.row_other is None else "empirical"

    @property
    def revealed(self) -> list[str]:
        """Names of the columns that ``mask`` reveals."""
        return [name for name, shown in zip(self.columns, self.mask, strict=True) if shown]

    @property
    def changed(self) -> list[str]:
        """Names of the hidden columns in which the two rows differ."""
        same = [_equal(a, b) for a, b in zip(self.x, self.x_other, strict=True)]
        return [name for name, equal in zip(self.columns, same, strict=True) if not equal]

    def table(self, max_columns: int = 8) -> str:
        """Format both rows as a text table, with hidden values in brackets.

        Parameters
        ----------
        max_columns : int
            Maximum number of columns; those that differ, or are revealed in one row only, take
            precedence.
        """
        return witness_table(self, max_columns)

    def to_dict(self) -> dict[str, Any]:
        """The witness as a JSON-serializable dict."""
        return {
            "columns": self.columns,
            "x": [_to_json_value(value) for value in self.x],
            "x_other": [_to_json_value(value) for value in self.x_other],
            "mask": self.mask.tolist(),
            "mask_other": self.mask_other.tolist(),
            "row": self.row,
            "row_other": self.row_other,
            "support": self.support,
            "probability": self.probability,
            "probability_other": self.probability_other,
        }


def witness_table(witness: Witness, max_columns: int = 8) -> str:
    """Format a witness as text; see `Witness.table`."""
    changed = np.isin(witness.columns, witness.changed)
    priority = 4 * changed + 2 * (witness.mask ^ witness.mask_other) + witness.mask
    chosen = [int(j) for j in np.argsort(-priority, kind="stable") if priority[j]][:max_columns]
    chosen.sort()

    def cell(value: Any, shown: bool) -> str:
        text = f"{value:.4g}" if isinstance(value, float | np.floating) else printable(value)
        return text if shown else f"[{text}]"

    names = [printable(name) for name in witness.columns]
    rows = [["", *(names[j] for j in chosen), "reveals"]]
    for name, x, mask in (
        ("x", witness.x, witness.mask),
        ("x'", witness.x_other, witness.mask_other),
    ):
        shown = [c for c, m in zip(names, mask, strict=True) if m]
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
    queries: SelectorQueries,
    source: IntArray,
    source_other: IntArray,
    mask: BoolArray,
    mask_other: BoolArray,
    probability: float | None = None,
    probability_other: float | None = None,
) -> Witness:
    """Look up the values of two probes, given by their source rows."""
    background = queries.background
    X = background.X
    x, x_other = (
        _as_row([column_values(X, j)[s[j]] for j in range(background.n_columns)], X)
        for s in (source, source_other)
    )
    return Witness(
        x=x,
        x_other=x_other,
        mask=mask,
        mask_other=mask_other,
        row=background.position_of(source),
        row_other=background.position_of(source_other),
        columns=background.names,
        rows=background.build(np.stack([source, source_other])),
        probability=probability,
        probability_other=probability_other,
    )


def confirm(queries: SelectorQueries, source: IntArray, source_other: IntArray) -> bool:
    """Query two probes again and return whether they are a witness every time.

    They are queried individually, as a pair in either order, and in a batch of eight copies each.
    A selector that is occasionally random or depends on the batch fails this test.
    """
    pair = np.stack([source, source_other])
    answers = [
        queries.select_individually(pair),
        queries.select(pair),
        queries.select(pair[::-1])[::-1],
    ]
    copies = queries.select(np.repeat(pair, _N_REPEATS, axis=0))
    answers += [np.stack([copies[i], copies[_N_REPEATS + i]]) for i in range(_N_REPEATS)]
    first = answers[0]
    if any((answer != first).any() for answer in answers):
        return False
    codes = queries.background.codes_of(pair)
    equal = codes[0] == codes[1]
    # Rows whose values are all equal, such as 0.0 and -0.0, are the same row.
    agree = bool(equal[first[0]].all()) and not bool(equal.all())
    return agree and bool((first[0] != first[1]).any())


def minimize_changes(
    queries: SelectorQueries,
    source: IntArray,
    source_other: IntArray,
    rng: np.random.Generator,
) -> IntArray:
    """Reduce the number of hidden units in which the second probe differs from the first.

    Units that determine each other are restored together.
    """
    unit_of = queries.background.blocks[queries.background.unit_of]
    mask = queries.select(source[None])[0]
    codes = queries.background.codes_of(np.stack([source, source_other]))
    units = np.unique(unit_of[codes[0] != codes[1]])
    singles = np.stack([np.where(unit_of == u, source_other, source) for u in units])
    hits = np.flatnonzero((queries.select(singles) != mask).any(axis=1))
    if len(hits):
        return singles[rng.choice(hits)]
    # No single unit suffices: restore random subsets, of decreasing size, while the masks differ.
    share = 0.5
    for _ in range(60):
        restored = units[rng.random(len(units)) < share]
        trial = np.where(np.isin(unit_of, restored), source, source_other)
        if len(restored) < len(units) and (queries.select(trial[None])[0] != mask).any():
            source_other = trial
            units = np.setdiff1d(units, restored)
        else:
            share = max(share * 0.7, 1.0 / max(len(units), 1))
    return source_other


def _as_row(values: list[Any], X: Any) -> NDArray[Any]:
    if isinstance(X, np.ndarray):
        return np.array(values, dtype=X.dtype)
    if all(isinstance(v, int | float | np.number) for v in values):
        return np.array(values, dtype=float)
    row = np.empty(len(values), dtype=object)
    row[:] = values
    return row


def _equal(a: Any, b: Any) -> bool:
    if a is b:
        return True
    try:
        return bool(a == b) or bool(a != a and b != b)
    except TypeError:  # pandas.NA has no truth value
        return False


def _to_json_value(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    return value if isinstance(value, str | int | float | bool | None) else str(value)
