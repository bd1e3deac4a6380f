"""Costs of units: per unit, per row, of a set-up, of a visit, or by a function of the mask.

A blood draw is paid for once; every test of the same sample costs only its own analysis. A visit is
paid for once per step, whatever the number of units that the step acquires.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from suwr._utils.text import did_you_mean
from suwr._utils.validation import Interval, check_fields, must_error, parameter, parameter_error
from suwr.data.frame import column_names, is_frame, select_columns

# Random masks on which a cost function is checked.
N_CHECKED = 16


@dataclass(frozen=True)
class Costs:
    """What costs what, for the ``costs`` parameter of an estimator.

    Parameters
    ----------
    units : None, mapping, array-like or callable, default=None
        Cost of each unit; 1 unless given. Or a function of the columns that a row has acquired,
        from a bool array of shape (m, d) to costs of shape (m, n_units); such a model cannot be
        saved.
    setup : None or mapping, default=None
        Costs that the first of several units has in addition, such as a blood draw:
        ``{"draw": (5.0, ["glucose", "insulin"])}``. Not with `Patches`.
    visit : float, default=0.0
        Cost of each step, in addition to those of its units.
    of : int, default=1
        Number of units that one step reveals: ``visit=3.0, of=2`` are visits of two units each.

    Examples
    --------
    >>> Costs({"age": 0.0}, setup={"draw": (5.0, ["glucose", "insulin"])}, visit=1.0, of=2)
    Costs(units={'age': 0.0}, setup={'draw': (5.0, ['glucose', 'insulin'])}, visit=1.0, of=2)
    """

    units: Mapping[str, float] | ArrayLike | Callable[..., Any] | None = None
    setup: Mapping[str, tuple[float, Sequence[str]]] | None = None
    visit: float = parameter(0.0, Interval(Real, 0))
    of: int = parameter(1, Interval(Integral, 1))

    def __post_init__(self) -> None:
        check_fields(self, "Costs")
        if hasattr(self.units, "__array__"):
            # Comparisons of arrays have no truth value.
            object.__setattr__(self, "units", np.asarray(self.units).tolist())
        if self.setup is not None:
            object.__setattr__(self, "setup", _read_setup(self.setup))
            if self.setup and callable(self.units):
                raise parameter_error("setup", "Costs", "None if 'units' is a function", self.setup)

    @classmethod
    def read(cls, costs: Any) -> Costs:
        """Return the ``costs`` parameter of an estimator, which may be the costs of units alone."""
        return costs if isinstance(costs, cls) else cls(costs)


def _read_setup(setup: Any) -> dict[str, tuple[float, list[str]]]:
    expected = "None, or a mapping of names to (cost, list of units)"
    if not isinstance(setup, Mapping):
        raise parameter_error("setup", "Costs", expected, setup)
    read: dict[str, tuple[float, list[str]]] = {}
    setup_of: dict[str, str] = {}
    for name, entry in setup.items():
        if not isinstance(entry, Sequence) or isinstance(entry, str) or len(entry) != 2:
            raise parameter_error("setup", "Costs", expected, {name: entry})
        cost, units = entry
        if cost not in Interval(Real, 0) or isinstance(units, str) or not len(units):
            raise parameter_error("setup", "Costs", expected, {name: entry})
        for unit in units:
            if unit in setup_of:
                raise ValueError(
                    "The 'setup' parameter of Costs must not have a unit twice. "
                    f"Got {unit!r} in {setup_of[unit]!r} and {name!r}."
                )
            setup_of[unit] = str(name)
        read[str(name)] = (float(cost), list(units))
    return read


def check_unit_costs(costs: Any, owner: str) -> None:
    """Raise a ``ValueError`` unless ``costs`` are constant costs of units and nothing else."""
    if callable(costs) or isinstance(costs, Costs):
        raise parameter_error("costs", owner, "None, a mapping or an array", costs)


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
    >>> setups = resolve_setups({"draw": (5.0, ["s1", "s2"])}, ("age", "s1", "s2"))
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


@dataclass(frozen=True)
class CostFunction:
    """Costs of all units as a function of the columns that were acquired before.

    Attributes
    ----------
    function : callable
        From a mask, bool of shape (m, n_columns), to costs, of shape (m, n_units).
    n_units, n_columns : int
    owner : str
        Class with the parameter ``costs``, for error messages.

    Examples
    --------
    >>> from suwr.data.costs import CostFunction
    >>> half_price = CostFunction(lambda mask: 2.0 - mask.any(axis=1, keepdims=True) * [1, 1], 2, 2)
    >>> half_price(np.array([[False, False], [True, False]])).tolist()
    [[2.0, 2.0], [1.0, 1.0]]
    """

    function: Callable[[NDArray[np.bool_]], Any]
    n_units: int
    n_columns: int
    owner: str = "SUWRClassifier"

    def __call__(self, acquired: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return the costs of all units, ``(m, n_units)``."""
        mask = acquired.copy()
        mask.flags.writeable = False
        found = self.function(mask)
        expected = f"a function that returns an array of shape ({len(mask)}, {self.n_units})"
        try:
            costs = np.array(found, dtype=np.float64)
        except (TypeError, ValueError):
            raise parameter_error("costs", self.owner, expected, type(found).__name__) from None
        if costs.shape != (len(mask), self.n_units):
            raise parameter_error("costs", self.owner, expected, f"shape {costs.shape}")
        wrong = ~(np.isfinite(costs) & (costs >= 0))
        if wrong.any():
            expected = "a function that returns finite numbers of at least 0"
            raise parameter_error("costs", self.owner, expected, float(costs[wrong][0]))
        return costs

    def check(self) -> None:
        """Raise a ``ValueError`` unless the costs of a mask depend on this mask only."""
        rng = np.random.RandomState(0)
        masks = rng.rand(N_CHECKED, self.n_columns) < rng.rand(N_CHECKED, 1)
        alone = np.concatenate([self(masks[i : i + 1]) for i in range(N_CHECKED)])
        if not (np.array_equal(self(masks), alone) and np.array_equal(self(masks), alone)):
            raise ValueError(
                f"The 'costs' parameter of {self.owner} must be a function of each mask. Got other "
                "costs for masks that are passed together, or passed again."
            )

    def cost_of(
        self,
        units: NDArray[np.intp],
        membership: NDArray[np.bool_],
        known: NDArray[np.bool_] | None = None,
    ) -> NDArray[np.float64]:
        """Return the cost of units ``(n, k)`` that are acquired in this order; -1 is no unit.

        Columns ``known`` ``(n, n_columns)`` at the start are not acquired.
        """
        mask, total = np.zeros((len(units), self.n_columns), dtype=bool), np.zeros(len(units))
        for unit in units.T:
            taken, number = unit >= 0, np.maximum(unit, 0)
            paid = np.take_along_axis(self(mask), number[:, None], axis=1)[:, 0]
            total += np.where(taken, paid, 0.0)
            mask |= membership[number] & taken[:, None]
            mask = mask if known is None else mask & ~known
        return total


