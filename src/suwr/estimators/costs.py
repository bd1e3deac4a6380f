"""The costs of estimators: their parameters, the costs of training rows, and what supports them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suwr._utils.validation import parameter_error
from suwr.data.costs import Visits, read_row_costs, resolve_costs
from suwr.data.units import Units, resolve_units
from suwr.exceptions import UnsupportedModelError
from suwr.nn.inputs import Budgets
from suwr.nn.step import Starts

__all__ = [
    "charge_rows", "check_plain_costs", "check_resumable_costs", "model_budgets",
    "read_training_costs", "resolve_model_units", "restore_units", "store_costs", "with_mean_costs",
]  # fmt: skip

FloatArray = NDArray[np.float64]


def resolve_model_units(model: Any, names: Sequence[str]) -> Units:
    """Resolve ``groups`` and the costs of an estimator.

    Parameters
    ----------
    model : TableModel
        Baselines have neither set-up costs, nor visits, nor functions as ``costs``.
    names : sequence of str
        Column names.
    """
    visits = None
    if hasattr(model, "visit_cost"):
        visits = Visits(float(model.visit_cost), int(model.units_per_step))
    setups = getattr(model, "setup_costs", None)
    return resolve_units(model.groups, model.costs, names, type(model).__name__, setups, visits)


def model_budgets(model: Any) -> Budgets | None:
    """Read the range of budgets ``max_cost`` of an estimator; None if it has none.

    Parameters
    ----------
    model : TableModel
        The ``max_cost`` of baselines is a number, and no range.
    """
    given, owner = getattr(model, "max_cost", None), type(model).__name__
    if given is None or not hasattr(model, "known_at_start"):
        return None
    expected = "None, or a range (low, high) of budgets with 0 < low < high"
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise parameter_error("max_cost", owner, expected, given)
    if not all(isinstance(end, Real) for end in given) or not 0 < given[0] < given[1] < np.inf:
        raise parameter_error("max_cost", owner, expected, tuple(given))
    if isinstance(model.sparsity_weight, tuple | list):
        expected = "None if 'sparsity_weight' is a range"
        raise parameter_error("max_cost", owner, expected, tuple(given))
    if model.units_per_step != 1:
        expected = "None if 'units_per_step' is not 1"
        raise parameter_error("max_cost", owner, expected, tuple(given))
    if model.trainer not in ("auto", "actor"):
        expected = f"None if trainer={model.trainer!r}"
        raise parameter_error("max_cost", owner, expected, tuple(given))
    return Budgets(float(given[0]), float(given[1]))


def charge_rows(
    units: Units, orders: Sequence[NDArray[np.intp]], starts: Starts | None
) -> FloatArray:
    """Return what the rows of consecutive chunks pay for the units that they acquired.

    Parameters
    ----------
    units : Units
    orders : sequence of ndarray of int, shape (n_rows of the chunk, n_steps, units_per_step)
    starts : Starts or None
        Of all rows.
    """
    parts, first = [], 0
    for order in orders:
        here = Starts() if starts is None else starts[first : first + len(order)]
        costs = None if here.costs is None else here.costs.double().cpu().numpy()
        known = None if here.known is None else here.known.cpu().numpy()
        parts.append(units.cost_of(order, costs, known))
        first += len(order)
    return np.concatenate(parts)


def read_training_costs(model: Any, units: Units, costs: Any, n_rows: int) -> FloatArray | None:
    """Read the argument ``costs`` of ``fit``, ``(n_rows, n_units)``; None without it."""
    if costs is None:
        return None
    if model.costs is not None:
        expected = "None if fit is given the costs of each row"
        raise parameter_error("costs", type(model).__name__, expected, model.costs)
    return read_row_costs(costs, units.names, n_rows, "fit")


def with_mean_costs(units: Units, costs: FloatArray, weight: FloatArray) -> Units:
    """Return units that cost the weighted mean of rows, for rows whose costs are not given."""
    return replace(units, costs=np.average(costs, axis=0, weights=weight), per_row=True)


def restore_units(model: Any, names: Sequence[str], stored: Any) -> Units:
    """Return the units of a model file, with the mean costs that it may contain."""
    units = resolve_model_units(model, names)
    if stored is None:
        return units
    if model.costs is not None:
        raise ValueError("The model must not have costs per unit and per row.")
    mean = resolve_costs(stored, units.names, type(model).__name__)
    return replace(units, costs=mean, per_row=True)


def check_resumable_costs(model: Any) -> None:
    """Raise an error for a checkpoint of a fit whose costs are a function."""
    if callable(model.costs):
        expected = "None if 'costs' is a function, which a resumed fit could not recognise"
        raise parameter_error("checkpoint", type(model).__name__, expected, model.checkpoint)


def store_costs(model: Any) -> dict[str, Any]:
    """Return the entries of a model file about costs, besides the parameters.

    Raises
    ------
    ValueError
        The costs are a function, which no file can hold.
    """
    if model.units_.function is not None:
        raise ValueError(
            "The model cannot be saved, because its 'costs' parameter is a function, and model "
            "files hold data, never code. Describe discounts by 'setup_costs' instead."
        )
    if not model.units_.per_row:
        return {}
    # An older suwr would charge 1 for every unit: it must refuse the file.
    return {"format": 2, "mean_costs": model.units_.costs.tolist()}


def check_plain_costs(model: Any) -> None:
    """Raise an error if costs depend on more than the units, for exports that ignore the rest."""
    found = {
        "'visit_cost'": model.units_.visits,
        "a function as 'costs'": model.units_.function,
        "'max_cost'": model.policy_.inputs.budgets,
    }
    for what, part in found.items():
        if part is not None:
            raise UnsupportedModelError(
                f"Models with {what} can be used in Python only: they cannot be exported to ONNX "
                "or made into forms, which charge every feature on its own."
            )
