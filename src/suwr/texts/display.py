"""The display of what was read of texts, for `TextUnits`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from suwr._utils.files import check_writable, write_atomic
from suwr.narrative.explanation import Explanation, Narrative
from suwr.report.texts import texts_page
from suwr.texts.highlight import (
    Highlight,
    highlight_spans,
    highlight_words,
    quoted,
    text_narrative,
)
from suwr.texts.splitting import Spans, read_texts

__all__ = ["TextDisplay"]


class TextDisplay(ABC):
    """Methods that show explanations of texts; see `TextUnits` for the attributes."""

    unit: Any
    unit_names_: list[str]
    groups_: dict[str, list[int]]

    @abstractmethod
    def spans(self, text: str) -> Spans:
        """Find the units of a text."""

    @abstractmethod
    def transform(self, texts: Iterable[str]) -> Any:
        """Return one row per text."""

    def narrate(self, explanation: Explanation, texts: Iterable[str]) -> Explanation:
        """Return an explanation whose steps show the sentences themselves.

        Parameters
        ----------
        explanation : Explanation
            Of ``transform(texts)``.
        texts : iterable of str

        Returns
        -------
        Explanation
            The same steps and predictions; the values of a step are the text that it revealed, for
            `Explanation.text`, `Explanation.to_html` and notebooks. It has no receipts.
        """
        return self._narrate(explanation, self._matching(explanation, texts))

    def _narrate(self, explanation: Explanation, documents: Sequence[str]) -> Explanation:
        words = self.unit == "word"
        shown = [
            text_narrative(narrative, None if words else self._by_name(text))
            for narrative, text in zip(explanation, documents, strict=True)
        ]
        return Explanation(shown)

    def highlight(self, narrative: Narrative, text: str, *, unread: bool = True) -> Highlight:
        """Mark what was read of a text, in the order of reading.

        Parameters
        ----------
        narrative : Narrative
            Of the row of this text.
        text : str
        unread : bool, default=True
            Whether the display contains text that was not read. Without, passages that were not
            read are replaced by an ellipsis.

        Returns
        -------
        Highlight
            Shown as text by ``print``, with colours by `Highlight.terminal`, and in notebooks.
        """
        self._matching(Explanation([narrative]), [text])
        return self._highlight(narrative, text, unread)

    def _highlight(self, narrative: Narrative, text: str, unread: bool) -> Highlight:
        if self.unit == "word":
            found = highlight_words(narrative, text, unread)
        else:
            found = highlight_spans(narrative, text, dict(self._named_spans(text)), unread)
        return replace(found, noun=self._noun())

    def _noun(self) -> str:
        """What a unit is called."""
        return self.unit if isinstance(self.unit, str) else "passage"

    def to_html(
        self,
        path: Any,
        explanation: Explanation,
        texts: Iterable[str],
        *,
        title: str = "What was read, and in which order",
        y: Sequence[Any] | None = None,
        unread: bool = True,
        note: str = "",
    ) -> None:
        """Write a page of texts with marks on what was read; it needs no network and no scripts.

        Parameters
        ----------
        path : path
            The HTML file; an existing file is replaced atomically.
        explanation : Explanation
            Of ``transform(texts)``.
        texts : iterable of str
        title : str
        y : sequence, optional
            The true class or value of each text.
        unread : bool, default=True
            As in `highlight`. Set it to False if readers must not see whole texts.
        note : str, default=""
            Shown at the end of the page, for example the source and the licence of the texts.
        """
        check_writable(path)
        documents = self._matching(explanation, texts)
        if y is not None and len(y) != len(documents):
            raise ValueError(f"'y' must have {len(documents)} values. Got {len(y)} instead.")
        shown = [
            self._highlight(narrative, text, unread)
            for narrative, text in zip(explanation, documents, strict=True)
        ]
        page = texts_page(shown, title=title, y=y, noun=self._noun(), note=note)
        write_atomic(path, page.encode(errors="replace"))

    def _named_spans(self, text: str) -> Iterable[tuple[str, tuple[int, int]]]:
        return zip(self.unit_names_, self.spans(text), strict=False)

    def _by_name(self, text: str) -> dict[str, str]:
        return {name: text[start:end] for name, (start, end) in self._named_spans(text)}

    def _matching(self, explanation: Explanation, texts: Iterable[str]) -> list[str]:
        """Read texts, and check that the revealed values are theirs."""
        check_is_fitted(self, "vectorizer_")
        documents = read_texts(texts)
        if len(documents) != len(explanation):
            raise ValueError(
                f"There must be one text per narrative, {len(explanation)}. Got {len(documents)}."
            )
        rows = self.transform(documents)
        for narrative, row, text in zip(explanation, rows, documents, strict=True):
            for step in narrative.steps:
                for unit, values in step.revealed.items():
                    if not self._is_value(unit, list(values.values()), row, text):
                        raise ValueError(
                            f"The text of row {narrative.row} is not the one that was explained: "
                            f"{unit!r} differs. Explain the rows of 'transform', not those of "
                            "'fit_transform'."
                        )
        return documents

    def _is_value(self, unit: str, values: list[Any], row: Any, text: str) -> bool:
        """Whether revealed values are those of a row, or the text of a unit."""
        if unit not in self.groups_:
            return False
        if len(values) == 1 and isinstance(values[0], str):
            return self.unit != "word" and values[0] == quoted(unit, self._by_name(text))
        known, own = np.array(values, dtype=float), row[self.groups_[unit]]
        return known.shape == own.shape and np.allclose(known, own, rtol=1e-5, equal_nan=True)
