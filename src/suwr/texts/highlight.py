"""`Highlight`: a text with marks on what was read, in the order of reading."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from suwr._utils.text import counted, format_label, printable
from suwr.data.descriptions import ColumnDescription, TableDescription
from suwr.narrative.explanation import Narrative, format_prediction

__all__ = ["Highlight", "Passage", "highlight_spans", "highlight_words", "quoted", "text_narrative"]

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
        final = format_prediction(narrative.prediction, narrative.classes)
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
            after = format_prediction(step.prediction, self.narrative.classes)
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
        from suwr.report.texts import highlight_html

        return highlight_html(self)


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
    return replace(narrative, steps=steps, origin=None, description=TableDescription(described))
