"""How columns and values are worded: names given by users, descriptions, questions, unusual values.

A value is described by constants of its column alone: its label and unit of measurement, and where
it lies among the training values. format.js of the HTML page has the same wording.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suwr._utils.text import (
    check_unicode,
    counted,
    did_you_mean,
    format_label,
    format_number,
    format_value,
    plain_repr,
    printable,
)
from suwr._utils.validation import must_error, parameter_error, warn_caller
from suwr.data.encode import (
    FAR,
    MAX_CATEGORIES,
    MAX_SUMMARIES,
    N_QUANTILES,
    ColumnCode,
    TableEncoder,
)
from suwr.data.frame import Table
from suwr.data.parse import EXPECTED, INVALID
from suwr.data.units import Patches, Units
from suwr.exceptions import UnusualValueWarning

# Text that a narrative repeats must be short; model files may come from anywhere.
MAX_LABEL, MAX_UNIT, MAX_LABELLED = 200, 40, 1_000


@dataclass(frozen=True)
class Column:
    """How a column is shown in narratives, plots, pages and questions.

    Parameters
    ----------
    label : str, optional
        Display name; the name of the column by default.
    unit : str, optional
        Unit of measurement, written after numbers.
    categories : mapping, optional
        From values of the column to the text that is shown instead.

    Examples
    --------
    >>> Column("Body mass index", unit="kg/m²")
    Column(label='Body mass index', unit='kg/m²', categories=None)
    >>> Column(categories={0: "no", 1: "yes"}).label is None
    True
    """

    label: str | None = None
    unit: str | None = None
    categories: Mapping[Any, str] | None = None

    def __post_init__(self) -> None:
        for name, longest in (("label", MAX_LABEL), ("unit", MAX_UNIT)):
            value = getattr(self, name)
            if value is not None and not _is_text(value, longest):
                expected = f"a non-empty str of at most {longest} characters, or None"
                raise parameter_error(name, "Column", expected, value)
        if self.categories is None:
            return
        if not isinstance(self.categories, Mapping):
            raise parameter_error(
                "categories", "Column", "a mapping from values to texts", self.categories
            )
        if len(self.categories) > MAX_LABELLED:
            must = f"have at most {MAX_LABELLED} entries"
            raise must_error("categories", "Column", must, str(len(self.categories)))
        for value, label in self.categories.items():
            if not _is_text(label, MAX_LABEL):
                expected = f"a non-empty str of at most {MAX_LABEL} characters"
                must = f"map {plain_repr(value)} to {expected}"
                raise must_error("categories", "Column", must, repr(label))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for model files; JSON has texts as keys."""
        labels = self.categories
        state = {
            "label": self.label,
            "unit": self.unit,
            "categories": None if labels is None else {str(v): text for v, text in labels.items()},
        }
        return {name: value for name, value in state.items() if value is not None}


def resolve_columns(
    columns: Any,
    encoder: TableEncoder,
    owner: str,
    target: str | None = None,
    classes: Sequence[Any] | None = None,
) -> dict[str, Column]:
    """Validate the parameter ``columns``; the keys of ``categories`` are parsed as cells are.

    Parameters
    ----------
    columns : mapping or None
        From column names to `Column` or to a mapping of its parameters.
    encoder : TableEncoder
    owner : str
        Name of the estimator, for errors.
    target : str, optional
        Name of the target, which may be described too.
    classes : sequence, optional
        Its classes: the keys of ``categories`` are some of them, or their texts.
    """
    if columns is None:
        return {}
    if not isinstance(columns, Mapping):
        raise parameter_error("columns", owner, "None or a mapping from column names", columns)
    codes = dict(zip(encoder.names, encoder.codes, strict=True))
    resolved = {}
    for name, given in columns.items():
        if not isinstance(name, str) or (name not in codes and name != target):
            hint = did_you_mean(name, codes)
            raise must_error(
                "columns", owner, "have names of columns as keys", plain_repr(name), hint
            )
        column = _read_column(name, given, owner)
        check_unicode(
            [column.label, column.unit, *(column.categories or {}).values()],
            f"Texts of column {name!r} in the 'columns' parameter",
        )
        if name in codes:
            categories = _parse_categories(column, codes[name], name, owner)
        else:
            categories = _read_classes(column, classes or (), name, owner)
        resolved[name] = Column(column.label, column.unit, categories)
    labels: dict[str, str] = {}
    for name in encoder.names:
        label = resolved[name].label if name in resolved else None
        other = labels.setdefault(label or name, name)
        if other != name:
            got = f"{label or name!r} for {other!r} and {name!r}"
            raise must_error("columns", owner, "give every column its own label", got)
    return resolved


