"""Deprecated names: they keep working for one release and warn with what to use instead."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, NamedTuple, TypeVar

__all__ = [
    "DeprecatedName",
    "deprecated_attribute",
    "deprecated_parameters",
    "warn_deprecated",
]

Function = TypeVar("Function", bound=Callable[..., Any])


class DeprecatedName(NamedTuple):
    """A public name that moved or is about to disappear.

    Attributes
    ----------
    target : str
        Where the object is now, as ``"module:name"``.
    advice : str
        What to use instead, as a sentence without the final period.
    removal : str
        The version that no longer has the name.
    """

    target: str
    advice: str
    removal: str


def warn_deprecated(name: str, advice: str, removal: str, stacklevel: int = 2) -> None:
    """Issue the `FutureWarning` of every deprecated name.

    Parameters
    ----------
    name : str
        The deprecated name as users write it.
    advice : str
        What to use instead, as a sentence without the final period.
    removal : str
        The version that no longer has the name.
    stacklevel : int, default=2
        As in `warnings.warn`, counted from the caller of this function.
    """
    message = f"{name} is deprecated and will be removed in version {removal}. {advice}."
    warnings.warn(message, FutureWarning, stacklevel=stacklevel + 1)


def deprecated_attribute(module: str, name: str, names: Mapping[str, DeprecatedName]) -> Any:
    """Resolve a deprecated attribute of a module, for use in its ``__getattr__``.

    Parameters
    ----------
    module, name : str
        The module and the attribute that was requested.
    names : mapping
        The deprecated attributes of the module.

    Raises
    ------
    AttributeError
        The attribute is not deprecated: the module does not have it at all.

    Examples
    --------
    >>> import warnings
    >>> names = {"tau": DeprecatedName("math:tau", "Use math.tau", removal="0.3")}
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     value = deprecated_attribute("circles", "tau", names)
    >>> str(caught[0].message)
    'circles.tau is deprecated and will be removed in version 0.3. Use math.tau.'
    """
    if name not in names:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    target, advice, removal = names[name]
    # The warning belongs to the line that requests the attribute: the caller of `__getattr__`.
    warn_deprecated(f"{module}.{name}", advice, removal, stacklevel=3)
    source, _, attribute = target.partition(":")
    return getattr(importlib.import_module(source), attribute)


def deprecated_parameters(removal: str, **renamed: str) -> Callable[[Function], Function]:
    """Let a function accept former names of its keyword parameters, with a warning.

    Parameters
    ----------
    removal : str
        The version that no longer accepts the former names.
    **renamed : str
        From the former name to the present one.

    Examples
    --------
    >>> @deprecated_parameters("0.3", colour="color")
    ... def paint(color="red"):
    ...     return color
    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     paint(colour="blue")
    'blue'
    >>> str(caught[0].message)[:52]
    "The 'colour' parameter of paint is deprecated and wi"
    """

    def decorate(function: Function) -> Function:
        @wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            for old, new in renamed.items():
                if old not in kwargs:
                    continue
                what = f"The {old!r} parameter of {function.__name__}"
                if new in kwargs:
                    raise TypeError(f"{what} is the former name of {new!r}: pass only {new!r}.")
                warn_deprecated(what, f"Use {new!r} instead", removal)
                kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        return wrapper  # type: ignore[return-value]

    return decorate
