"""Export of a fitted model as data, so that Algorithm 1 can run without Python.

HTML pages and ONNX files are made from it. `describe_network` supports exactly the networks that it
knows. Any other network is refused: a page must compute what the model computes, not an
approximation of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from suwr.data.encode import BOUND, ColumnCode, TableEncoder
from suwr.estimators.container import ModelIssuer
from suwr.estimators.limits import always_known
from suwr.estimators.targets import MAX_TRANSFORMED, Target, ValueTarget
from suwr.exceptions import UnsupportedModelError
from suwr.narrative.effects import StepEffects
from suwr.narrative.explanation import PageModel
from suwr.nn.ensembles import EnsembleConv, EnsembleMLP
from suwr.nn.inputs import UncertaintyStopPolicy, encode_position
from suwr.nn.losses import MAX_LOG, CrossEntropy, Loss, ValueLoss
from suwr.nn.networks import Architecture, Network, SeparateNetwork, SharedNetwork
from suwr.nn.rollout import Policy

FORMAT = 2
# Rows for which a page compares its predictions with those of Python.
MAX_REFERENCES = 12
Weights = list[NDArray[np.float32]]


def export_model(
    policy: Policy,
    encoder: TableEncoder,
    target: Target,
    issuer: ModelIssuer,
    last: str,
    effects: StepEffects | None = None,
) -> PageModel:
    """Describe the encoding, the units, the networks and the output of a fitted model.

    Parameters
    ----------
    policy : Policy
        The policy to export, at one λ.
    encoder : TableEncoder
    target : Target
    issuer : ModelIssuer
    last : str
        How a narrative ends after the maximum number of steps; see `Narrative.ended`.
    effects : StepEffects, optional
        How often steps move predictions.

    Raises
    ------
    UnsupportedModelError
        The model has a network or a loss that cannot be exported.
    """
    if policy.inputs.budgets is not None:
        raise UnsupportedModelError("Models with 'max_cost' can be used in Python only.")
    weights: Weights = []
    start = always_known(policy.inputs, encoder.names)
    description = {
        "format": FORMAT,
        "codes": [_code(code) for code in encoder.codes],
        "bound": BOUND,
        "start": [c for c, name in enumerate(encoder.names) if name in start],
        "unrecorded": policy.inputs.unrecorded,
        "max_steps": policy.max_steps,
        "units_per_step": policy.units_per_step,
        "budget_ending": last,
        "selectable": _selectable(policy),
        "output": describe_output(target, policy.loss),
        **describe_network(policy, weights),
        "references": _references(policy, encoder, target),
        "effects": {} if effects is None else effects.table(),
        "movement": None if effects is None else effects.movement,
    }
    try:
        facts = {
            "model": issuer.model,
            "condition": issuer.condition,
            "classes": target.labels,
            "certificate": issuer.certificate,
        }
    except ValueError:
        # A model that cannot be saved has no receipts.
        facts = None
    return PageModel(description, np.concatenate([w.ravel() for w in weights]), facts)


def _selectable(policy: Policy) -> list[bool]:
    """Whether each unit can be revealed."""
    inputs = policy.inputs
    return [True] * inputs.n_units if inputs.selectable is None else inputs.selectable.tolist()


def describe_network(policy: Policy, weights: Weights) -> dict[str, Any]:
    """Describe the networks as lists of layers, with the meaning of their outputs.

    ``inputs`` lists the parts of a network's input, which are concatenated: 'values' (the encoded
    row, 0 where it is unrevealed) and 'mask' (one number per column). There are three kinds of
    layers: 'dense' multiplies by a matrix of ``shape``, adds a bias and applies ``activation``;
    'conv' is a convolution with a square kernel over an ``image`` of (channels, height, width);
    'append' concatenates constant ``values``. The parameters are appended to ``weights``: for each
    layer the matrix, or the kernels (out, in, size, size), in row-major order, then the bias.

    ``gain``, ``select`` and each of ``predict`` are ``[network, start, stop]``, a slice of the
    outputs of a network. The predictions of the ensemble members are averaged after the output
    function. If ``stop`` is not None it is a further network that computes the gain; its input is
    'uncertainty', the uncertainty features of the prediction (see
    `suwr.nn.inputs.uncertainty_features`). ``stop_odds`` replaces the gain; see `Policy`.
    """
    network = policy.network
    known = _DESCRIPTIONS.get(type(network))
    if known is None:
        raise UnsupportedModelError(
            f"Only {', '.join(k.__name__ for k in _DESCRIPTIONS)} can be exported. "
            f"Got {type(network).__name__} instead."
        )
    condition = None if policy.condition is None else torch.tensor(policy.condition)
    knots = network.architecture.n_knots
    constants = [] if condition is None else encode_position(condition, knots).tolist()
    return {
        "stop_temperature": float(network.temperature(condition)),
        "stop_odds": policy.stop_odds,
        **known(network, constants, weights),
    }


def _separate(network: SeparateNetwork, constants: list[float], weights: Weights) -> dict[str, Any]:
    a, policy, predictor = network.architecture, network.policy, network.predictor
    if type(policy) is UncertaintyStopPolicy:
        nets = [
            *_networks(policy.select, a, constants, weights),
            *_networks(predictor, a, [], weights),
        ]
        heads = {
            "stop": _stop_network(policy.stop, constants, weights),
            "gain": None,
            "select": [0, 0, a.n_units],
        }
    else:
        nets = [*_networks(policy, a, constants, weights), *_networks(predictor, a, [], weights)]
        heads = {"stop": None, "gain": [0, 0, 1], "select": [0, 1, 1 + a.n_units]}
    predict = [[number, 0, a.n_outputs] for number in range(1, len(nets))]
    return {"networks": nets, "predict": predict, **heads}


def _shared(network: SharedNetwork, constants: list[float], weights: Weights) -> dict[str, Any]:
    a = network.architecture
    return {
        "networks": _networks(network.encoder, a, constants, weights),
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
    ensemble: nn.Module, a: Architecture, constants: list[float], weights: Weights
) -> list[dict[str, Any]]:
    """Describe every member of an ensemble; ``constants`` are appended to its inputs."""
    dense = ensemble.dense if type(ensemble) is EnsembleConv else ensemble
    if type(dense) is not EnsembleMLP:
        raise UnsupportedModelError(
            "Only multilayer perceptrons and convolutional networks can be exported. "
            f"Got {type(ensemble).__name__} instead."
        )
    described = []
    for member in range(dense.weights[0].shape[0]):
        layers: list[dict[str, Any]] = []
        width = a.n_inputs
        if type(ensemble) is EnsembleConv:
            layers, width = _convolutions(ensemble, member, weights)
        if constants:
            layers.append({"kind": "append", "values": constants})
        if dense.weights[0].shape[1] != width + len(constants):
            raise UnsupportedModelError(
                "Only networks with the values, the mask and λ as inputs can be exported. "
                f"Got a network with {dense.weights[0].shape[1]} inputs instead."
            )
        layers += _dense(dense, member, weights)
        described.append({"inputs": ["values", "mask"], "layers": layers})
    return described


def _stop_network(stop: nn.Module, constants: list[float], weights: Weights) -> dict[str, Any]:
    assert type(stop) is EnsembleMLP
    layers = [{"kind": "append", "values": constants}] if constants else []
    return {"inputs": ["uncertainty"], "layers": layers + _dense(stop, 0, weights)}


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
    """Describe the convolutions over the image and its mask; also return the output size."""
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
            raise UnsupportedModelError(f"The layer {type(part).__name__} cannot be exported.")
    return layers, math.prod(image)


def _numbers(tensor: Tensor) -> NDArray[np.float32]:
    return tensor.detach().cpu().numpy()


def _code(code: ColumnCode) -> dict[str, Any]:
    facts = {"type": code.type, "has_missing": code.has_missing}
    if code.categories is None:
        return {"center": code.center, "scale": code.scale, "knots": list(code.knots), **facts}
    return {"categories": list(code.categories), **facts}


def _references(policy: Policy, encoder: TableEncoder, target: Target) -> list[dict[str, Any]]:
    """Return rows with the predictions for all columns revealed.

    With them, a page that encodes a column differently detects that it does not agree with the
    model.
    """
    rows, values = reference_rows(encoder, policy.device)
    mask = torch.ones((len(rows), len(encoder.names)), dtype=torch.bool, device=values.device)
    predictions = target.shown(policy.predict(values, mask).cpu().numpy())
    return [
        {"cells": row, "prediction": [float(p) for p in prediction]}
        for row, prediction in zip(rows, predictions, strict=True)
    ]


def reference_rows(encoder: TableEncoder, device: torch.device) -> tuple[list[list[Any]], Tensor]:
    """Return made-up rows with numbers, categories and missing values of every column.

    Returns
    -------
    rows : list of list
    values : Tensor
        The encoded rows.
    """
    cells = [_reference_cells(code) for code in encoder.codes]
    n_rows = min(MAX_REFERENCES, max(len(column) for column in cells))
    rows = [[column[i % len(column)] for column in cells] for i in range(n_rows)]
    columns = [np.array(column, dtype=object) for column in zip(*rows, strict=True)]
    encoded = encoder.encode(encoder.parse(columns))
    return rows, torch.as_tensor(encoded, device=device)


def _reference_cells(code: ColumnCode) -> list[Any]:
    if code.categories is not None:
        return [*code.categories[: MAX_REFERENCES - 1], None]
    numbers = [code.center + steps * code.scale for steps in (0.0, 1.5, -2.5)]
    # A few digits suffice, since Python and the page read the same rounded numbers.
    return [float(f"{number:.6g}") for number in numbers if math.isfinite(number)] + [None]


def describe_output(target: Target, loss: Loss) -> dict[str, Any]:
    """Describe the transformation from predictor outputs to predictions."""
    if isinstance(loss, CrossEntropy):
        return {"kind": "probabilities"}
    if isinstance(loss, ValueLoss) and isinstance(target, ValueTarget):
        output = {"kind": "value", "scale": target.scale, "mean": target.center}
        if loss.link == "log":
            output["max_log"] = MAX_LOG
        if target.transform is not None:
            # `mean` and `scale` are of the transformed target.
            output |= {"transform": target.transform, "max_transformed": MAX_TRANSFORMED}
        return output
    raise UnsupportedModelError(f"Models with the loss {type(loss).__name__} cannot be exported.")
