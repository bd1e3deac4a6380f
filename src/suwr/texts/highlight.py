"""`Highlight`: a text with marks on what was read, in the order of reading, and its display."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from suwr._utils.files import check_writable, write_atomic
from suwr._utils.text import counted, format_label, printable
from suwr._utils.validation import view
from suwr.data.descriptions import ColumnDescription, TableDescription
from suwr.narrative.explanation import Explanation, Narrative
from suwr.texts.splitting import Spans, read_texts

# Start, end, step and unit.
Mark = tuple[int, int, int, str]
#: Shown in place of a passage that was not read, if the display must not contain it.
ELLIPSIS = "…"
ABSENT = "absent"
# Bold and reversed for what was read, dim for the rest; they are legible on every background.
_READ, _UNREAD, _RESET = "\x1b[1;7m", "\x1b[2m", "\x1b[0m"


@dataclass(frozen=True)
class Passage:
    """A part of a text.

    Attributes
    ----------
    text : str
    step : int or None
        Number of the step that read it, from 1; None if it was not read.
    unit : str or None
        Name of the unit that was read.
    """

    text: str
    step: int | None = None
    unit: str | None = None


@dataclass(frozen=True)
class Highlight:
    """A text with marks on what was read.

    Attributes
    ----------
    narrative : Narrative
    passages : tuple of Passage
        The whole text, in its order. A passage that was not read is an ellipsis if the display
        must not contain it.
    absent : tuple of (int, str)
        Step and unit of what was asked for and is not in the text.
    noun : str, default='unit'
        What a unit is called.

    Examples
    --------
    >>> from suwr.narrative.explanation import Narrative, Step
    >>> step = Step({"sentence 2": {"x1": 0.3}}, 0.9, (0.5, 0.5), (0.1, 0.9))
    >>> narrative = Narrative(0, (0.5, 0.5), 0.0, (step,), "decision", ("bad", "good"), 20)
    >>> passages = (Passage("I went alone."), Passage(" "), Passage("It was fun!", 1, "sentence 2"))
    >>> print(Highlight(narrative, passages, noun="sentence"))
    good 90 %, bad 10 %, from 1 of 20 sentences.
    I went alone. [1: It was fun!]
    """

    narrative: Narrative
    passages: tuple[Passage, ...]
    absent: tuple[tuple[int, str], ...] = ()
    noun: str = "unit"

    @property
    def result(self) -> str:
        """The prediction, and from how many units, as a sentence."""
        narrative = self.narrative
        final = narrative.prediction_text(narrative.prediction)
        return f"{final}, from {narrative.n_used} of {counted(narrative.n_units, self.noun)}."

    @property
    def absence(self) -> str:
        """What was asked for and is not in the text, as a sentence; '' if there is nothing."""
        if not self.absent:
            return ""
        units = ", ".join(f"{printable(unit)} (step {step})" for step, unit in self.absent)
        return f"Not in the text: {units}."

    def steps(self) -> Iterator[tuple[int, str, str]]:
        """Yield number, units and prediction of each step."""
        for number, step in enumerate(self.narrative.steps, start=1):
            after = self.narrative.prediction_text(step.prediction)
            yield number, " + ".join(map(printable, step.units)), after

    def text(self) -> str:
        """Return the prediction and the text; '[2: …]' was read in step 2."""
        return self._lines("[{step}: ", "]", "", "")

    def terminal(self) -> str:
        """Return the text for a terminal: what was read is reversed, everything else is dim."""
        return self._lines(f"{_READ}[{{step}}: ", f"]{_RESET}", _UNREAD, _RESET)

    def _lines(self, begin: str, end: str, dim: str, reset: str) -> str:
        parts = []
        for passage in self.passages:
            shown = printable(passage.text, keep="\n\t")
            if passage.step is not None:
                parts.append(begin.format(step=passage.step) + shown + end)
            else:
                parts.append(f"{dim}{shown}{reset}" if shown.strip() else shown)
        lines = [self.result, "".join(parts).strip("\n"), self.absence]
        comparison = getattr(self.narrative, "comparison", "")
        return "\n".join(line for line in (*lines, comparison) if line)

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        """Representation in notebooks."""
        return str(view("report:highlight_html", self))


def _steps_of(narrative: Narrative) -> dict[str, int]:
    """Return the number of the step that revealed each unit."""
    return {
        unit: number
        for number, step in enumerate(narrative.steps, start=1)
        for unit in step.revealed
    }


def highlight_spans(
    narrative: Narrative, text: str, spans: Mapping[str, tuple[int, int]], unread: bool
) -> Highlight:
    """Mark sentences or spans.

    Parameters
    ----------
    narrative : Narrative
    text : str
    spans : mapping
        From unit to start and end.
    unread : bool
        Whether to keep the text that was not read.
    """
    steps = _steps_of(narrative)
    marks = [(*spans[unit], step, unit) for unit, step in steps.items() if unit in spans]
    absent = tuple((step, unit) for unit, step in steps.items() if unit not in spans)
    found = _passages(text, marks) if unread else _read_passages(text, sorted(marks))
    return Highlight(narrative, tuple(found), absent)


def highlight_words(narrative: Narrative, text: str, unread: bool) -> Highlight:
    """Mark all occurrences of the words that were asked for; the longest first.

    Parameters
    ----------
    narrative : Narrative
    text : str
    unread : bool
        Whether to keep the text that was not read.
    """
    steps = _steps_of(narrative)
    marks: list[Mark] = []
    absent = []
    for unit, step in sorted(steps.items(), key=lambda item: -len(item[0])):
        pattern = r"\b" + r"\W+".join(re.escape(word) for word in unit.split()) + r"\b"
        found = [match.span() for match in re.finditer(pattern, text, flags=re.IGNORECASE)]
        free = [s for s in found if all(s[1] <= mark[0] or mark[1] <= s[0] for mark in marks)]
        marks += [(*span, step, unit) for span in free]
        if not found:
            absent.append((step, unit))
    if unread:
        return Highlight(narrative, tuple(_passages(text, marks)), tuple(sorted(absent)))
    # Counts were revealed, not the places of the words: they are listed in the order of the steps.
    present = [
        Passage(unit, step, unit) for unit, step in steps.items() if (step, unit) not in absent
    ]
    gap = Passage(f" {ELLIPSIS} ")
    listed = [part for passage in present for part in (gap, passage)]
    return Highlight(narrative, (*listed, gap), tuple(sorted(absent)))


def _passages(text: str, marks: list[Mark]) -> Iterator[Passage]:
    """Yield the passages of a text; marks are (start, end, step, unit) and do not overlap."""
    place = 0
    for start, end, step, unit in sorted(marks):
        if start > place:
            yield Passage(text[place:start])
        yield Passage(text[start:end], step, unit)
        place = end
    if place < len(text):
        yield Passage(text[place:])


def _read_passages(text: str, marks: list[Mark]) -> Iterator[Passage]:
    """Yield what was read, with ellipses that are the same whatever was not read."""
    place: int | None = None
    for start, end, step, unit in marks:
        adjacent = place is not None and place <= start and not text[place:start].strip()
        yield Passage(" " if adjacent else f" {ELLIPSIS} ")
        yield Passage(text[start:end], step, unit)
        place = end
    yield Passage(f" {ELLIPSIS}")


def quoted(unit: str, parts: Mapping[str, str]) -> str:
    """Return the text of a unit on one line in quotation marks, or that it is absent."""
    return f"“{' '.join(parts[unit].split())}”" if unit in parts else ABSENT


def text_narrative(narrative: Narrative, parts: Mapping[str, str] | None) -> Narrative:
    """Replace the values of a narrative by the text that its units revealed.

    Parameters
    ----------
    narrative : Narrative
    parts : mapping or None
        From unit to its text; None if units are words, whose values are counts.
    """

    def value(unit: str, values: Mapping[str, Any]) -> Any:
        if parts is None:
            return next(iter(values.values()))
        return quoted(unit, parts)

    steps = tuple(
        replace(step, revealed={u: {u: value(u, values)} for u, values in step.revealed.items()})
        for step in narrative.steps
    )
    described = {}
    if parts is None:
        described = {
            unit: ColumnDescription(f"count of “{format_label(unit)}”")
            for step in steps
            for unit in step.units
        }
    words = TableDescription(described, classes=narrative.description.classes)
    return replace(narrative, steps=steps, origin=None, description=words)


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
        page = view("report:texts_page", shown, title=title, y=y, noun=self._noun(), note=note)
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
