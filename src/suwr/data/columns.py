"""Display names, units of measurement and category labels of columns, given by users."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from suwr._utils.text import check_unicode, plain_repr
from suwr._utils.validation import parameter_error
from suwr.data.encoding import TableEncoder
from suwr.data.parsing import EXPECTED, INVALID

__all__ = ["Column", "resolve_columns"]

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
            raise ValueError(
                f"The 'categories' parameter of Column must have at most {MAX_LABELLED} entries. "
                f"Got {len(self.categories)} instead."
            )
        for value, label in self.categories.items():
            if not _is_text(label, MAX_LABEL):
                raise ValueError(
                    f"The 'categories' parameter of Column must map {plain_repr(value)} to a "
                    f"non-empty str of at most {MAX_LABEL} characters. Got {label!r} instead."
                )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for model files; JSON has texts as keys."""
        labels = self.categories
        state = {
            "label": self.label,
            "unit": self.unit,
            "categories": None if labels is None else {str(v): text for v, text in labels.items()},
        }
        return {name: value for name, value in state.items() if value is not None}


def resolve_columns(columns: Any, encoder: TableEncoder, owner: str) -> dict[str, Column]:
    """Validate the parameter ``columns``; the keys of ``categories`` are parsed as cells are.

    Parameters
    ----------
    columns : mapping or None
        From column names to `Column` or to a mapping of its parameters.
    encoder : TableEncoder
    owner : str
        Name of the estimator, for errors.
    """
    if columns is None:
        return {}
    if not isinstance(columns, Mapping):
        raise parameter_error("columns", owner, "None or a mapping from column names", columns)
    codes = dict(zip(encoder.names, encoder.codes, strict=True))
    resolved = {}
    for name, given in columns.items():
        if not isinstance(name, str) or name not in codes:
            raise ValueError(
                f"The 'columns' parameter of {owner} must have names of columns as keys. "
                f"Got {plain_repr(name)} instead."
            )
        column = _read_column(name, given, owner)
        check_unicode(
            [column.label, column.unit, *(column.categories or {}).values()],
            f"Texts of column {name!r} in the 'columns' parameter",
        )
        resolved[name] = Column(
            column.label, column.unit, _parse_categories(column, codes[name], name, owner)
        )
    labels: dict[str, str] = {}
    for name in encoder.names:
        label = resolved[name].label if name in resolved else None
        other = labels.setdefault(label or name, name)
        if other != name:
            raise ValueError(
                f"The 'columns' parameter of {owner} must give every column its own label. "
                f"Got {label or name!r} for {other!r} and {name!r}."
            )
    return resolved


def _read_column(name: str, given: Any, owner: str) -> Column:
    if isinstance(given, Column):
        return given
    known = [field.name for field in fields(Column)]
    if not isinstance(given, Mapping) or not set(given) <= set(known):
        raise ValueError(
            f"The 'columns' parameter of {owner} must map {name!r} to a Column or to a mapping "
            f"with the keys {', '.join(map(repr, known))}. Got {given!r} instead."
        )
    return Column(**given)


def _parse_categories(column: Column, code: Any, name: str, owner: str) -> dict[Any, str] | None:
    if column.categories is None:
        return None
    parsed = {}
    for value, label in column.categories.items():
        read = code.parse(value)
        if read is INVALID or read is None:
            raise ValueError(
                f"The 'columns' parameter of {owner} must label values of column {name!r}, each "
                f"{EXPECTED[code.type]}. Got {plain_repr(value)} instead."
            )
        parsed[read] = label
    return parsed


def _is_text(value: Any, longest: int) -> bool:
    return isinstance(value, str) and len(value.strip()) > 0 and len(value) <= longest
