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
    "renamed_parameter",
    "warn_deprecated",
]

Class = TypeVar("Class", bound=type)


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


def renamed_parameter(old: str, new: str, removal: str) -> Callable[[Class], Class]:
    """Class decorator: accept the former name of a constructor parameter, with a warning.

    ``__init__`` accepts ``old`` in place of ``new``, and the fitted attribute ``old_`` is an alias
    of ``new_``.

    Parameters
    ----------
    old, new : str
        The former and the present name.
    removal : str
        The version that no longer accepts the former name.

    Examples
    --------
    >>> @renamed_parameter("colour", "color", removal="0.3.0")
    ... class Brush:
    ...     def __init__(self, *, color="red"):
    ...         self.color = color
    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     Brush(colour="blue").color
    'blue'
    >>> str(caught[0].message)[:57]
    "The 'colour' parameter of Brush is deprecated and will be"
    """

    def decorate(cls: Class) -> Class:
        # mypy warns that subclasses may have other signatures; the wrapper passes all of them on.
        init = cls.__init__  # type: ignore[misc]

        @wraps(init)
        def wrapper(self: Any, **parameters: Any) -> None:
            if old in parameters:
                if new in parameters:
                    raise TypeError(f"{old!r} is the former name of {new!r}: pass only {new!r}.")
                what = f"The {old!r} parameter of {type(self).__name__}"
                warn_deprecated(what, f"Use {new!r} instead", removal)
                parameters[new] = parameters.pop(old)
            init(self, **parameters)

        def alias(self: Any) -> Any:
            value = getattr(self, f"{new}_")
            what = f"The '{old}_' attribute of {type(self).__name__}"
            warn_deprecated(what, f"Use '{new}_' instead", removal)
            return value

        # As above.
        cls.__init__ = wrapper  # type: ignore[misc]
        setattr(cls, f"{old}_", property(alias))
        return cls

    return decorate
