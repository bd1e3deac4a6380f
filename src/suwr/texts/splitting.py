"""Reading of texts, and their division into sentences or spans of words.

A sentence ends where its own characters say so: at a full stop, an exclamation or a question mark
that is followed by white space, or at an empty line. The text that follows is not read, so that the
extent of a sentence never depends on the next one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suwr._utils.validation import parameter_error
from suwr.exceptions import TableError

#: Start and end of each part of a text, in order.
Spans = list[tuple[int, int]]
Splitter = Callable[[str], Spans]

# The end of a sentence. Chinese and Japanese write no space after it. A match begins where a run of
# stops or of white space does, so that the time is linear in the length of the text.
_BOUNDARY = re.compile(
    r"(?P<stop>(?<![.!?…])[.!?…]++[\"'”’)\]»]*+)(?=\s|$)|[。！？]+[”’」』）]*"
    r"|(?P<empty>(?<!\s)\s*\n[^\S\n]*\n)"
)
# A full stop after these words, or after a single letter, does not end a sentence.
_ABBREVIATION = re.compile(
    r"(?:\b(?:mr|mrs|ms|dr|prof|st|vs|cf|fig|vol|approx|e\.g|i\.e)|(?<![\w.])[^\W\d_])\.$",
    flags=re.IGNORECASE,
)
# Long enough for every abbreviation above.
_LONGEST_ABBREVIATION = 12


def read_texts(texts: Any) -> list[str]:
    """Return texts as a list of str; raise a `TableError` for anything else.

    Examples
    --------
    >>> read_texts(np.array(["a", "b"]))
    ['a', 'b']
    """
    if isinstance(texts, str):
        raise TableError("Expected several texts, such as a list of str. Got a single str.")
    found = list(texts)
    for place, text in enumerate(found):
        if not isinstance(text, str):
            raise TableError(f"Texts must be str. Got {type(text).__name__} at position {place}.")
    return [str(text) for text in found]


def read_targets(y: Any, n: int) -> NDArray[Any] | None:
    """Return a target per text as an array; None if there is none."""
    if y is None:
        return None
    targets = np.asarray(y)
    if targets.ndim == 0 or len(targets) != n:
        raise TableError(f"'y' must have {n} values, one per text. Got shape {targets.shape}.")
    return targets


def sentence_spans(text: str) -> Spans:
    """Find the sentences of a text.

    Parameters
    ----------
    text : str

    Returns
    -------
    list of (int, int)
        Start and end of each sentence, without surrounding white space.

    Examples
    --------
    >>> text = "Dr. No was slow. A waste of time!\\n\\nNever again"
    >>> [text[start:end] for start, end in sentence_spans(text)]
    ['Dr. No was slow.', 'A waste of time!', 'Never again']
    """
    found: Spans = []
    start = 0
    for match in _BOUNDARY.finditer(text):
        before = text[max(start, match.end() - _LONGEST_ABBREVIATION) : match.end()]
        if match["stop"] is not None and _ABBREVIATION.search(before):
            continue
        end = match.start() if match["empty"] is not None else match.end()
        _append(found, text, start, end)
        start = match.end()
    _append(found, text, start, len(text))
    return found


def word_spans(text: str, size: int) -> Spans:
    """Find the spans of ``size`` consecutive words; the last one may be shorter.

    Examples
    --------
    >>> text = "one two  three four five"
    >>> [text[start:end] for start, end in word_spans(text, 2)]
    ['one two', 'three four', 'five']
    """
    words = [match.span() for match in re.finditer(r"\S+", text)]
    parts = [words[i : i + size] for i in range(0, len(words), size)]
    return [(part[0][0], part[-1][1]) for part in parts]


def make_splitter(split: Callable[[str], Sequence[str]], owner: str = "TextUnits") -> Splitter:
    """Return a function that locates the parts which a user's function returns.

    Parameters
    ----------
    split : callable
        From a text to its parts: strings that occur in the text, in this order.
    owner : str
        For errors.
    """

    def spans(text: str) -> Spans:
        found: Spans = []
        place = 0
        for part in split(text):
            start = text.find(part, place) if isinstance(part, str) else -1
            if start < 0:
                expected = "a function that returns parts of the text, in their order"
                raise parameter_error("unit", owner, expected, _shortened(part))
            place = start + len(part)
            _append(found, text, start, place)
        return found

    return spans


def _append(spans: Spans, text: str, start: int, end: int) -> None:
    """Append a span without surrounding white space; nothing if it is empty."""
    part = text[start:end]
    if part.strip():
        left = len(part) - len(part.lstrip())
        spans.append((start + left, start + len(part.rstrip())))


def _shortened(part: Any) -> Any:
    return f"{part[:40]}…" if isinstance(part, str) and len(part) > 40 else part
