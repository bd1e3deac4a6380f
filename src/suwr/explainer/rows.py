"""What an explainer queries and what its policy reads: rows of a table, or texts, and rows drawn.

The rows of a table are both. Texts are queried as they are, and the policy reads the rows that
`TextUnits` makes of them.

A model can be queried on rows for which there are no labels. Rows must resemble the data, because
the predictor learns the expected output given the revealed values under the distribution of the
rows that it is trained on. Rows are drawn as for a teacher; see `suwr.training.teacher.recombine`.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from suwr.data.encode import TableEncoder
from suwr.data.frame import column_names, gather_rows, is_frame, read_table, select_columns
from suwr.data.stored import as_rows, check_size
from suwr.data.units import Patches, resolve_units
from suwr.narrative.explanation import Explanation
from suwr.texts import TextUnits
from suwr.texts.splitting import read_texts, sentence_spans
from suwr.training.teacher import column_units, nearest_rows, recombine


def encoded(X: Any) -> NDArray[np.float32]:
    """Rows of a table as numbers, by which they are near to one another."""
    table = read_table(X)
    encoder = TableEncoder.fit(table, [f"x{i}" for i in range(len(table.columns))])
    return encoder.encode(encoder.parse(table.columns))


def concatenate_rows(X: Any, drawn: Any) -> Any:
    """Append drawn rows to the rows that they were drawn from; the index of a frame is reset."""
    if not is_frame(X):
        return np.concatenate([X, drawn])
    parts = [nw.maybe_reset_index(nw.from_native(part, eager_only=True)) for part in (X, drawn)]
    return nw.maybe_reset_index(nw.concat(parts)).to_native()


class TableRows:
    """Rows of a table, which the policy reads as they are.

    Parameters
    ----------
    groups : object
        As in `SUWRClassifier`.
    """

    def __init__(self, groups: Any) -> None:
        self.groups = groups
        self.names: list[Any] | None = None

    def read(self, X: Any, min_rows: int = 1) -> Any:
        """Return a data frame or an array; columns in the order of `fit` once that is known."""
        rows = as_rows(X)
        n_rows, n_columns = rows.shape
        check_size(n_rows, n_columns, min_rows)
        known = self.names is not None and is_frame(rows)
        if known and set(column_names(rows) or ()) == set(self.names or ()):
            return select_columns(rows, self.names or [])
        return rows

    def fit(self, rows: Any, outputs: NDArray[np.float64]) -> None:
        """Remember the order of the columns."""
        self.names = column_names(rows)

    def draw(self, rows: Any, n: int, rng: np.random.RandomState) -> Any:
        """Draw rows; see `suwr.explainer.rows`."""
        if isinstance(self.groups, Patches):
            unit_of = self.groups.tiles()
        else:
            names = [str(name) for name in self.names or [f"x{i}" for i in range(rows.shape[1])]]
            units = resolve_units(self.groups, None, names, "SUWRExplainer")
            unit_of = column_units(units.membership)
        return gather_rows(rows, recombine(encoded(rows), unit_of, n, rng))

    def concatenate(self, rows: Any, drawn: Any) -> Any:
        """Append drawn rows."""
        return concatenate_rows(rows, drawn)

    def features(self, rows: Any) -> Any:
        """Return the rows."""
        return rows

    def narrate(self, explanation: Explanation, rows: Any) -> Explanation:
        """Return the explanation as it is."""
        return explanation


class TextRows:
    """Texts, of which the policy reads units.

    Parameters
    ----------
    units : TextUnits
        A clone is fitted.
    """

    def __init__(self, units: TextUnits) -> None:
        self.units: TextUnits = clone(units)

    @property
    def groups(self) -> Any:
        """The columns of each unit."""
        return self.units.groups_

    def read(self, X: Any, min_rows: int = 1) -> Any:
        """Return texts as an array of objects."""
        texts = _array(read_texts(X))
        check_size(len(texts), 1, min_rows)
        return texts

    def fit(self, rows: Any, outputs: NDArray[np.float64]) -> None:
        """Fit the vectoriser to the class or value that the model predicts."""
        predicted = outputs if outputs.ndim == 1 else outputs.argmax(axis=1)
        self.units.fit(rows, predicted if len(np.unique(predicted)) > 1 else None)

    def draw(self, rows: Any, n: int, rng: np.random.RandomState) -> Any:
        """Draw texts; see `draw_texts`."""
        return _array(draw_texts(self.units, rows, n, rng))

    def concatenate(self, rows: Any, drawn: Any) -> Any:
        """Append drawn texts."""
        return np.concatenate([rows, drawn])

    def features(self, rows: Any) -> Any:
        """Return the rows of the units."""
        return self.units.transform(rows)

    def narrate(self, explanation: Explanation, rows: Any) -> Explanation:
        """Show the text that each step revealed."""
        return self.units._narrate(explanation, self.read(rows))


def draw_texts(units: TextUnits, texts: Any, n: int, rng: np.random.RandomState) -> list[str]:
    """Draw texts that recombine the sentences of a text and of one of its neighbours.

    Each sentence, span or passage is that of either text at the same position; if the units are
    words, sentences are recombined.

    Parameters
    ----------
    units : TextUnits
        Fitted; neighbours are close in their features.
    texts : sequence of str
    n : int
        Texts to draw; all texts are used equally often.
    rng : RandomState

    Returns
    -------
    list of str
    """
    if n == 0:
        return []
    neighbours = nearest_rows(encoded(units.transform(texts)), rng)
    pieces = [_pieces(units, text) for text in texts]
    order = np.concatenate([rng.permutation(len(pieces)) for _ in range(-(-n // len(pieces)))])
    backward = units.from_end and units.unit != "word"
    drawn = []
    for base in order[:n]:
        other = neighbours[base, rng.randint(neighbours.shape[1])]
        both = pieces[base], pieces[other]
        longest = max(map(len, both))
        sources = rng.randint(2, size=longest)
        chosen = [both[source][i] for i, source in enumerate(sources) if i < len(both[source])]
        drawn.append("".join(chosen[::-1] if backward else chosen))
    return drawn


def _pieces(units: TextUnits, text: str) -> list[str]:
    """Return the units of a text with the white space after them, in the order of their numbers."""
    spans = sentence_spans(text) if units.unit == "word" else units.spans(text)
    starts = [0, *sorted(start for start, _ in spans)[1:], len(text)]
    pieces = [text[a:b] for a, b in pairwise(starts)]
    pieces = [piece if piece[-1:].isspace() else f"{piece} " for piece in pieces]
    return pieces[::-1] if units.from_end and units.unit != "word" else pieces


def _array(texts: list[str]) -> NDArray[Any]:
    """Return an array of objects: an array of str would pad every text to the longest one."""
    array = np.empty(len(texts), dtype=object)
    array[:] = texts
    return array
