"""Validation of parameters in the style of scikit-learn, warnings to the caller, lazy imports.

Fields of dataclasses declare by `parameter` what they may be, and `check_fields` validates them;
functions call the other ``check_*`` helpers.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from numbers import Integral
from types import ModuleType
from typing import Any

from suwr._utils.text import plain_repr
from suwr.exceptions import MissingExtraError


def require(module: str, extra: str, purpose: str) -> ModuleType:
    """Import a module, or raise an error that names the extra which installs it.

    Parameters
    ----------
    module : str
        Name of the module, such as ``"matplotlib.pyplot"``.
    extra : str
        The extra of suwr that installs the module.
    purpose : str
        Subject of the error message, such as ``"Plotting"``.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = module.split(".")[0]
        raise MissingExtraError(
            f"{purpose} needs {package}, which is not installed. "
            f"Install it with: pip install 'suwr[{extra}]'"
        ) from error


_PACKAGE = __name__.partition(".")[0]


def warn_caller(message: str, category: type[Warning]) -> None:
    """Issue a warning at the place of the nearest caller outside of this package.

    A fixed ``stacklevel`` names a line of the package as soon as a method calls its base class.

    Parameters
    ----------
    message : str
    category : type of Warning
    """
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and _is_own(frame.f_globals.get("__name__")):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def _is_own(module: object) -> bool:
    return module == _PACKAGE or str(module).startswith(f"{_PACKAGE}.")


def parameter_error(name: str, owner: str, expected: str, value: object) -> ValueError:
    """Build the error that every invalid parameter raises.

    Parameters
    ----------
    name : str
        The parameter.
    owner : str
        The class or function that the parameter belongs to.
    expected : str
        Description of the valid values.
    value : object
        The invalid value.

    Examples
    --------
    >>> parameter_error("alpha", "audit", "a float in the range (0, 1)", 2)
    ValueError("The 'alpha' parameter of audit must be a float in the range (0, 1). Got 2 instead.")
    """
    return must_error(name, owner, f"be {expected}", plain_repr(value))


def must_error(name: str, owner: str, must: str, got: str, hint: str = "") -> ValueError:
    """Build the error of a parameter that does not do what it must; ``got`` is a text.

    Examples
    --------
    >>> must_error("p", "solve", "sum to 1", "a sum of 2")
    ValueError("The 'p' parameter of solve must sum to 1. Got a sum of 2 instead.")
    """
    return ValueError(f"The {name!r} parameter of {owner} must {must}. Got {got} instead.{hint}")


@dataclass(frozen=True)
class Interval:
    """Numbers of a type between two bounds; booleans and NaN are never accepted.

    Parameters
    ----------
    type : {Integral, Real}
    low, high : float or None
        None is unbounded. Infinity is accepted only by a closed, unbounded end.
    closed : {'left', 'right', 'both', 'neither'}, default='left'
    """

    type: type
    low: float | None = None
    high: float | None = None
    closed: str = "left"

    def __contains__(self, value: object) -> bool:
        if not isinstance(value, self.type) or isinstance(value, bool):
            return False
        # All types of intervals are kinds of real numbers.
        number = float(value)  # type: ignore[arg-type]
        low = -float("inf") if self.low is None else self.low
        high = float("inf") if self.high is None else self.high
        above = number >= low if self.closed in ("left", "both") else number > low
        below = number <= high if self.closed in ("right", "both") else number < high
        return above and below

    def __str__(self) -> str:
        kind = "an int" if self.type is Integral else "a float"
        left = "[" if self.closed in ("left", "both") and self.low is not None else "("
        right = "]" if self.closed in ("right", "both") and self.high is not None else ")"
        low = "-inf" if self.low is None else f"{self.low:g}"
        high = "inf" if self.high is None else f"{self.high:g}"
        return f"{kind} in the range {left}{low}, {high}{right}"


@dataclass(frozen=True)
class Options:
    """Strings that are accepted.

    Parameters
    ----------
    *names : str
    """

    names: tuple[str, ...]

    def __init__(self, *names: str) -> None:
        object.__setattr__(self, "names", names)

    def __contains__(self, value: object) -> bool:
        return isinstance(value, str) and value in self.names

    def __str__(self) -> str:
        listed = ", ".join(map(repr, self.names))
        return listed if len(self.names) == 1 else f"one of {listed}"


def check_parameters(
    owner: str, constraints: Mapping[str, Sequence[Any] | None], values: Mapping[str, Any]
) -> None:
    """Raise a ``ValueError`` for the first value that satisfies none of its constraints.

    Parameters
    ----------
    owner : str
        Name of the class, for the message.
    constraints : mapping
        From parameter to a sequence of `Interval`, `Options`, types and None; None in place of the
        sequence accepts everything.
    values : mapping
        From parameter to value.

    Examples
    --------
    >>> check_parameters("C", {"p": [None, Interval(Integral, 1)]}, {"p": 0})
    Traceback (most recent call last):
    ValueError: The 'p' parameter of C must be None or an int in the range [1, inf). Got 0 instead.
    """
    for name, allowed in constraints.items():
        if allowed is None or name not in values:
            continue
        if not any(_satisfies(values[name], constraint) for constraint in allowed):
            expected = " or ".join(map(_describe, allowed))
            raise parameter_error(name, owner, expected, values[name])


def parameter(default: Any, *allowed: Any) -> Any:
    """A field of a dataclass: its default, and what it may be; see `check_parameters`."""
    return field(default=default, metadata={"allowed": allowed})


def check_fields(instance: Any, owner: str) -> None:
    """Raise a ``ValueError`` for the first field of a dataclass that is not what it may be."""
    allowed = {f.name: f.metadata.get("allowed") or None for f in fields(instance)}
    check_parameters(owner, allowed, vars(instance))


def check_choice(value: Any, name: str, owner: str, choices: Sequence[str]) -> str:
    """Return ``value`` if it is one of ``choices``; raise `parameter_error` otherwise."""
    check_parameters(owner, {name: [Options(*choices)]}, {name: value})
    return str(value)


def check_integer(value: Any, name: str, owner: str, low: int) -> int:
    """Return ``value`` as an int if it is an integer of at least ``low``."""
    check_parameters(owner, {name: [Interval(Integral, low)]}, {name: value})
    return int(value)


def check_real(value: Any, name: str, owner: str, interval: Interval) -> float:
    """Return ``value`` as a float if it lies in ``interval``."""
    check_parameters(owner, {name: [interval]}, {name: value})
    return float(value)


def _satisfies(value: Any, constraint: Any) -> bool:
    if constraint is None:
        return value is None
    if isinstance(constraint, type):
        return isinstance(value, constraint)
    return value in constraint


def _describe(constraint: Any) -> str:
    if isinstance(constraint, type):
        # Abstract base classes say little to a user.
        named = {"Mapping": "a dict", "PathLike": "a path"}
        return named.get(constraint.__name__, f"an instance of {constraint.__name__!r}")
    return str(constraint)


def view(name: str, *args: Any, **options: Any) -> Any:
    """Call a function of a later layer, which is imported on this call.

    Parameters
    ----------
    name : str
        Module and function, such as ``"plots:plot_narrative"`` for `suwr.plots.plot_narrative`.
    *args, **options
        Arguments of the function.
    """
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(f"suwr.{module}"), function)(*args, **options)