def _read_column(name: str, given: Any, owner: str) -> Column:
    if isinstance(given, Column):
        return given
    known = [field.name for field in fields(Column)]
    if not isinstance(given, Mapping) or not set(given) <= set(known):
        keys = ", ".join(map(repr, known))
        must = f"map {name!r} to a Column or to a mapping with the keys {keys}"
        raise must_error("columns", owner, must, repr(given))
    return Column(**given)


def _parse_categories(column: Column, code: Any, name: str, owner: str) -> dict[Any, str] | None:
    if column.categories is None:
        return None
    parsed = {}
    for value, label in column.categories.items():
        read = code.parse(value)
        if read is INVALID or read is None:
            must = f"label values of column {name!r}, each {EXPECTED[code.type]}"
            raise must_error("columns", owner, must, plain_repr(value))
        parsed[read] = label
    return parsed


def _read_classes(
    column: Column, classes: Sequence[Any], name: str, owner: str
) -> dict[Any, str] | None:
    # In JSON, which model files are, keys are texts.
    known = {str(label): label for label in classes}
    for value in column.categories or ():
        if str(value) not in known:
            raise ValueError(
                f"The 'columns' parameter of {owner} must label classes of {name!r}: "
                f"{', '.join(map(plain_repr, classes))}. Got {plain_repr(value)} instead."
            )
    return {known[str(value)]: text for value, text in (column.categories or {}).items()} or None


def _is_text(value: Any, longest: int) -> bool:
    return isinstance(value, str) and len(value.strip()) > 0 and len(value) <= longest


# A unit may have hundreds of columns; show at most this many of them.
MAX_VALUES = 12
# Units with more columns are shown without the positions of their values.
MAX_POSITIONS = 4


