"""Set-up costs: what the first unit of a set of units costs in addition.

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

__all__ = ["Setups", "resolve_setups"]


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
    >>> from suwr.data.setups import resolve_setups
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
