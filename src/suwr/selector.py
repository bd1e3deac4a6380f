"""The interface of feature selectors.

A selector returns one boolean mask per row from ``select(X)``. `as_selector` adapts functions,
stochastic functions and objects that only provide ``mask_probability``, so that audits and
experiments see a single interface.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

BoolArray = NDArray[np.bool_]

_SEED_NAMES = ("random_state", "rng", "seed", "generator")
_MAX_ENUMERATED_COLUMNS = 12


@runtime_checkable
class Selector(Protocol):
    """An object that selects columns of each row.

    Examples
    --------
    >>> class First:
    ...     def select(self, X):
    ...         return np.eye(1, X.shape[1], dtype=bool).repeat(len(X), axis=0)
    >>> isinstance(First(), Selector)
    True
    """

    def select(self, X: Any) -> Any:
        """Return boolean masks of shape ``(n_rows, n_columns)``, true for revealed values."""
        ...


def as_masks(masks: ArrayLike, n_rows: int, n_columns: int) -> BoolArray:
    """Validate masks and return them as a boolean array.

    Parameters
    ----------
    masks : array-like of shape (n_rows, n_columns)
        Booleans, or numbers that are 0 or 1.
    n_rows, n_columns : int
        The expected shape.

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
            "Masks must be booleans, or numbers that are 0 or 1. Got other numbers: convert "
            "importance scores to masks first, for example with suwr.auditing.top_k."
        )
    return number.astype(bool)


def seed_argument(function: Callable[..., Any]) -> str | None:
    """Return the name of the parameter for a seed or random generator, or None.

    Examples
    --------
    >>> seed_argument(lambda X, rng: X > 0)
    'rng'
    >>> seed_argument(lambda X: X > 0) is None
    True
    """
    parameters = _parameters(function)
    for name in _SEED_NAMES:
        # A fixed default seed is part of the selector.
        if name in parameters and parameters[name].default in (None, inspect.Parameter.empty):
            return name
    return None


def _parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):  # some C functions have no signature
        return {}


def all_masks(n_columns: int) -> BoolArray:
    """Return all ``2 ** n_columns`` masks, the empty one first."""
    index = np.arange(2**n_columns)[:, None]
    return (index >> np.arange(n_columns)[::-1] & 1).astype(bool)


def sample_from_probabilities(
    probabilities: NDArray[np.float64], masks: BoolArray, rng: np.random.Generator
) -> BoolArray:
    """Sample one of ``masks`` per row of ``probabilities``, which need not be normalised."""
    cumulative = np.cumsum(probabilities, axis=1)
    drawn = rng.random(len(probabilities)) * cumulative[:, -1]
    return masks[np.minimum((cumulative <= drawn[:, None]).sum(axis=1), len(masks) - 1)]


class WrappedSelector:
    """Uniform interface to a selector: ``select``, ``sample`` and ``mask_probability``.

    Created by `as_selector`, which documents the parameters.
    """

    def __init__(
        self, source: Any, policy: str | None = None, membership: BoolArray | None = None
    ) -> None:
        self.source = source
        self.policy = policy
        self.membership = membership
        self._select = self._find_select()
        self._seed_name = seed_argument(self._select)
        self._policy_arguments = (
            {"policy": policy}
            if policy is not None and "policy" in _parameters(self._select)
            else {}
        )

    def _find_select(self) -> Callable[..., Any]:
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
        """Short name for reports."""
        if inspect.isfunction(self.source) or inspect.isclass(self.source):
            return str(self.source.__name__)
        return type(self.source).__name__

    @property
    def has_probability(self) -> bool:
        """Whether the selector provides ``mask_probability``."""
        return callable(getattr(self.source, "mask_probability", None))

    @property
    def samples_itself(self) -> bool:
        """Whether the selector draws its masks, rather than only stating their probabilities."""
        return callable(getattr(self.source, "select", None))

    @property
    def claims_leak_free(self) -> bool:
        """Whether the selector declares itself leak-free by construction."""
        return bool(getattr(self.source, "leak_free_by_construction", False))

    def select(self, X: Any) -> BoolArray:
        """Return masks for the rows of ``X``; stochastic selectors draw new ones on every call."""
        return self.sample(X, np.random.default_rng())

    def sample(self, X: Any, rng: np.random.Generator) -> BoolArray:
        """Return masks for the rows of ``X``, drawn with ``rng`` if the selector accepts a seed."""
        arguments: dict[str, Any] = dict(self._policy_arguments)
        if self._seed_name in ("rng", "generator"):
            arguments[self._seed_name] = rng
        elif self._seed_name is not None:
            arguments[self._seed_name] = int(rng.integers(2**31))
        # Copy, because a selector may return the same array on every call.
        masks = np.array(self._select(X, **arguments))
        return as_masks(self._over_columns(masks), len(X), X.shape[1])

    def mask_probability(self, X: Any, masks: BoolArray) -> NDArray[np.float64]:
        """Return ζ(h | x) for each row x of ``X`` and the corresponding mask h."""
        arguments = {}
        if self.policy is not None and "policy" in _parameters(self.source.mask_probability):
            arguments["policy"] = self.policy
        probabilities = np.array(
            self.source.mask_probability(X, masks.copy(), **arguments), dtype=float
        )
        shape = (len(X), *masks.shape[1:-1])
        if (
            probabilities.shape != shape
            or not ((probabilities >= 0) & (probabilities <= 1 + 1e-3)).all()
        ):
            raise ValueError(
                f"mask_probability must return probabilities, as an array of shape {shape}. Got "
                f"shape {probabilities.shape}, with values from {probabilities.min()} to "
                f"{probabilities.max()}, instead."
            )
        return probabilities

    def _over_columns(self, masks: NDArray[Any]) -> NDArray[Any]:
        """Convert masks over units to masks over columns."""
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
                "A selector without select(X) is sampled by enumerating all masks, which works "
                f"for at most {_MAX_ENUMERATED_COLUMNS} columns. Got {n_columns} instead."
            )
        masks = all_masks(n_columns)
        probabilities = self.mask_probability(X, masks[None])
        return sample_from_probabilities(probabilities, masks, rng)


def as_selector(
    selector: Any, policy: str | None = None, membership: BoolArray | None = None
) -> WrappedSelector:
    """Adapt an object or function to the interface of a selector.

    Parameters
    ----------
    selector : object
        An object with ``select(X)``; a callable ``X -> masks``, which may have a second parameter
        named ``rng`` or ``random_state``; or an object with only ``mask_probability(X, masks)``,
        for at most 12 columns.
    policy : str, optional
        Passed to ``select`` and ``mask_probability`` if they have this parameter, such as
        ``"sampled"`` for an estimator that is deterministic by default.
    membership : bool array of shape (n_units, n_columns), optional
        The columns that each unit reveals. Allows the selector to return masks over units.

    Returns
    -------
    WrappedSelector

    Examples
    --------
    >>> selector = as_selector(lambda X: X > 0)
    >>> selector.select(np.array([[1.0, -1.0]])).tolist()
    [[True, False]]
    """
    if isinstance(selector, WrappedSelector):
        selector, policy = selector.source, policy or selector.policy
    return WrappedSelector(selector, policy, membership)