@dataclass(frozen=True)
class ColumnDescription:
    """What is said about one column and its values.

    Attributes
    ----------
    label, unit : str or None
        As in `Column`.
    labels : tuple of (value, str)
        As the ``categories`` of `Column`.
    limits : tuple of float or None
        Smallest and largest training value of a numeric column.
    quantiles : tuple of float or None
        Quantiles 0, 0.05, …, 1 of the training values; None if they are few.
    categories : tuple or None
        The categories that have an encoding of their own; None for a numeric column.
    all_categories : bool
        Whether every category of the training data has an encoding of its own.
    """

    label: str | None = None
    unit: str | None = None
    labels: tuple[tuple[Any, str], ...] = ()
    limits: tuple[float, float] | None = None
    quantiles: tuple[float, ...] | None = None
    categories: tuple[Any, ...] | None = None
    all_categories: bool = True

    @classmethod
    def of(cls, code: ColumnCode, column: Column | None = None) -> ColumnDescription:
        """Describe a column by its encoding and what a user says about it."""
        column = Column() if column is None else column
        labels = tuple((column.categories or {}).items())
        summary, categories = code.summary, code.categories
        if categories is not None:
            complete = len(categories) < MAX_CATEGORIES
            return cls(column.label, column.unit, labels, None, None, categories, complete)
        if summary is None:
            return cls(column.label, column.unit, labels)
        quantiles = summary.quantiles if summary.values is None else None
        return cls(column.label, column.unit, labels, (summary.low, summary.high), quantiles)

    def value_text(self, value: Any) -> str:
        """Format a value with its unit of measurement, or the label of a category."""
        label = _find(self.labels, value)
        if label is not None:
            return printable(label)
        text = format_value(value)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return f"{text} {printable(self.unit)}" if number and self.unit is not None else text

    def unusual(self, value: Any) -> str:
        """Say how a value is unlike the training data; '' if it is not.

        Examples
        --------
        >>> ColumnDescription(limits=(17.0, 79.0)).unusual(200)
        'far above the training values, 17 to 79'
        >>> ColumnDescription(categories=("Oslo", "Rome")).unusual("Paris")
        'never seen in training: treated as any other'
        """
        if value is None:
            return ""
        if self.categories is not None:
            if value in self.categories:
                return ""
            seen = "never seen in training" if self.all_categories else "rare or never seen"
            return f"{seen}: treated as any other"
        if self.limits is None or not isinstance(value, int | float):
            return ""
        low, high = self.limits
        margin = FAR * (high - low)
        if low - margin <= value <= high + margin:
            return ""
        where = "far above" if value > high else "far below"
        return f"{where} the training values, {format_value(low)} to {format_value(high)}"

    def position(self, value: Any) -> str:
        """Say where a number lies among the training values; '' if that is not known.

        The shares are those of the quantiles, which are lower bounds: at least 60 % of the
        training values are smaller than a number above the quantile 0.6.

        Examples
        --------
        >>> column = ColumnDescription(quantiles=tuple(float(q) for q in range(21)))
        >>> column.position(12.5), column.position(21)
        ('above 60 % of the training values', 'above all training values')
        """
        if self.quantiles is None or not isinstance(value, int | float):
            return ""
        last = len(self.quantiles) - 1
        # The numbers of quantiles on either side, less one, in steps of 5 %.
        above = sum(q < value for q in self.quantiles) - 1
        below = sum(q > value for q in self.quantiles) - 1
        side, most = ("above", above) if above >= below else ("below", below)
        if most <= 0:
            return ""
        if most == last:
            return f"{side} all training values"
        return f"{side} {100 * most // last} % of the training values"

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that are not empty, as plain values."""
        found = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: found[name] for name in found if found[name] not in (None, (), True)}

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> ColumnDescription:
        """Create a description from the output of `to_dict`."""
        read = dict(state)
        labels = tuple((value, str(text)) for value, text in read.pop("labels", ()))
        numbers = {
            name: tuple(float(v) for v in read.pop(name))
            for name in ("limits", "quantiles")
            if name in read
        }
        if "categories" in read:
            read["categories"] = tuple(read["categories"])
        # Unknown names raise a TypeError; the types of the other values are not known to mypy.
        found = cls(**read, **numbers, labels=labels)  # type: ignore[arg-type]
        if len(found.limits or (0, 0)) != 2 or len(found.quantiles or [0] * 21) != N_QUANTILES:
            raise ValueError("The description of a column has a wrong number of values.")
        return found


@dataclass(frozen=True)
class TableDescription:
    """How the columns and units of a model are worded.

    Attributes
    ----------
    columns : dict of str to ColumnDescription
        Columns that are absent are shown as they are.
    units : dict of str to str
        Display names of units that are patches of an image.
    classes : tuple of (value, str)
        Class labels that are shown as another text.
    """

    columns: dict[str, ColumnDescription] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)
    classes: tuple[tuple[Any, str], ...] = ()

    def class_text(self, label: Any) -> str:
        """Return the display name of a class.

        Examples
        --------
        >>> TableDescription(classes=((1, "survived"),)).class_text(1.0)
        'survived'
        """
        found = _find(self.classes, label)
        return format_label(label) if found is None else printable(found)

    def class_texts(self, labels: Sequence[Any] | None) -> list[str] | None:
        """Return the display names of classes; None for None."""
        return None if labels is None else [self.class_text(label) for label in labels]

    def column(self, name: str) -> ColumnDescription:
        """Return the description of a column."""
        return self.columns.get(name, _PLAIN)

    def column_text(self, name: str) -> str:
        """Return the display name of a column."""
        return printable(self.column(name).label or name)

    def unit_text(self, name: str, columns: Sequence[str], *, short: bool = False) -> str:
        """Return the display name of a unit.

        Parameters
        ----------
        name : str
        columns : sequence of str
            The columns of the unit: a unit that is a column has its display name.
        short : bool, default=False
            Whether to name patches by their centre only.
        """
        if list(columns) == [name] and name not in self.units:
            return self.column_text(name)
        return printable(name if short else self.units.get(name, name))

    def step_label(self, step: Any) -> str:
        """Return the display names of the units of a step for a plot; patches have short names."""
        return " + ".join(
            self.unit_text(unit, list(values), short=True) for unit, values in step.revealed.items()
        )

    def note(self, name: str, value: Any, *, context: bool = True) -> str:
        """Say how a value is unlike the training data, or with ``context`` where it lies in it."""
        column = self.column(name)
        return column.unusual(value) or (column.position(value) if context else "")

    def revealed_text(
        self, revealed: Mapping[str, Mapping[str, Any]], *, context: bool = True
    ) -> str:
        """Format the units and values that a step reveals.

        Parameters
        ----------
        revealed : mapping
            As `Step.revealed`.
        context : bool, default=True
            Whether to say where numbers lie among the training values.

        Examples
        --------
        >>> age = ColumnDescription("Age", "years", limits=(17.0, 79.0))
        >>> revealed = {"age": {"age": 200}, "panel": {"a": 1, "b": None}}
        >>> TableDescription({"age": age}).revealed_text(revealed)
        'Age is 200 years (far above the training values, 17 to 79); panel: a is 1, b is missing'
        """
        return "; ".join(self._unit_fact(u, values, context) for u, values in revealed.items())

    def _unit_fact(self, unit: str, values: Mapping[str, Any], context: bool) -> str:
        label = self.unit_text(unit, list(values))
        if unit in self.units:
            return f"{label}: {_patch_fact(list(values.values()))}"
        shown = list(values.items())[:MAX_VALUES]
        context = context and len(values) <= MAX_POSITIONS
        facts = ", ".join(self._column_fact(name, value, context) for name, value in shown)
        if len(values) > MAX_VALUES:
            facts += f", … ({len(values)} columns)"
        return facts if list(values) == [unit] else f"{label}: {facts}"

    def _column_fact(self, name: str, value: Any, context: bool) -> str:
        note = self.note(name, value, context=context)
        fact = f"{self.column_text(name)} is {self.column(name).value_text(value)}"
        return f"{fact} ({note})" if note else fact

    def restrict(self, narratives: Iterable[Any]) -> TableDescription:
        """Return what the text of some narratives needs, and nothing else about the training data.

        Parameters
        ----------
        narratives : iterable of Narrative
        """
        values: dict[str, list[Any]] = {}
        units = set()
        for narrative in narratives:
            for step in narrative.steps:
                units.update(step.units)
                for name, value in step.values.items():
                    values.setdefault(name, []).append(value)
        columns = {
            name: _restrict_categories(column, values[name])
            for name, column in self.columns.items()
            if name in values
        }
        shown = {u: t for u, t in self.units.items() if u in units}
        return TableDescription(columns, shown, self.classes)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can represent."""
        columns = {name: column.to_dict() for name, column in self.columns.items()}
        state = {"columns": columns, "units": dict(self.units)}
        return state | ({"classes": [list(pair) for pair in self.classes]} if self.classes else {})

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> TableDescription:
        """Create a description from the output of `to_dict`."""
        columns = {
            str(name): ColumnDescription.from_dict(column)
            for name, column in dict(state["columns"]).items()
        }
        classes = tuple((label, str(text)) for label, text in state.get("classes", ()))
        return cls(columns, {str(u): str(t) for u, t in dict(state["units"]).items()}, classes)