def read_row_costs(
    costs: Any, names: Sequence[str], n_rows: int, owner: str
) -> NDArray[np.float64]:
    """Read the costs of the units of each row, ``(n_rows, n_units)``.

    Parameters
    ----------
    costs : array-like of shape (n_rows, n_units) or (n_units,), or data frame
        The columns of a frame are matched with the units by name.
    names : sequence of str
        Names of all units.
    n_rows : int
    owner : str
        Method with this parameter, for error messages.

    Examples
    --------
    >>> from suwr.data.costs import read_row_costs
    >>> read_row_costs([[1, 2], [3, 4]], ("a", "b"), 2, "select").tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """
    expected = f"an array of shape ({n_rows}, {len(names)}), one cost per row and unit"
    if is_frame(costs):
        found = column_names(costs) or []
        if set(found) != set(names):
            differing = sorted(set(map(str, found)) ^ set(names))[0]
            must = "be a frame with one column per unit of the model"
            raise must_error("costs", owner, must, f"{differing!r} in only one of them")
        costs = select_columns(costs, list(names))
    shape = (n_rows, len(names))
    array = _read_numbers(costs, (shape, shape[1:]), owner, expected)
    array = np.broadcast_to(array, shape).copy()
    bad = np.argwhere(~(np.isfinite(array) & (array >= 0)))
    if len(bad):
        row, unit = bad[0]
        raise _wrong_cost(array[row, unit], f"{names[unit]!r} in row {row}", owner)
    return array


def _read_numbers(
    costs: Any, shapes: Sequence[tuple[int, ...]], owner: str, expected: str
) -> NDArray[np.float64]:
    try:
        array = np.asarray(costs, dtype=np.float64)
    except (TypeError, ValueError):
        raise parameter_error("costs", owner, expected, type(costs).__name__) from None
    if array.shape not in shapes:
        raise parameter_error("costs", owner, expected, f"shape {array.shape}")
    return array


def _wrong_cost(cost: float, where: str, owner: str) -> ValueError:
    return ValueError(
        f"The 'costs' parameter of {owner} must hold finite numbers of at least 0. "
        f"Got {cost} for {where} instead."
    )


def resolve_setups(
    setup: Mapping[str, tuple[float, Sequence[str]]] | None, names: Sequence[str]
) -> Setups | None:
    """Resolve the ``setup`` of `Costs` for the units with these names."""
    if not setup:
        return None
    position = {name: i for i, name in enumerate(names)}
    of_unit = np.full(len(names), -1)
    for number, (name, (_, units)) in enumerate(setup.items()):
        for unit in units:
            if unit not in position:
                raise parameter_error("setup", "Costs", "a mapping to units", unit)
            if of_unit[position[unit]] >= 0:
                other = list(setup)[of_unit[position[unit]]]
                got = f"{unit!r} in {other!r} and {name!r}"
                raise must_error("setup", "Costs", "not have a unit twice", got)
            of_unit[position[unit]] = number
    return Setups(tuple(setup), np.array([cost for cost, _ in setup.values()]), of_unit)


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
                f"{did_you_mean(unknown[0], names)}"
            )
        values = [costs.get(name, 1.0) for name in names]
    else:
        values = costs
    expected = f"one cost per unit, {len(names)} numbers in all"
    array = _read_numbers(values, [(len(names),)], owner, expected)
    bad = np.flatnonzero(~(np.isfinite(array) & (array >= 0)))
    if len(bad):
        raise _wrong_cost(array[bad[0]], repr(names[bad[0]]), owner)
    return array


def _shorten(names: Sequence[str], most: int = 8) -> str:
    """List the first few names."""
    shown = ", ".join(repr(n) for n in names[:most])
    return shown if len(names) <= most else f"{shown}, … ({len(names)} in all)"
