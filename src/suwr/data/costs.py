"""Costs of units, and set-up costs: what the first of several units costs in addition.

A blood draw is paid for once; every test of the same sample costs only its own analysis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suwr._utils.validation import Interval, parameter_error

__all__ = ["Setups", "resolve_costs", "resolve_setups"]


@dataclass(frozen=True)
class Setups:
    """Set-up costs of disjoint sets of units.

    Attributes
    ----------
    names : tuple of str
    costs : ndarray of float, shape (n_setups,)
    of_unit : ndarray of int, shape (n_units,)
        The set-up that each unit needs; -1 is none.

    Examples
    --------
    >>> from suwr.data.costs import resolve_setups
    >>> setups = resolve_setups({"draw": (5, ["s1", "s2"])}, ("age", "s1", "s2"), "SUWRClassifier")
    >>> setups.of_unit.tolist()
    [-1, 0, 0]
    >>> setups.cost_of(np.array([[2, 1, 0], [0, -1, -1]])).tolist()
    [5.0, 0.0]
    """

    names: tuple[str, ...]
    costs: NDArray[np.float64]
    of_unit: NDArray[np.intp]

    def cost_of(self, units: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return the set-up costs of the units of each row, ``(n, k)``; -1 is no unit."""
        needed = np.where(units >= 0, self.of_unit[np.maximum(units, 0)], -1)
        paid = [(needed == number).any(axis=1) for number in range(len(self.costs))]
        return np.stack(paid, axis=1) @ self.costs


def resolve_setups(setup_costs: Any, names: Sequence[str], owner: str) -> Setups | None:
    """Resolve the ``setup_costs`` parameter of an estimator.

    Parameters
    ----------
    setup_costs : mapping of str to (float, list of str), or None
        From the name of a set-up to its cost and to the units that need it.
    names : sequence of str
        Names of all units.
    owner : str
        Class with this parameter, for error messages.
    """
    if setup_costs is None:
        return None
    expected = "None, or a mapping of names to (cost, list of units)"
    if not isinstance(setup_costs, Mapping):
        raise parameter_error("setup_costs", owner, expected, setup_costs)
    position = {name: i for i, name in enumerate(names)}
    of_unit, costs = np.full(len(names), -1), []
    for number, (name, entry) in enumerate(setup_costs.items()):
        if not isinstance(entry, Sequence) or isinstance(entry, str) or len(entry) != 2:
            raise parameter_error("setup_costs", owner, expected, {name: entry})
        cost, units = entry
        if cost not in Interval(Real, 0) or isinstance(units, str) or not len(units):
            raise parameter_error("setup_costs", owner, expected, {name: entry})
        for unit in units:
            if unit not in position:
                raise parameter_error("setup_costs", owner, "a mapping to units", unit)
            if of_unit[position[unit]] >= 0:
                raise ValueError(
                    f"The 'setup_costs' parameter of {owner} must not have a unit twice. "
                    f"Got {unit!r} in {list(setup_costs)[of_unit[position[unit]]]!r} and {name!r}."
                )
            of_unit[position[unit]] = number
        costs.append(float(cost))
    if not costs:
        return None
    return Setups(tuple(map(str, setup_costs)), np.array(costs), of_unit)


def resolve_costs(costs: Any, names: tuple[str, ...], owner: str) -> NDArray[np.float64]:
    """Resolve the ``costs`` parameter of an estimator; see `suwr.data.units.resolve_units`."""
    if costs is None:
        return np.ones(len(names))
    if isinstance(costs, Mapping):
        known = set(names)
        unknown = [name for name in costs if name not in known]
        if unknown:
            raise ValueError(
                f"The 'costs' parameter of {owner} must name units. "
                f"Got {unknown[0]!r} instead; units are {_shorten(names)}."
            )
        values = [costs.get(name, 1.0) for name in names]
    else:
        values = costs
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"The 'costs' parameter of {owner} must hold numbers. Got {costs!r} instead."
        ) from None
    if array.shape != (len(names),):
        raise ValueError(
            f"The 'costs' parameter of {owner} must hold one cost per unit, {len(names)} in all. "
            f"Got shape {array.shape} instead."
        )
    bad = ~(np.isfinite(array) & (array >= 0))
    if bad.any():
        first = int(np.flatnonzero(bad)[0])
        raise ValueError(
            f"The 'costs' parameter of {owner} must hold finite numbers of at least 0. "
            f"Got {array[first]} for {names[first]!r} instead."
        )
    return array


def _shorten(names: Sequence[str], most: int = 8) -> str:
    """List the first few names."""
    shown = ", ".join(repr(n) for n in names[:most])
    return shown if len(names) <= most else f"{shown}, … ({len(names)} in all)"
