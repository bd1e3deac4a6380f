"""Hyper-parameters of the baselines from the paper's Appendix F.

The published λ of INVASE and REAL-X weights the *fraction* of selected features; the estimators of
`suwr.baselines` weight their number, so λ is divided by the number of features. Where the paper
lists several values, `PATHS` has all of them and the preset has the middle one. GDFS, DIME
and SEFA are not part of the paper: their presets have the budget of the other methods and the
network size of SUWR, or on images the networks of their publications.
"""

from __future__ import annotations

from typing import Any

from suwr._utils.validation import check_choice

__all__ = ["PATHS", "preset", "preset_names"]

_DATA = ("toy", "mnist", *(f"syn{n}" for n in range(1, 7)))
_SYN_COLUMNS, _TOY_COLUMNS, _MNIST_COLUMNS = 11, 10, 784
_SYN_UNITS = {1: 1, 2: 4, 3: 4, 4: 5, 5: 5, 6: 5}
# Maximum number of relevant features of a row, for methods without published hyper-parameters.
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

#: Parameter and values that the paper varies, by data set and method.
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
    # Methods that train on sampled masks; INVASE was published with 10,000 batches.
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
        "SEFA": {"hidden_size": 100, "max_steps": _SYN_RELEVANT[number]},
    }
    return known.get(method)


def _mnist(method: str) -> dict[str, Any] | None:
    network: dict[str, Any] = {"hidden_size": 200, "n_layers": 3}
    # As published for MNIST.
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
    """Parameters of a baseline on one of the paper's data sets.

    Parameters
    ----------
    data : {'toy', 'syn1', 'syn2', 'syn3', 'syn4', 'syn5', 'syn6', 'mnist'}
    method : str
        The estimator's name without 'Classifier' or 'Regressor': ``"L2X"``.

    Returns
    -------
    dict
        Keyword arguments of the estimator; others keep their defaults.

    Examples
    --------
    >>> preset("syn4", "L2X")
    {'hidden_size': 200, 'n_layers': 3, 'max_epochs': 300, 'n_units': 5}
    """
    check_choice(data, "data", "preset", _DATA)
    check_choice(method, "method", "preset", tuple(preset_names(data)))
    found = _find(data, method)
    assert found is not None
    return dict(found)


def preset_names(data: str) -> list[str]:
    """Names of the methods that have a preset on a data set.

    Examples
    --------
    >>> preset_names("mnist")
    ['AllFeatures', 'CAE', 'DIME', 'EVALX', 'GDFS', 'REALX']
    """
    from suwr.baselines import METHODS

    return [name for name in METHODS if _find(data, name) is not None]


def _find(data: str, method: str) -> dict[str, Any] | None:
    if data.startswith("syn"):
        return _syn(int(data[3:]), method)
    return _toy(method) if data == "toy" else _mnist(method)
