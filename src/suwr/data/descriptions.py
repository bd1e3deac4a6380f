"""How columns, units and revealed values are worded in narratives.

A value is described by constants of its column alone: its label and unit of measurement, and where
it lies among the training values. format.js of the HTML page has the same wording.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from suwr._utils.text import format_number, format_value, printable
from suwr.data.columns import Column
from suwr.data.encoding import MAX_CATEGORIES, MAX_SUMMARIES, ColumnCode, TableEncoder
from suwr.data.summary import FAR, N_QUANTILES
from suwr.data.units import Patches, Units

__all__ = ["NO_DESCRIPTION", "ColumnDescription", "TableDescription", "describe_table"]

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
    """

    columns: dict[str, ColumnDescription] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)

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
        return TableDescription(columns, {u: t for u, t in self.units.items() if u in units})

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can represent."""
        columns = {name: column.to_dict() for name, column in self.columns.items()}
        return {"columns": columns, "units": dict(self.units)}

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> TableDescription:
        """Create a description from the output of `to_dict`."""
        columns = {
            str(name): ColumnDescription.from_dict(column)
            for name, column in dict(state["columns"]).items()
        }
        return cls(columns, {str(u): str(t) for u, t in dict(state["units"]).items()})


_PLAIN = ColumnDescription()
#: Describes no column: everything is shown as it is.
NO_DESCRIPTION = TableDescription()


def describe_table(
    encoder: TableEncoder, units: Units, groups: Any, columns: Mapping[str, Column]
) -> TableDescription:
    """Describe the columns and units of a fitted model.

    Parameters
    ----------
    encoder : TableEncoder
    units : Units
    groups : Patches or object
        The parameter ``groups`` of the estimator.
    columns : mapping of str to Column
        See `suwr.data.columns.resolve_columns`.
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
    return TableDescription({n: d for n, d in described.items() if d != _PLAIN}, labels)


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
