"""The parameter ``groups`` as numbers of columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any

import numpy as np

__all__ = ["named_groups"]


def named_groups(groups: Any, columns: Sequence[str], owner: str) -> dict[str, list[int]]:
    """Convert a mapping or a list of lists to ``{name: [column index, ...]}``.

    Parameters
    ----------
    groups : mapping or sequence of sequences
        Columns by name or index.
    columns : sequence of str
        Column names.
    owner : str
        Class or function with this parameter, for error messages.

    Examples
    --------
    >>> named_groups([["a", 2]], ("a", "b", "c"), "SUWRClassifier")
    {'a + 2': [0, 2]}
    """
    expected = (
        f"The 'groups' parameter of {owner} must be None, Patches, a mapping of names to columns, "
        "or a list of lists of columns."
    )
    if isinstance(groups, Mapping):
        items = list(groups.items())
    elif isinstance(groups, Sequence) and not isinstance(groups, str):
        if any(isinstance(g, str) or not isinstance(g, Sequence | np.ndarray) for g in groups):
            raise ValueError(f"{expected} Got {groups!r} instead.")
        items = [(" + ".join(str(c) for c in group), group) for group in groups]
    else:
        raise ValueError(f"{expected} Got {groups!r} instead.")
    position = {name: i for i, name in enumerate(columns)}
    named: dict[str, list[int]] = {}
    for name, members in items:
        if isinstance(members, str) or not isinstance(members, Sequence | np.ndarray):
            raise ValueError(f"{expected} Got {members!r} for the group {name!r} instead.")
        if len(members) == 0:
            raise ValueError(f"{expected} Got the empty group {name!r} instead.")
        numbers = []
        for member in members:
            if isinstance(member, Integral) and -len(columns) <= int(member) < len(columns):
                numbers.append(int(member) % len(columns))
            elif isinstance(member, str) and member in position:
                numbers.append(position[member])
            else:
                raise ValueError(
                    f"The 'groups' parameter of {owner} must name columns of X. "
                    f"Got {member!r} in the group {name!r} instead."
                )
        if len(set(numbers)) != len(numbers):
            raise ValueError(f"{expected} Got a column twice in the group {name!r} instead.")
        named[str(name)] = numbers
    return named
