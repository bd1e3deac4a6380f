"""Errors in scikit-learn's style, and the memory that an exact computation may use."""

import os
from typing import Any

from suwr.exceptions import ProblemTooLargeError

DEFAULT_MEMORY = 4 * 1024**3


def parameter_error(name: str, owner: str, must_be: str, got: object) -> ValueError:
    """Build the one message that every wrong parameter gets."""
    return ValueError(f"The {name!r} parameter of {owner} must be {must_be}. Got {got} instead.")


def check_choice(value: Any, name: str, owner: str, choices: tuple[str, ...]) -> str:
    """Return ``value`` if it is one of ``choices``."""
    if not isinstance(value, str) or value not in choices:
        raise parameter_error(name, owner, f"one of {', '.join(map(repr, choices))}", repr(value))
    return value


def check_count(value: Any, name: str, owner: str, minimum: int) -> int:
    """Return ``value`` as an int if it is a whole number that is large enough."""
    whole = isinstance(value, int) or (hasattr(value, "__index__") and not isinstance(value, str))
    if not whole or isinstance(value, bool) or int(value) < minimum:
        raise parameter_error(name, owner, f"an int of at least {minimum}", repr(value))
    return int(value)


def check_weight(value: Any, owner: str) -> float:
    """Return a sparsity weight (the paper's λ) that is finite and not negative."""
    try:
        weight = float(value)
    except (TypeError, ValueError):
        weight = -1.0
    if not 0 <= weight < float("inf"):
        raise parameter_error(
            "sparsity_weight", owner, "a finite number of at least 0", repr(value)
        )
    return weight


def memory_limit(max_memory: int | None) -> int:
    """Bytes that may be used: the given number, or 4 GiB but never over half of the machine."""
    if max_memory is not None:
        return max_memory
    try:
        physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # no sysconf on Windows
        return DEFAULT_MEMORY
    return min(DEFAULT_MEMORY, physical // 2) if physical > 0 else DEFAULT_MEMORY


def check_memory(needed: int, limit: int, n_states: int, what: str) -> None:
    """Refuse, before anything is allocated, what would not fit."""
    if needed > limit:
        raise ProblemTooLargeError(
            f"{what} needs up to {n_states:,} masked states, about {_gigabytes(needed)} of memory; "
            f"the limit is {_gigabytes(limit)}. Use fewer features or values, or raise the "
            "'max_memory' parameter of FiniteProblem."
        )


def _gigabytes(n_bytes: int) -> str:
    return f"{n_bytes / 1e9:,.3g} GB" if n_bytes < 1e15 else f"{n_bytes // 10**9:,} GB"
