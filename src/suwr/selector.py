"""What a feature selector is, and how to make one of whatever the user has.

Audits and experiments speak one language: ``select(X)`` gives one boolean mask per row. A plain
function, a random one, an object that only knows the probabilities of masks: ``as_selector``
turns each of them into a :class:`Selector` with the same three questions, and nothing else in
the package has to know what was inside.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Selector", "WrappedSelector", "as_masks", "as_selector"]

BoolArray = NDArray[np.bool_]

_SEED_NAMES = ("random_state", "rng", "seed", "generator")
_MAX_ENUMERATED_COLUMNS = 12


@runtime_checkable
class Selector(Protocol):
    """Anything that says, for each row, which columns it reveals.

    Examples
    --------
    >>> class First:
    ...     def select(self, X):
    ...         return np.eye(1, X.shape[1], dtype=bool).repeat(len(X), axis=0)
    >>> isinstance(First(), Selector)
    True
    """

    def select(self, X: Any) -> Any:
        """Boolean masks of shape ``(n_rows, n_columns)``: true where a value is revealed."""
        ...


def as_masks(masks: ArrayLike, n_rows: int, n_columns: int) -> BoolArray:
    """Check that ``masks`` is one mask per row, and return it as a boolean array.

    Parameters
    ----------
    masks : array-like of shape (n_rows, n_columns)
        Booleans, or numbers that are all 0 or 1.
    n_rows, n_columns : int
        The shape that is expected.

    Examples
    --------
    >>> as_masks([[1, 0], [0, 0]], 2, 2).tolist()
    [[True, False], [False, False]]
    """
    array = np.asarray(masks)
    if array.shape != (n_rows, n_columns):
        raise ValueError(
            f"A selector must return one mask per row, of shape ({n_rows}, {n_columns}). "
            f"Got an array of shape {array.shape} instead."
        )
    if array.dtype == np.bool_:
        return array
    try:
        number = array.astype(float)
    except (TypeError, ValueError):
        raise ValueError(
            f"Masks must be booleans, or numbers that are 0 or 1. Got dtype {array.dtype} instead."
        ) from None
    if not np.isin(number, (0.0, 1.0)).all():
        raise ValueError(
            "Masks must be booleans, or numbers that are 0 or 1. Got other numbers: if these are "
            "scores, choose features from them first, for example with suwr.audit.top_k."
        )
    return number.astype(bool)


def seed_argument(function: Callable[..., Any]) -> str | None:
    """Name of the argument through which ``function`` takes its randomness, or None.

    Examples
    --------
    >>> seed_argument(lambda X, rng: X > 0)
    'rng'
    >>> seed_argument(lambda X: X > 0) is None
    True
    """
    parameters = _parameters(function)
    for name in _SEED_NAMES:
        # A seed that is fixed by default is the author's choice, and part of what is audited.
        if name in parameters and parameters[name].default in (None, inspect.Parameter.empty):
            return name
    return None


def _parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):  # some C functions have no signature
        return {}


def all_masks(n_columns: int) -> BoolArray:
    """All ``2 ** n_columns`` masks, the empty one first."""
    index = np.arange(2**n_columns)[:, None]
    return (index >> np.arange(n_columns)[::-1] & 1).astype(bool)


def sample_from_probabilities(
    probabilities: NDArray[np.float64], masks: BoolArray, rng: np.random.Generator
) -> BoolArray:
    """Draw one of ``masks`` for each row of ``probabilities``, which need not sum to one."""
    cumulative = np.cumsum(probabilities, axis=1)
    drawn = rng.random(len(probabilities)) * cumulative[:, -1]
    return masks[np.minimum((cumulative <= drawn[:, None]).sum(axis=1), len(masks) - 1)]


class WrappedSelector:
    """A selector with one face: ``select``, ``sample`` and, where known, ``mask_probability``.

    Made by :func:`as_selector`; see there.
    """

    def __init__(
        self, source: Any, policy: str | None = None, membership: BoolArray | None = None
    ) -> None:
        self.source = source
        self.policy = policy
        self.membership = membership
        self._ask = self._asker()
        self._seed_name = seed_argument(self._ask)
        self._policy_arguments = (
            {"policy": policy} if policy is not None and "policy" in _parameters(self._ask) else {}
        )

    def _asker(self) -> Callable[..., Any]:
        if callable(getattr(self.source, "select", None)):
            return self.source.select
        if self.has_probability:
            return self._select_by_enumeration
        if callable(self.source):
            return self.source
        raise TypeError(
            "The 'selector' parameter of audit must be an object with a select(X) method, an "
            "object with a mask_probability(X, masks) method, or a callable X -> masks. "
            f"Got {self.source!r} instead."
        )

    @property
    def name(self) -> str:
        """A short name for reports."""
        if inspect.isfunction(self.source) or inspect.isclass(self.source):
            return str(self.source.__name__)
        return type(self.source).__name__

    @property
    def has_probability(self) -> bool:
        """Whether the probability of a mask can be asked for."""
        return callable(getattr(self.source, "mask_probability", None))

    @property
    def claims_leak_free(self) -> bool:
        """Whether the selector says that it cannot leak, by the way it is built."""
        return bool(getattr(self.source, "leak_free_by_construction", False))

    def select(self, X: Any) -> BoolArray:
        """Masks for the rows of ``X``; a random selector draws them afresh."""
        return self.sample(X, np.random.default_rng())

    def sample(self, X: Any, rng: np.random.Generator) -> BoolArray:
        """Masks for the rows of ``X``, drawn with ``rng`` where the selector lets us choose."""
        arguments: dict[str, Any] = dict(self._policy_arguments)
        if self._seed_name in ("rng", "generator"):
            arguments[self._seed_name] = rng
        elif self._seed_name is not None:
            arguments[self._seed_name] = int(rng.integers(2**31))
        # A copy: a selector may hand out the same array every time.
        masks = np.array(self._ask(X, **arguments))
        return as_masks(self._over_columns(masks), len(X), X.shape[1])

    def mask_probability(self, X: Any, masks: BoolArray) -> NDArray[np.float64]:
        """ζ(h | x) for each row of ``X`` and the mask beside it."""
        arguments = {}
        if self.policy is not None and "policy" in _parameters(self.source.mask_probability):
            arguments["policy"] = self.policy
        stated = np.array(self.source.mask_probability(X, masks.copy(), **arguments), dtype=float)
        shape = (len(X), *masks.shape[1:-1])
        if stated.shape != shape or not ((stated >= 0) & (stated <= 1 + 1e-3)).all():
            raise ValueError(
                f"mask_probability must return probabilities, as an array of shape {shape}. Got "
                f"shape {stated.shape}, with values from {stated.min()} to {stated.max()}, instead."
            )
        return stated

    def _over_columns(self, masks: NDArray[Any]) -> NDArray[Any]:
        """Masks over columns, also where the selector answers with one entry per unit."""
        if self.membership is None or masks.ndim != 2:
            return masks
        n_units, n_columns = self.membership.shape
        if masks.shape[1] != n_units or n_units == n_columns:
            return masks
        return as_masks(masks, len(masks), n_units).astype(np.intp) @ self.membership > 0

    def _select_by_enumeration(self, X: Any, rng: np.random.Generator) -> BoolArray:
        n_columns = X.shape[1]
        if n_columns > _MAX_ENUMERATED_COLUMNS:
            raise ValueError(
                "A selector without select(X) is sampled from all its masks, which is possible "
                f"for at most {_MAX_ENUMERATED_COLUMNS} columns. Got {n_columns} instead."
            )
        masks = all_masks(n_columns)
        probabilities = self.mask_probability(X, masks[None])
        return sample_from_probabilities(probabilities, masks, rng)


def as_selector(
    selector: Any, policy: str | None = None, membership: BoolArray | None = None
) -> WrappedSelector:
    """Make a selector of whatever the user has.

    Parameters
    ----------
    selector : object
        One of: an object with ``select(X)``; a callable ``X -> masks``, which may take a second
        argument named ``rng`` or ``random_state``; an object with only
        ``mask_probability(X, masks)``, if there are at most 12 columns.
    policy : str, optional
        Handed on to ``select`` and ``mask_probability`` if they take it, such as ``"sampled"``
        for an estimator whose default answer is deterministic.
    membership : bool array of shape (n_units, n_columns), optional
        Which columns a unit (a group, a patch) reveals. A selector that answers with one entry
        per unit is then understood too.

    Examples
    --------
    >>> selector = as_selector(lambda X: X > 0)
    >>> selector.select(np.array([[1.0, -1.0]])).tolist()
    [[True, False]]
    """
    if isinstance(selector, WrappedSelector):
        selector, policy = selector.source, policy or selector.policy
    return WrappedSelector(selector, policy, membership)