_PLAIN = ColumnDescription()
#: Describes no column: everything is shown as it is.
NO_DESCRIPTION = TableDescription()


def describe_table(
    encoder: TableEncoder,
    units: Units,
    groups: Any,
    columns: Mapping[str, Column],
    target: str | None = None,
    classes: Sequence[Any] | None = None,
) -> TableDescription:
    """Describe the columns, units and classes of a fitted model.

    Parameters
    ----------
    encoder : TableEncoder
    units : Units
    groups : Patches or object
        The parameter ``groups`` of the estimator.
    columns : mapping of str to Column
        See `suwr.data.descriptions.resolve_columns`; of the target, too.
    target : str, optional
        Name of the target: classes that are numbers or booleans are shown with it.
    classes : sequence, optional
    """
    known = zip(encoder.names, encoder.codes, strict=True)
    if len(encoder.codes) > MAX_SUMMARIES:
        # Without the summaries that model files do not have.
        described = {
            name: ColumnDescription.of(ColumnCode(categories=code.categories), columns.get(name))
            for name, code in known
        }
    else:
        described = {n: ColumnDescription.of(code, columns.get(n)) for n, code in known}
    patches = groups.labels if isinstance(groups, Patches) else ()
    labels = dict(zip(units.names, patches, strict=True)) if patches else {}
    described = {n: d for n, d in described.items() if d != _PLAIN}
    return TableDescription(described, labels, _class_texts(columns, target, classes or ()))


