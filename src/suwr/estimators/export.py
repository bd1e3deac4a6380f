"""A fitted model written down as data: what a program without Python needs to run Algorithm 1.

`describe_network` is the only place that knows how networks are built. A network that it does not
know is refused: a page must never run something that only resembles the model.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from suwr.data.encoding import BOUND, ColumnCode
from suwr.exceptions import UnsupportedModelError
from suwr.nn.ensembles import EnsembleConv, EnsembleMLP
from suwr.nn.losses import CrossEntropy, Loss, SquaredError
from suwr.nn.networks import (
    Architecture,
    InformedPolicy,
    Network,
    SeparateNetwork,
    SharedNetwork,
)
from suwr.nn.rollout import Policy
from suwr.report.source import PageModel

if TYPE_CHECKING:
    from suwr.estimators.sequential import SequentialModel

__all__ = ["describe_network", "export_model"]

FORMAT = 1
Weights = list[NDArray[np.float32]]


def export_model(model: SequentialModel, policy: Policy) -> PageModel:
    """Encoding, units, networks and output of a fitted model.

    Parameters
    ----------
    model : SequentialModel
        Fitted.
    policy : Policy
        What it decides by.

    Raises
    ------
    UnsupportedModelError
        It has networks or a loss that have no description here.
    """
    weights: Weights = []
    description = {
        "format": FORMAT,
        "codes": [_code(code) for code in model.encoder_.codes],
        "bound": BOUND,
        "max_steps": policy.max_steps,
        "units_per_step": policy.units_per_step,
        "output": _output(model, policy.loss),
        **describe_network(policy, weights),
    }
    return PageModel(description, np.concatenate([w.ravel() for w in weights]))


def describe_network(policy: Policy, weights: Weights) -> dict[str, Any]:
    """Networks as lists of layers, and which of their outputs mean what.

    ``inputs`` names what a network reads, one part after the other: 'values' (the encoded row, 0
    where it is hidden) and 'mask' (one number per column). Its layers follow, of three kinds:
    'dense' multiplies by a matrix of ``shape``, adds a bias and applies ``activation``; 'conv' does
    so with a square window over an ``image`` of (channels, height, width); 'append' adds constant
    ``values``. The numbers are appended to ``weights``: for each layer its matrix or windows
    (out, in, size, size), row by row, then the bias.

    ``gain``, ``select`` and each of ``predict`` are ``[network, first output, last + 1]``. The
    predictions of the members are averaged after the output function. ``stop``, where there is one,
    is one more network, that tells the gain instead: it reads 'doubts' (see
    `suwr.nn.networks.doubts`).
    """
    network = policy.network
    known = _DESCRIPTIONS.get(type(network))
    if known is None:
        raise UnsupportedModelError(
            f"A page can run {', '.join(k.__name__ for k in _DESCRIPTIONS)}. "
            f"This model has a {type(network).__name__}."
        )
    told = [] if policy.condition is None else [policy.condition]
    condition = torch.tensor(policy.condition) if told else None
    return {
        "stop_temperature": float(network.temperature(condition)),
        **known(network, told, weights),
    }


def _separate(network: SeparateNetwork, told: list[float], weights: Weights) -> dict[str, Any]:
    a, policy, predictor = network.architecture, network.policy, network.predictor
    if type(policy) is InformedPolicy:
        nets = [*_networks(policy.select, a, told, weights), *_networks(predictor, a, [], weights)]
        heads = {
            "stop": _doubting(policy.stop, told, weights),
            "gain": None,
            "select": [0, 0, a.n_units],
        }
    else:
        nets = [*_networks(policy, a, told, weights), *_networks(predictor, a, [], weights)]
        heads = {"stop": None, "gain": [0, 0, 1], "select": [0, 1, 1 + a.n_units]}
    predict = [[number, 0, a.n_outputs] for number in range(1, len(nets))]
    return {"networks": nets, "predict": predict, **heads}


def _shared(network: SharedNetwork, told: list[float], weights: Weights) -> dict[str, Any]:
    a = network.architecture
    return {
        "networks": _networks(network.encoder, a, told, weights),
        "stop": None,
        "gain": [0, 0, 1],
        "select": [0, 1, 1 + a.n_units],
        "predict": [[0, 1 + a.n_units, 1 + a.n_units + a.n_outputs]],
    }


# Exact types: a subclass may decide differently with the same weights.
_DESCRIPTIONS: dict[type[Network], Callable[[Any, list[float], Weights], dict[str, Any]]] = {
    SeparateNetwork: _separate,
    SharedNetwork: _shared,
}


def _networks(
    ensemble: nn.Module, a: Architecture, told: list[float], weights: Weights
) -> list[dict[str, Any]]:
    """Every member of an ensemble as a network of its own; it is ``told`` some constants."""
    dense = ensemble.dense if type(ensemble) is EnsembleConv else ensemble
    if type(dense) is not EnsembleMLP:
        raise UnsupportedModelError(
            "A page can run plain and convolutional networks. "
            f"This model has a {type(ensemble).__name__}."
        )
    described = []
    for member in range(dense.weights[0].shape[0]):
        layers: list[dict[str, Any]] = []
        width = a.n_inputs
        if type(ensemble) is EnsembleConv:
            layers, width = _convolutions(ensemble, member, weights)
        if told:
            layers.append({"kind": "append", "values": told})
        if dense.weights[0].shape[1] != width + len(told):
            raise UnsupportedModelError(
                "A page can run networks that read the values, the mask and the price. "
                f"This model has one of {dense.weights[0].shape[1]} inputs."
            )
        layers += _dense(dense, member, weights)
        described.append({"inputs": ["values", "mask"], "layers": layers})
    return described


def _doubting(stop: nn.Module, told: list[float], weights: Weights) -> dict[str, Any]:
    assert type(stop) is EnsembleMLP
    layers = [{"kind": "append", "values": told}] if told else []
    return {"inputs": ["doubts"], "layers": layers + _dense(stop, 0, weights)}


def _dense(ensemble: EnsembleMLP, member: int, weights: Weights) -> list[dict[str, Any]]:
    layers = []
    for weight, bias in zip(ensemble.weights, ensemble.biases, strict=True):
        weights += [_numbers(weight[member]), _numbers(bias[member])]
        shape = list(weight.shape[1:])
        layers.append({"kind": "dense", "shape": shape, "activation": "hardswish"})
    layers[-1]["activation"] = "none"
    return layers


def _convolutions(
    ensemble: EnsembleConv, member: int, weights: Weights
) -> tuple[list[dict[str, Any]], int]:
    """Layers over the image and its mask, and how many numbers come out of them."""
    layers: list[dict[str, Any]] = []
    image = [2, *ensemble.image_shape]
    for part in ensemble.images[member].children():
        if isinstance(part, nn.Conv2d):
            assert part.bias is not None
            weights += [_numbers(part.weight), _numbers(part.bias)]
            size, stride, padding = part.kernel_size[0], part.stride[0], int(part.padding[0])
            layers.append(
                {
                    "kind": "conv",
                    "image": image,
                    "n_out": part.out_channels,
                    "size": size,
                    "stride": stride,
                    "padding": padding,
                    "activation": "none",
                }
            )
            sides = [(side + 2 * padding - size) // stride + 1 for side in image[1:]]
            image = [part.out_channels, *sides]
        elif isinstance(part, nn.Hardswish):
            layers[-1]["activation"] = "hardswish"
        elif not isinstance(part, nn.Flatten):
            raise UnsupportedModelError(
                f"A page cannot run the layer {type(part).__name__} of this model."
            )
    return layers, math.prod(image)


def _numbers(tensor: Tensor) -> NDArray[np.float32]:
    return tensor.detach().cpu().numpy()


def _code(code: ColumnCode) -> dict[str, Any]:
    if code.categories is None:
        return {"center": code.center, "scale": code.scale, "has_missing": code.has_missing}
    return {"categories": list(code.categories), "has_missing": code.has_missing}


def _output(model: SequentialModel, loss: Loss) -> dict[str, Any]:
    """What turns outputs of a predictor into what the user knows."""
    if isinstance(loss, CrossEntropy):
        return {"kind": "probabilities"}
    if isinstance(loss, SquaredError):
        low, high = model._in_user_units(np.array([[0.0], [1.0]], dtype=np.float32))[:, 0]
        return {"kind": "value", "scale": float(high - low), "mean": float(low)}
    raise UnsupportedModelError(
        f"A page can show classes and values. This model has a {type(loss).__name__}."
    )
