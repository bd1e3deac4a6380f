"""Formatting of names, probabilities and revealed values as text."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

# Control characters, bidirectional controls, invisible characters and lone surrogates; format.js of
# the HTML page has the same list. Zero-width joiners are absent: Persian and emoji need them.
_UNPRINTABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff"
    "\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)


def printable(value: Any, keep: str = "") -> str:
    r"""Return a name or value from the data as text that is safe to display.

    Control characters, which could move the cursor of a terminal, and bidirectional controls, which
    could reorder a line, are shown as escapes.

    Parameters
    ----------
    value : Any
        Converted by ``str``.
    keep : str, default=""
        Characters that are not escaped, such as the line breaks of a whole text.

    Examples
    --------
    >>> print(printable("red\x1b[31m\u202eeulb"))
    red\x1b[31m\u202eeulb
    >>> print(printable("two\nlines"))
    two\x0alines
    """
    return _UNPRINTABLE.sub(lambda m: m[0] if m[0] in keep else _escape(m[0]), str(value))


def _escape(character: str) -> str:
    number = ord(character)
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def plain_repr(value: Any) -> str:
    """Return the ``repr`` of a value for an error message, without the types of NumPy.

    Examples
    --------
    >>> import numpy as np
    >>> plain_repr(np.str_("a")), plain_repr((np.float64(0.5), 2))
    ("'a'", '(0.5, 2)')
    """
    if type(value) in (tuple, list):
        parts = ", ".join(map(plain_repr, value))
        if type(value) is list:
            return f"[{parts}]"
        return f"({parts},)" if len(value) == 1 else f"({parts})"
    if type(value).__module__ == "numpy" and getattr(value, "ndim", None) == 0:
        return repr(value.item())
    return repr(value)


def check_unicode(values: Iterable[Any], what: str) -> None:
    r"""Raise a ``ValueError`` for strings with lone surrogates, which no file can hold.

    Examples
    --------
    >>> check_unicode(["age", 7, "caf\xe9"], "Column names")
    >>> check_unicode(["a\udc80"], "Column names")
    Traceback (most recent call last):
    ValueError: Column names must be valid Unicode. Got 'a\udc80' instead, with a lone surrogate.
    """
    for value in values:
        if isinstance(value, str) and not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                raise ValueError(
                    f"{what} must be valid Unicode. Got {value[:80]!r} instead, with a lone "
                    "surrogate."
                ) from None


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Return ' Did you mean …?' for a name that is like one of the known ones, otherwise ''.

    Examples
    --------
    >>> did_you_mean("agee", ["age", "sex"]), did_you_mean("income", ["age", "sex"])
    (" Did you mean 'age'?", '')
    """
    alike = difflib.get_close_matches(str(name), list(known), n=1)
    return f" Did you mean {printable(alike[0])!r}?" if alike else ""


def counted(n: int, noun: str) -> str:
    """Return a number with a noun that has a regular plural.

    Examples
    --------
    >>> counted(1, "row"), counted(1200, "row")
    ('1 row', '1,200 rows')
    """
    return f"{n} {noun}" if n == 1 else f"{n:,} {noun}s"


def percent(p: float) -> str:
    """Format a probability; '0 %' and '100 %' are exact to six decimals.

    Single precision rounds probabilities so close to 0 and 1 that the page, which computes in
    double precision, would word them otherwise.

    Examples
    --------
    >>> [percent(p) for p in (0.5, 0.001, 0.9999, 1.0)]
    ['50 %', 'under 1 %', 'over 99 %', '100 %']
    >>> percent(0.005), percent(0.125)
    ('1 %', '13 %')
    """
    if 1e-6 < p < 0.005:
        return "under 1 %"
    if 0.995 <= p < 1.0 - 1e-6:
        return "over 99 %"
    # Round half up, as JavaScript does on the HTML page; Python rounds half to even.
    hundred = 100 * float(p)
    whole = math.floor(hundred)
    return f"{whole + (hundred - whole >= 0.5)} %"


def percent_of(label: str, p: float) -> str:
    """Format a class label and its probability, in parentheses if the label ends in a digit.

    Examples
    --------
    >>> percent_of("benign", 0.65), percent_of("1", 0.65)
    ('benign 65 %', '1 (65 %)')
    """
    # Digits of ASCII, as on the HTML page.
    ends_in_digit = re.search(r"[0-9]\Z", label)
    return f"{label} ({percent(p)})" if ends_in_digit else f"{label} {percent(p)}"


def percent_of_stop(p: float) -> str:
    """Format a stop probability, which is neither 0 nor 1, however it is rounded.

    Examples
    --------
    >>> percent_of_stop(0.9), percent_of_stop(1.0)
    ('90 %', 'over 99 %')
    """
    return percent(min(max(p, 0.001), 0.999))


def format_number(value: float, digits: int) -> str:
    """Format a number with some significant digits, as people write it.

    Thousands are separated from 10,000 on. Numbers of at least 10¹⁵ and below 10⁻⁴ have exponents.

    Examples
    --------
    >>> [format_number(v, 4) for v in (412_345.6, 1234.5, -20_000, 0.00012345, 1e-5, 2e15)]
    ['412,300', '1234', '-20,000', '0.0001234', '1e-05', '2e+15']
    """
    text = f"{value + 0.0:.{digits}g}"  # without the sign of -0.0
    if "e+" in text:
        text = f"{float(text):.0f}" if abs(float(text)) < 1e15 else text
    return _group(text)


def format_exactly(value: float) -> str:
    """Format a number with as many digits as distinguish it from any other.

    Examples
    --------
    >>> [format_exactly(v) for v in (0.1, -20_000.0, 1234567.5, 1e-300, 2**53)]
    ['0.1', '-20,000', '1,234,567.5', '1e-300', '9,007,199,254,740,992']
    """
    text = str(value) if isinstance(value, int) else repr(float(value) + 0.0)  # no -0.0
    return _group(text.removesuffix(".0"))


def plain_decimal(value: float) -> str:
    """Return a number without an exponent, which reads as the same number.

    The expressions of survey tools have no exponents: neither XPath 1.0 nor SurveyJS knows them.

    Examples
    --------
    >>> [plain_decimal(v) for v in (0.5, -3.0, 1e-7, 1.5e21, 0.1 + 0.2)]
    ['0.5', '-3', '0.0000001', '1500000000000000000000', '0.30000000000000004']
    """
    text = f"{Decimal(repr(float(value) + 0.0)):f}"  # without the sign of -0.0
    return text.removesuffix(".0")


def align_columns(lines: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table as text, with cells of equal width in each column.

    Examples
    --------
    >>> align_columns([("name", "n"), ("a", "12")])
    ['name  n', 'a     12']
    """
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]


def format_alike(values: Sequence[float], digits: int) -> list[str]:
    """Format numbers as `format_number` does, all to the last decimal place of the first one.

    Examples
    --------
    >>> format_alike([0.1178, 0.07146, 0.16412, 0.054], 4)
    ['0.1178', '0.0715', '0.1641', '0.0540']
    >>> format_alike([11_912.3, 9752.1, 14_072.0], 4)
    ['11,910', '9,750', '14,070']
    """
    first = abs(values[0])
    if not (1e-4 <= first < 1e15 and all(abs(v) < 1e15 for v in values)):
        return [format_number(v, digits) for v in values]
    place = digits - 1 - math.floor(math.log10(float(f"{first:.{digits}g}")))
    shown = [f"{round(v, place) + 0.0:.{max(place, 0)}f}" for v in values]
    if first < 10_000:
        return [_group(text) for text in shown]
    return [f"{int(text):,}" for text in shown]


def _group(text: str) -> str:
    """Separate the thousands of a number of at least five digits before the point."""
    whole, point, rest = text.partition(".")
    if len(whole.lstrip("-")) < 5 or not whole.lstrip("-").isdigit():
        return text
    return f"{int(whole):,}{point}{rest}"


def format_label(label: Any) -> str:
    """Format a class label; whole numbers are written without '.0'.

    Examples
    --------
    >>> [format_label(label) for label in (0.0, 1, True, "yes", 0.5)]
    ['0', '1', 'True', 'yes', '0.5']
    """
    if isinstance(label, float) and label.is_integer() and abs(label) < 2**53:
        return str(int(label))
    return printable(label)


def format_value(value: Any) -> str:
    """Format a revealed value; None is 'missing'.

    Examples
    --------
    >>> [format_value(v) for v in (None, 1.23456789, 1234567.0, "red")]
    ['missing', '1.23457', '1,234,567', 'red']
    """
    if value is None:
        return "missing"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return printable(value)
    if isinstance(value, int):
        # The page cannot represent larger integers exactly.
        return _group(str(value)) if abs(value) < 2**53 else str(value)
    # As in `suwr.data.frame.Table.value`: floats beyond 2**53 are not exact integers.
    if value.is_integer() and abs(value) < 2**53:
        return _group(str(int(value)))
    return format_number(value, 6)
