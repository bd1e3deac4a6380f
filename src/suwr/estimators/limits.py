"""Limits of a call: known values, available units, costs and budgets, and why rollouts ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from suwr._utils.text import did_you_mean
from suwr._utils.validation import Interval, parameter_error, warn_caller
from suwr.data.costs import read_row_costs
from suwr.data.frame import Table, column_names, is_frame, select_columns
from suwr.data.units import Units
from suwr.exceptions import StartWarning, UnsupportedModelError
from suwr.narrative.given import Given
from suwr.nn.inputs import MaskedInputs
from suwr.nn.rollout import Policy, Trace
from suwr.nn.step import Starts

FloatArray = NDArray[np.float64]


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


def check_plain_costs(policy: Policy, units: Units) -> None:
    """Raise an error if costs depend on more than the units, for exports that ignore the rest."""
    found = {
        "costs of visits": units.visit_cost or None,
        "a function as 'costs'": units.function,
        "'max_cost'": policy.inputs.budgets,
    }
    for what, part in found.items():
        if part is not None:
            raise UnsupportedModelError(
                f"Models with {what} can be used in Python only: they cannot be exported to ONNX "
                "or made into forms, which charge every feature on its own."
            )


BoolArray = NDArray[np.bool_]
# Rows for which a warning measures the distance of the start from training.
MAX_ROWS = 256


class RowLimits(TypedDict, total=False):
    """Keyword arguments of `SequentialModel.select` and of other methods, which it describes."""

    sparsity_weight: float | None
    mean_features: float | None
    known: Any
    available: Any
    max_cost: Any
    exactly: Any
    costs: Any


def check_limits(owner: str, limits: RowLimits) -> bool:
    """Return whether rows start otherwise than they always do; refuse unknown names."""
    unknown = limits.keys() - RowLimits.__annotations__.keys()
    if unknown:
        raise TypeError(f"{owner}() got an unexpected keyword argument {min(unknown)!r}")
    if limits.get("max_cost") is not None and limits.get("exactly") is not None:
        raise ValueError("Pass either 'max_cost' or 'exactly', not both.")
    policy = ("sparsity_weight", "mean_features")
    return any(value is not None for name, value in limits.items() if name not in policy)


def read_starts(
    policy: Policy,
    names: Sequence[str],
    units: Units,
    owner: str,
    n_rows: int,
    limits: RowLimits,
    order: NDArray[np.intp] | None = None,
) -> Starts:
    """Read where rows start, and what they may acquire.

    Parameters
    ----------
    policy : Policy
    names : sequence of str
        Column names of the model.
    units : Units
    owner : str
        The method, for error messages.
    n_rows : int
    limits : RowLimits
    order : ndarray of int, optional
        Positions of the columns of the model in the table whose order ``known`` has.
    """
    known, exactly, costs = (limits.get(name) for name in ("known", "exactly", "costs"))
    inputs, device = policy.inputs, policy.device
    if isinstance(known, Sequence) and all(isinstance(name, str) for name in known):
        unknown = [name for name in known if name not in names]
        if unknown:
            error = parameter_error("known", owner, "a mask, or names of columns", unknown[0])
            raise ValueError(f"{error}{did_you_mean(unknown[0], names)}")
        known, order = np.isin(names, list(known)), None
    usual = Starts.usual(inputs, n_rows) or Starts()
    name = "max_cost" if exactly is None else "exactly"
    budget = _read_budget(limits.get(name), name, owner, n_rows)
    if inputs.budgets is not None and budget is not None:
        largest = inputs.budgets.high
        if budget.max(initial=0.0) > largest:
            expected = f"at most {largest:g}, the largest budget that the model was fitted for"
            raise parameter_error(name, owner, expected, float(budget.max()))
    prices = None if costs is None else read_row_costs(costs, units.names, n_rows, owner)
    if prices is not None and units.function is not None:
        expected = "None if the 'costs' parameter of the model is a function"
        raise parameter_error("costs", owner, expected, f"shape {prices.shape}")
    if exactly is not None and budget is not None:
        _check_reachable(policy, units, owner, float(budget.max(initial=0.0)), prices)
    shown = _read_flags(known, "known", owner, n_rows, names)
    if shown is not None and order is not None and not is_frame(known):
        shown = shown[:, order]
    open_units = _read_flags(limits.get("available"), "available", owner, n_rows, units.names)
    return Starts(
        usual.known if shown is None else torch.as_tensor(shown, device=device),
        None if open_units is None else torch.as_tensor(open_units, device=device),
        usual.budget if budget is None else torch.as_tensor(budget, device=device),
        exactly is not None,
        None if prices is None else torch.as_tensor(prices, device=device),
    )


def start_probability(
    known_at_start: Any, names: Sequence[str], owner: str
) -> NDArray[np.float64] | None:
    """Return the probability that each column is known at the start; None if none is.

    Parameters
    ----------
    known_at_start : sequence of str, mapping of str to float, bool array, or None
        Columns that are always known, the probability that each is, or masks to draw from.
    names : sequence of str
        Column names.
    owner : str
        Class with this parameter, for error messages.

    Returns
    -------
    ndarray of shape (d,) or (n_masks, d), or None
        Masks are returned as they are.
    """
    if known_at_start is None:
        return None
    expected = (
        "None, a list of columns, a mapping of columns to probabilities, or a boolean array of "
        f"masks of shape (n_masks, {len(names)})"
    )
    masks = _as_masks(known_at_start)
    if masks is not None:
        if masks.shape[1] != len(names) or len(masks) == 0:
            raise parameter_error("known_at_start", owner, expected, f"shape {masks.shape}")
        return masks.astype(np.float64) if masks.any() else None
    if isinstance(known_at_start, str) or not isinstance(known_at_start, Mapping | Sequence):
        raise parameter_error("known_at_start", owner, expected, known_at_start)
    items = known_at_start
    chance = dict(items) if isinstance(items, Mapping) else dict.fromkeys(items, 1.0)
    for name, p in chance.items():
        if name not in names or p not in Interval(Real, 0, 1, closed="both"):
            raise parameter_error("known_at_start", owner, expected, known_at_start)
    probability = np.array([float(chance.get(name, 0.0)) for name in names])
    return probability if probability.any() else None


def known_at_start(inputs: MaskedInputs, names: Sequence[str]) -> dict[str, float]:
    """Return the probability of each column that training may know at the start of a row."""
    if inputs.known is None:
        return {}
    # Single precision has seven digits.
    named = zip(names, inputs.known.tolist(), strict=True)
    return {name: float(f"{p:.7g}") for name, p in named if p > 0}


def always_known(inputs: MaskedInputs, names: Sequence[str]) -> list[str]:
    """Return the columns that training knows at the start of every row."""
    return [name for name, p in known_at_start(inputs, names).items() if p == 1]


def largest_budget(inputs: MaskedInputs) -> float | None:
    """Return the budget of rows unless given: the largest one of training; None is no limit."""
    return None if inputs.budgets is None else float(inputs.budgets.high)


def _as_masks(given: Any) -> BoolArray | None:
    """Return a two-dimensional array of booleans, or None if it is not one."""
    if isinstance(given, str | Mapping):
        return None
    try:
        array = np.asarray(given)
    except ValueError:
        return None
    return array if array.ndim == 2 and array.dtype.kind == "b" else None


def starts_of(
    inputs: MaskedInputs, columns: Sequence[str], units: Units, given: Sequence[Given]
) -> Starts:
    """Return the starts of rows that have their names and values in ``given``.

    All of them must have the same ``exactly``. Names that the model does not have are ignored.
    """
    device, names = inputs.device, units.names
    known = [[name in g.known for name in columns] for g in given]
    available = [[name not in g.unavailable for name in names] for g in given]
    most = largest_budget(inputs)
    most = np.inf if most is None else most
    budget = [most if g.max_cost is None else g.max_cost for g in given]
    costs = None
    if any(g.costs is not None for g in given):
        usual = dict(zip(names, units.costs.tolist(), strict=True))
        rows = [[{**usual, **(g.costs or {})}[name] for name in names] for g in given]
        costs = torch.tensor(rows, dtype=torch.float64, device=device)
    return Starts(
        torch.tensor(known, dtype=torch.bool, device=device),
        torch.tensor(available, dtype=torch.bool, device=device),
        torch.tensor(budget, dtype=torch.float64, device=device),
        given[0].exactly,
        costs,
    )


def describe_start(
    starts: Starts | None, table: Table, names: Sequence[str], units: Units, row: int
) -> Given | None:
    """Return the start of one row in names and values; None if it starts from nothing."""
    if starts is None:
        return None
    columns: list[int] = []
    closed: list[int] = []
    if starts.known is not None:
        columns = torch.nonzero(starts.known[row])[:, 0].tolist()
    if starts.available is not None:
        closed = torch.nonzero(~starts.available[row])[:, 0].tolist()
    budget = np.inf if starts.budget is None else float(starts.budget[row])
    costs = None if starts.costs is None else starts.costs[row].tolist()
    given = Given(
        {names[c]: table.value(row, c) for c in columns},
        tuple(units.names[u] for u in closed),
        budget if np.isfinite(budget) else None,
        starts.spend_all,
        None if costs is None else dict(zip(units.names, costs, strict=True)),
    )
    return given or None


def stop_reasons(
    policy: Policy, trace: Trace, starts: Starts | None = None, *, last: str = "budget"
) -> list[str]:
    """Return why each rollout ended, see `Narrative.ended`; ``last`` is the maximum of steps."""
    spent = np.where(trace.n_steps == policy.max_steps, last, "decision")
    if starts is not None:
        mask = torch.as_tensor(trace.mask, device=policy.device)
        cost = torch.as_tensor(trace.cost, device=policy.device)
        left = policy.inputs.available(mask)
        within = left if starts.available is None else left & starts.available
        allowed = starts.allowed(policy.inputs, mask, cost)
        affordable = within if allowed is None else within & allowed
        spent = np.where(affordable.any(dim=1).cpu(), spent, "cost")
        spent = np.where(within.any(dim=1).cpu(), spent, "unavailable")
    return [str(reason) for reason in np.where(policy.complete(trace.mask), "everything", spent)]


@torch.inference_mode()
def start_distance(policy: Policy, values: Tensor, known: Tensor) -> Tensor:
    """The number of known units that the policy would not have revealed by itself, ``(n,)``.

    Starting from what training may know, the known units are revealed one after another: the one
    that the policy reveals next if it is known, and otherwise, which counts, the known one of
    largest logit. A unit of which only some columns are known counts as well. Only known values are
    read.

    Parameters
    ----------
    policy : Policy
    values : Tensor of shape (n, n_values)
        Encoded rows.
    known : Tensor of bool, shape (n, n_columns)
    """
    inputs, n = policy.inputs, len(values)
    mask = torch.zeros_like(known)
    inside = ~inputs.informative(known)
    distance = torch.zeros(n, dtype=torch.long, device=known.device)
    if inputs.known is not None:
        # Training starts with any of the columns that it may know, and all that it always knows.
        mask = known & (inputs.known > 0)
        distance += (~known & (inputs.known == 1)).sum(dim=1)
    if not inputs.single:
        touched = (known & ~mask).float() @ inputs.membership.float().T > 0
        distance += (touched & ~inside).sum(dim=1)
    for _ in range(int(inside.sum(dim=1).max()) if n else 0):
        decision = policy.decide(values, mask)
        left = inside & inputs.informative(mask)
        going = left.any(dim=1)
        if not bool(going.any()):
            break
        own = decision.best(1)[:, 0]
        agrees = (decision.stop_probability < 0.5) & left.gather(1, own.unsqueeze(1))[:, 0]
        forced = decision.raw_logits.masked_fill(~left, -torch.inf).argmax(dim=1)
        distance += (going & ~agrees).long()
        unit = torch.where(agrees, own, forced)
        mask = torch.where(going.unsqueeze(1), inputs.add(mask, unit), mask)
    return distance


def warn_distance(policy: Policy, values: Tensor, starts: Starts | None, owner: str) -> None:
    """Warn if known columns start the rows in states that training has not visited."""
    if starts is None or starts.known is None:
        return
    known = starts.known[:MAX_ROWS]
    distance = start_distance(policy, values[:MAX_ROWS], known).double()
    if bool((distance > 0).any()):
        warn_caller(
            f"{owner} starts from other known values than training: "
            f"{float(distance.mean()):.1f} units (mean over rows; at most {int(distance.max())}) "
            "are known that the policy would not have revealed by itself, or are not known though "
            "training always knew them. Fit with 'known_at_start' to train for this start.",
            StartWarning,
        )


def _read_flags(
    given: Any, name: str, owner: str, n_rows: int, names: Sequence[str]
) -> BoolArray | None:
    """Read a mask over columns or units; the columns of a frame are matched by name."""
    if given is None:
        return None
    width, what = len(names), "column" if name == "known" else "unit"
    if is_frame(given):
        found = column_names(given) or []
        if set(found) != set(names):
            differing = sorted(set(map(str, found)) ^ set(names))[0]
            expected = f"a frame with one column per {what} of the model"
            raise ValueError(
                f"The {name!r} parameter of {owner} must be {expected}. Got {differing!r} in only "
                "one of them."
            )
        given = select_columns(given, list(names))
    try:
        flags = np.asarray(given)
    except ValueError:
        flags = np.array(None)
    shapes = ((width,), (1, width), (n_rows, width))
    if flags.shape not in shapes or flags.dtype.kind not in "bO":
        got = f"shape {flags.shape} and dtype {flags.dtype}"
        expected = f"a boolean array of shape ({n_rows}, {width}) or ({width},), per {what}"
        raise ValueError(f"The {name!r} parameter of {owner} must be {expected}. Got {got}.")
    if flags.dtype.kind == "O" and not all(isinstance(f, bool | np.bool_) for f in flags.flat):
        raise ValueError(f"The {name!r} parameter of {owner} must be boolean.")
    return np.broadcast_to(flags.astype(bool), (n_rows, width)).copy()


def _read_budget(given: Any, name: str, owner: str, n_rows: int) -> NDArray[np.float64] | None:
    if given is None:
        return None
    expected = f"a number, or one per row, of at least 0 (n = {n_rows})"
    try:
        budget = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise parameter_error(name, owner, expected, given) from None
    # A comparison with NaN is false.
    if budget.shape not in ((), (n_rows,)) or not (budget >= 0).all() or isinstance(given, bool):
        raise parameter_error(name, owner, expected, given)
    return np.broadcast_to(budget, (n_rows,)).copy()


def _check_reachable(
    policy: Policy, units: Units, owner: str, amount: float, prices: NDArray[np.float64] | None
) -> None:
    n_steps, selectable = policy.max_steps, policy.inputs.selectable
    if units.function is not None:
        # The largest cost of a row depends on the order.
        return
    costs = units.costs[None] if prices is None else prices
    costs = costs if selectable is None else costs[:, selectable.cpu().numpy()]
    largest = np.sort(costs, axis=1)[:, ::-1][:, : n_steps * policy.units_per_step]
    most = float(largest.sum(axis=1).max(initial=0.0)) + n_steps * units.visit_cost
    most += 0.0 if units.setups is None else float(units.setups.costs.sum())
    if len(costs) and amount > most * (1 + 1e-9):
        expected = f"at most {most:g}, the largest cost of a row within 'max_steps'"
        raise parameter_error("exactly", owner, expected, amount)