def _class_texts(
    columns: Mapping[str, Column], target: str | None, classes: Sequence[Any]
) -> tuple[tuple[Any, str], ...]:
    """The classes that are shown as another text: by `Column.categories`, or as 'target = 1'."""
    if target is None:
        return ()
    column = columns.get(target, Column())
    texts = tuple((column.categories or {}).items())
    if any(isinstance(label, str) for label in classes):
        return texts
    name = column.label or target
    named = [(label, f"{name} = {format_label(label)}") for label in classes]
    return texts + tuple(pair for pair in named if _find(texts, pair[0]) is None)


def _find(labels: Sequence[tuple[Any, str]], value: Any) -> str | None:
    return next((label for known, label in labels if known == value), None)


def _patch_fact(values: Sequence[Any]) -> str:
    """Describe the pixels of a patch by their mean."""
    numbers = [v for v in values if isinstance(v, int | float)]
    if len(values) == 1 or len(numbers) < sum(v is not None for v in values):
        return ", ".join(format_value(value) for value in values[:MAX_VALUES])
    if not numbers:
        return "missing"
    total = 0.0
    for number in numbers:
        total += number
    return f"mean value {format_number(total / len(numbers), 3)}"


def _restrict_categories(column: ColumnDescription, values: Sequence[Any]) -> ColumnDescription:
    if column.categories is None:
        return column
    shown = set(values)
    return replace(column, categories=tuple(c for c in column.categories if c in shown))


# Values that a warning quotes.
_MAX_QUOTED = 3


@dataclass(frozen=True)
class UnusualValue:
    """A revealed value that the training data does not cover.

    Attributes
    ----------
    row : int or str
        Position of the row, or its label.
    column : str
    value : object
    reason : str
    """

    row: int | str
    column: str
    value: Any
    reason: str

    def __str__(self) -> str:
        value = format_value(self.value)
        return f"row {printable(self.row)}: {self.column} is {value} ({self.reason})"


def find_unusual(
    encoder: TableEncoder, table: Table, mask: NDArray[np.bool_]
) -> list[UnusualValue]:
    """Return the revealed values that are far outside the training range, or unknown categories.

    Parameters
    ----------
    encoder : TableEncoder
    table : Table
        Parsed by the encoder.
    mask : ndarray of bool, shape (n_rows, n_columns)
        The revealed cells; no other cell is read.
    """
    found: list[tuple[int, UnusualValue]] = []
    for number in np.flatnonzero(mask.any(axis=0)).tolist():
        name, code = encoder.names[number], encoder.codes[number]
        described = ColumnDescription.of(code)
        for row in _unusual_rows(code, table.columns[number], np.flatnonzero(mask[:, number])):
            value = table.value(int(row), number)
            found.append((int(row), UnusualValue(int(row), name, value, described.unusual(value))))
    return [value for _, value in sorted(found, key=lambda pair: pair[0])]


def warn_unusual(
    encoder: TableEncoder,
    table: Table,
    mask: NDArray[np.bool_],
    owner: str,
    labels: Sequence[int | str],
) -> None:
    """Warn about the values that `find_unusual` returns.

    Parameters
    ----------
    encoder, table, mask
        As in `find_unusual`.
    owner : str
        The method that was called, for the message.
    labels : sequence
        One label per row.
    """
    found = find_unusual(encoder, table, mask)
    if found:
        first = [replace(v, row=labels[int(v.row)]) for v in found[:_MAX_QUOTED]]
        quoted = "; ".join(map(str, first))
        more = f"; and {len(found) - _MAX_QUOTED} more" if len(found) > _MAX_QUOTED else ""
        warn_caller(
            f"{owner} used {counted(len(found), 'value')} unlike the training data: "
            f"{quoted}{more}.",
            UnusualValueWarning,
        )


def _unusual_rows(
    code: ColumnCode, column: NDArray[Any], revealed: NDArray[np.intp]
) -> Sequence[Any] | NDArray[np.intp]:
    if code.categories is not None:
        known = frozenset(code.categories)
        return [r for r in revealed if column[r] is not None and column[r] not in known]
    if code.summary is None:
        return []
    low, high = code.summary.usual_range
    values = column[revealed]
    # Comparisons with NaN, a missing value, are false.
    return revealed[(values < low) | (values > high)]
