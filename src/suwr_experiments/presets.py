"""The hyper-parameters of the paper's Appendix F, as parameters of the estimators here.

The published λ of INVASE and REAL-X weighs the *share* of selected features; the estimators here
take the price of one feature, so it is divided by their number. Where the paper names several
values, `PATHS` holds them all and the preset the middle one. GDFS and DIME are not in the paper:
their presets give them the budget of the others and SUWR's own network size; on images, the
networks that they were published with.
"""

from __future__ import annotations

from typing import Any

__all__ = ["PATHS", "preset", "preset_names"]

_SYN_COLUMNS, _TOY_COLUMNS, _MNIST_COLUMNS = 11, 10, 784
_SYN_UNITS = {1: 1, 2: 4, 3: 4, 4: 5, 5: 5, 6: 5}
# What the label really depends on, at most: for methods that the paper does not set.
_SYN_RELEVANT = {1: 2, 2: 4, 3: 4, 4: 5, 5: 5, 6: 5}
_SYN_INVASE = {1: 0.1, 2: 0.1, 3: 0.1, 4: 0.2, 5: 0.15, 6: 0.2}
_SYN_REALX = {1: 0.15, 2: 0.15, 3: 0.15, 4: 0.05, 5: 0.05, 6: 0.1}
_SYN_TABNET = {
    1: (4, 0.02),
    2: (4, 0.01),
    3: (4, 0.01),
    4: (5, 0.005),
    5: (5, 0.005),
    6: (5, 0.005),
}

#: The values that the paper varies, per data set and method, for the parameter they belong to.
PATHS: dict[tuple[str, str], tuple[str, tuple[float, ...]]] = {
    ("toy", "L2X"): ("n_units", tuple(range(1, 11))),
    ("toy", "INVASE"): (
        "sparsity_weight",
        tuple(v / _TOY_COLUMNS for v in (7.0, 8.0, 10.0, 11.0)),
    ),
    ("toy", "REALX"): ("sparsity_weight", tuple(v / _TOY_COLUMNS for v in (1.5, 2.0, 3.0, 5.0))),
    ("toy", "TabNet"): ("mask_sparsity_weight", (0.002, 0.003, 0.004, 0.005)),
    ("mnist", "REALX"): (
        "sparsity_weight",
        tuple(
            v / _MNIST_COLUMNS
            for v in (1.5, 3.0, 5.0, 6.0, 8.0, 10.0, 12.0, 13.0, 14.0, 18.0, 20.0)
        ),
    ),
    ("mnist", "CAE"): ("n_units", (15, 20, 30, 40, 50)),
}


def _toy(method: str) -> dict[str, Any] | None:
    length = {"max_epochs": 2000, "patience": 1000}
    network: dict[str, Any] = {"hidden_size": 64, "n_layers": 3, **length}
    known: dict[str, dict[str, Any]] = {
        "AllFeatures": network,
        "Oracle": network,
        "L2X": {**network, "n_units": 5},
        "INVASE": {**network, "sparsity_weight": 8.0 / _TOY_COLUMNS},
        "REALX": {**network, "sparsity_weight": 2.0 / _TOY_COLUMNS},
        "EVALX": network,
        "TabNet": {
            "n_steps": 2,
            "mask_sparsity_weight": 0.003,
            **length,
        },
        "CAE": {**network, "n_units": 5},
        "GDFS": {"hidden_size": 64, "max_steps": 10},
        "DIME": {"hidden_size": 64, "max_steps": 10},
    }
    return known.get(method)


def _syn(number: int, method: str) -> dict[str, Any] | None:
    network: dict[str, Any] = {"hidden_size": 200, "n_layers": 3}
    # Selectors that learn from draws: INVASE was published with 10,000 batches.
    longer = {"max_epochs": 300}
    steps, penalty = _SYN_TABNET[number]
    known: dict[str, dict[str, Any]] = {
        "AllFeatures": network,
        "Oracle": network,
        "L2X": {**network, **longer, "n_units": _SYN_UNITS[number]},
        "INVASE": {**network, **longer, "sparsity_weight": _SYN_INVASE[number] / _SYN_COLUMNS},
        "REALX": {**network, "sparsity_weight": _SYN_REALX[number] / _SYN_COLUMNS},
        "EVALX": network,
        "TabNet": {"n_steps": steps, "mask_sparsity_weight": penalty},
        "CAE": {**network, "n_units": _SYN_RELEVANT[number]},
        "GDFS": {"hidden_size": 100, "max_steps": _SYN_RELEVANT[number]},
        "DIME": {"hidden_size": 100, "max_steps": _SYN_COLUMNS},
    }
    return known.get(method)


def _mnist(method: str) -> dict[str, Any] | None:
    network: dict[str, Any] = {"hidden_size": 200, "n_layers": 3}
    # As both were published for these images.
    greedy: dict[str, Any] = {"hidden_size": 512, "n_layers": 2, "batch_size": 1024}
    known: dict[str, dict[str, Any]] = {
        "AllFeatures": network,
        "REALX": {**network, "sparsity_weight": 10.0 / _MNIST_COLUMNS},
        "EVALX": network,
        "CAE": {"hidden_size": 320, "n_layers": 3, "n_units": 30},
        "GDFS": {**greedy, "max_steps": 50},
        "DIME": {**greedy, "max_steps": 50},
    }
    return known.get(method)


def preset(data: str, method: str) -> dict[str, Any]:
    """Parameters of one method on one of the paper's data sets.

    Parameters
    ----------
    data : {'toy', 'syn1', 'syn2', 'syn3', 'syn4', 'syn5', 'syn6', 'mnist'}
    method : str
        The estimator's name without 'Classifier' or 'Regressor': ``"L2X"``.

    Returns
    -------
    dict
        Keyword arguments of the estimator; what is absent keeps its default.

    Examples
    --------
    >>> preset("syn4", "L2X")
    {'hidden_size': 200, 'n_layers': 3, 'max_epochs': 300, 'n_units': 5}
    """
    found: dict[str, Any] | None
    if data == "toy":
        found = _toy(method)
    elif data == "mnist":
        found = _mnist(method)
    elif data in {f"syn{n}" for n in _SYN_UNITS}:
        found = _syn(int(data[3:]), method)
    else:
        raise ValueError(
            "The 'data' parameter must be 'toy', 'mnist' or 'syn1' to 'syn6'. "
            f"Got {data!r} instead."
        )
    if found is None:
        raise ValueError(
            f"The 'method' parameter must be one of {', '.join(preset_names(data))} for {data!r}. "
            f"Got {method!r} instead."
        )
    return dict(found)


def preset_names(data: str) -> list[str]:
    """Methods that have a preset on a data set.

    Examples
    --------
    >>> preset_names("mnist")
    ['AllFeatures', 'CAE', 'DIME', 'EVALX', 'GDFS', 'REALX']
    """
    from suwr.baselines import METHODS

    find = {"toy": _toy, "mnist": _mnist}.get(data, lambda m: _syn(int(data[3:]), m))
    return [name for name in METHODS if find(name) is not None]
