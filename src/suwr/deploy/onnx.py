"""Export to ONNX: one step of Algorithm 1 as a graph, with the encoding as metadata.

The graph is made from the description that HTML pages run (`suwr.estimators.export`), so a model
that a page cannot run is refused here too. Hidden values are replaced inside the graph: whatever a
caller passes for them has no influence.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import suwr
from suwr._utils.files import check_writable, write_atomic
from suwr._utils.validation import require
from suwr.data.encode import BOUND
from suwr.estimators.base import SUWRModel
from suwr.estimators.export import describe_network, describe_output
from suwr.estimators.fitted import FittedPolicy
from suwr.estimators.limits import check_plain_costs, known_at_start

#: Key of the JSON text in the metadata of the file.
METADATA_KEY = "suwr"
#: Version of the ONNX operators; ONNX Runtime 1.18 and later run it.
OPSET = 18
IR_VERSION = 10
FORMAT = 1


def export_onnx(
    model: SUWRModel,
    path: str | os.PathLike[str],
    *,
    sparsity_weight: float | None = None,
    mean_features: float | None = None,
) -> None:
    """Write one step of a fitted model; see `suwr.SUWRClassifier.to_onnx`."""
    onnx = require("onnx", "onnx", "Exporting to ONNX")
    check_writable(path)
    fitted = model.fitted_policy(sparsity_weight, mean_features)
    policy = fitted.policy
    check_plain_costs(policy, model.units_)
    graph = _step_graph(onnx, fitted)
    file = onnx.helper.make_model(
        graph,
        opset_imports=[onnx.helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="suwr",
        producer_version=suwr.__version__,
    )
    text = json.dumps(
        onnx_metadata(fitted, model.target_name_), ensure_ascii=False, allow_nan=False
    )
    onnx.helper.set_model_props(file, {METADATA_KEY: text})
    write_atomic(path, file.SerializeToString())


def onnx_metadata(fitted: FittedPolicy, target_name: str | None) -> dict[str, Any]:
    """Return what a caller needs besides the graph, as JSON types.

    Parameters
    ----------
    fitted : FittedPolicy
    target_name : str or None
    """
    encoder, policy = fitted.encoder, fitted.policy
    try:
        digest = fitted.issuer.model
    except ValueError:
        # A model that cannot be saved has no file.
        digest = None
    codes = zip(encoder.names, encoder.codes, strict=True)
    chance = known_at_start(policy.inputs, encoder.names)
    columns = []
    for name, code in codes:
        facts = {"name": name, "type": code.type, "width": code.width}
        facts |= {"has_missing": code.has_missing}
        if code.categories is None:
            facts |= {"center": code.center, "scale": code.scale, "knots": list(code.knots)}
        else:
            facts |= {"categories": list(code.categories)}
        columns.append(facts | {"known_at_start": chance.get(name, 0.0)})
    units, setups = fitted.units, fitted.units.setups
    names = () if setups is None else setups.names
    prices = () if setups is None else setups.costs.tolist()
    return {
        "format": FORMAT,
        "version": suwr.__version__,
        "model": digest,
        "columns": columns,
        "bound": BOUND,
        "missing": "unrecorded" if encoder.unrecorded else "value",
        "units": [
            {
                "name": name,
                "columns": [int(c) for c in units.columns_of(number)],
                "cost": float(units.costs[number]),
                "setup": None if setups is None else (*names, None)[setups.of_unit[number]],
            }
            for number, name in enumerate(units.names)
        ],
        "setup_costs": dict(zip(names, prices, strict=True)),
        "max_steps": policy.max_steps,
        "units_per_step": policy.units_per_step,
        "classes": fitted.target.labels,
        "target": target_name,
        "certificate": fitted.guarantee,
    }


def _step_graph(onnx: Any, fitted: FittedPolicy) -> Any:
    """Return the graph from (values, mask) to (stop_probability, logits, prediction)."""
    policy, weights = fitted.policy, list[NDArray[np.float32]]()
    description = describe_network(policy, weights)
    output = describe_output(fitted.target, policy.loss)
    graph = _Graph(onnx)
    inputs = policy.inputs
    mask = _recorded(graph, inputs) if inputs.unrecorded else "mask"
    shown = mask
    if not inputs.plain:
        shown = graph.add("Gather", mask, graph.constant(inputs.column_of.cpu().numpy()), axis=1)
    # Hidden values are replaced, not multiplied by 0: NaN · 0 is NaN.
    values = graph.add("Where", shown, "values", graph.number(0))
    numbers = graph.cast(mask, "FLOAT")
    seen = graph.add("Concat", values, numbers, axis=1)
    parameters = iter(weights)
    outputs = [graph.network(net["layers"], seen, parameters) for net in description["networks"]]
    members = [graph.part(outputs, place) for place in description["predict"]]
    prediction = graph.ensemble(members, output)
    available = _available(graph, inputs)
    if description["stop_odds"] is not None:
        stop = graph.confidence_stop(prediction, description["stop_odds"])
    else:
        if description["stop"] is None:
            gain = graph.part(outputs, description["gain"])
        else:
            features = graph.uncertainty(prediction, numbers, fitted.target.n_outputs)
            gain = graph.network(description["stop"]["layers"], features, parameters)
        factor = graph.number(-1.0 / description["stop_temperature"])
        stop = graph.add("Sigmoid", graph.add("Mul", gain, factor))
    n_left = graph.reduce("Max", graph.cast(available, "FLOAT"))
    any_left = graph.add("Greater", n_left, graph.number(0))
    stop = graph.add("Where", any_left, stop, graph.number(1))
    graph.add("Reshape", stop, graph.constant(np.array([-1])), output="stop_probability")
    logits = graph.part(outputs, description["select"])
    graph.add("Where", available, logits, graph.number(-np.inf), output="logits")
    in_user_units = graph.cast(prediction, "DOUBLE")
    if output["kind"] == "value":
        scale, mean = np.float64(output["scale"]), np.float64(output["mean"])
        in_user_units = graph.add("Mul", in_user_units, graph.constant(scale))
        in_user_units = graph.add("Add", in_user_units, graph.constant(mean))
        in_user_units = graph.inverse_transform(in_user_units, output)
    graph.add("Identity", in_user_units, output="prediction")
    widths = (len(inputs.column_of), inputs.n_columns, inputs.n_units, fitted.target.n_outputs)
    return graph.build(*widths)


def _recorded(graph: _Graph, inputs: Any) -> str:
    """Return the revealed columns that are not NaN; see `suwr.nn.inputs.MaskedInputs.reveal`."""
    # The values of one column are all NaN or none is.
    first = np.searchsorted(inputs.column_of.cpu().numpy(), np.arange(inputs.n_columns))
    values = graph.add("Gather", "values", graph.constant(first), axis=1)
    return graph.add("And", "mask", graph.add("Not", graph.add("IsNaN", values)))


def _available(graph: _Graph, inputs: Any) -> str:
    """Return the units that may be revealed and would reveal a column."""
    hidden = graph.add("Not", "mask")
    if not inputs.single:
        members = graph.constant(inputs.membership.cpu().numpy().T.astype(np.float32))
        counts = graph.add("MatMul", graph.cast(hidden, "FLOAT"), members)
        hidden = graph.add("Greater", counts, graph.number(0))
    if inputs.selectable is None:
        return hidden
    return graph.add("And", hidden, graph.constant(inputs.selectable.cpu().numpy()))


class _Graph:
    """Nodes and constants of a graph under construction; values are referred to by name."""

    def __init__(self, onnx: Any) -> None:
        self.onnx = onnx
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def add(self, operator: str, *inputs: str, output: str | None = None, **options: Any) -> str:
        """Add a node; return the name of its first output."""
        name = output or f"{operator.lower()}_{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(operator, list(inputs), [name], **options))
        return name

    def constant(self, array: Any) -> str:
        name = f"constant_{len(self.constants)}"
        self.constants.append(self.onnx.numpy_helper.from_array(np.asarray(array), name))
        return name

    def number(self, value: float) -> str:
        return self.constant(np.float32(value))

    def cast(self, name: str, type: str) -> str:
        return self.add("Cast", name, to=getattr(self.onnx.TensorProto, type))

    def reduce(self, operator: str, name: str) -> str:
        """Reduce the second dimension to one entry."""
        return self.add(f"Reduce{operator}", name, self.constant(np.array([1])))

    def columns(self, name: str, start: int, stop: int) -> str:
        bounds = [self.constant(np.array([place])) for place in (start, stop, 1)]
        return self.add("Slice", name, *bounds)

    def part(self, outputs: Sequence[str], place: Sequence[int]) -> str:
        """Return the slice ``[network, start, stop]`` of the outputs of the networks."""
        number, start, stop = place
        return self.columns(outputs[number], start, stop)

    def network(self, layers: Sequence[dict[str, Any]], name: str, parameters: Any) -> str:
        """Add the layers of a network, in the terms of `suwr.estimators.export`."""
        extra: NDArray[np.float32] = np.zeros(0, dtype=np.float32)
        flat = True
        for layer in layers:
            if layer["kind"] == "append":
                extra = np.array(layer["values"], dtype=np.float32)
                continue
            weight, bias = next(parameters), next(parameters)
            if layer["kind"] == "conv":
                if flat:
                    shape = self.constant(np.array([-1, *layer["image"]]))
                    name, flat = self.add("Reshape", name, shape), False
                inputs = (name, self.constant(weight), self.constant(bias))
                strides, pads = [layer["stride"]] * 2, [layer["padding"]] * 4
                name = self.add("Conv", *inputs, strides=strides, pads=pads)
            else:
                if not flat:
                    name, flat = self.add("Flatten", name), True
                # Constant inputs are part of the bias.
                n = len(weight) - len(extra)
                shift = bias.reshape(-1) + extra @ weight[n:]
                name = self.add("Gemm", name, self.constant(weight[:n]), self.constant(shift))
                extra = extra[:0]
            if layer["activation"] == "hardswish":
                name = self.add("HardSwish", name)
        return name

    def ensemble(self, members: Sequence[str], output: dict[str, Any]) -> str:
        """Return the mean prediction of the members; see `describe_output`."""
        if output["kind"] == "probabilities":
            members = [self.add("Softmax", member, axis=1) for member in members]
        elif "max_log" in output:
            low, high = self.number(-output["max_log"]), self.number(output["max_log"])
            members = [self.add("Exp", self.add("Clip", member, low, high)) for member in members]
        return self.add("Mean", *members)

    def inverse_transform(self, name: str, output: dict[str, Any]) -> str:
        """Return values in the units of the target; see `suwr.estimators.targets`."""
        transform = output.get("transform")
        if transform is None:
            return name
        low, high = (self.constant(np.float64(s * output["max_transformed"])) for s in (-1, 1))
        name = self.add("Clip", name, low, high)
        value = self.add("Exp", name)
        if transform == "log1p":
            return self.add("Sub", value, self.constant(np.float64(1)))
        if transform == "asinh":
            # Runtimes need not support Sinh of double-precision numbers.
            twice = self.add("Sub", value, self.add("Exp", self.add("Neg", name)))
            return self.add("Mul", twice, self.constant(np.float64(0.5)))
        return value

    def others(self, probability: str) -> str:
        """Return the probability of all classes but the most probable one."""
        place = self.add("ArgMax", probability, axis=1)
        nothing = self.cast(self.add("Sub", place, place), "FLOAT")
        rest = self.add("ScatterElements", probability, place, nothing, axis=1)
        return self.reduce("Sum", rest)

    def confidence_stop(self, probability: str, odds: float) -> str:
        """Return ζ_stop of a policy that stops by confidence; see `suwr.nn.rollout.Policy`."""
        first = self.add("Mul", self.reduce("Max", probability), self.number(odds))
        return self.add("Div", first, self.add("Add", first, self.others(probability)))

    def uncertainty(self, probability: str, mask: str, n_classes: int) -> str:
        """Return `suwr.nn.inputs.uncertainty_features`."""

        def log(name: str, least: float) -> str:
            return self.add("Log", self.add("Max", name, self.number(least)))

        product = self.add("Mul", probability, log(probability, 1e-9))
        entropy = self.add("Div", self.reduce("Sum", product), self.number(-np.log(n_classes)))
        two, places = f"top_{len(self.nodes)}", f"places_{len(self.nodes)}"
        self.nodes.append(
            self.onnx.helper.make_node(
                "TopK", [probability, self.constant(np.array([2]))], [two, places], axis=1
            )
        )
        left = self.add("Div", log(self.others(probability), 1e-4), self.number(np.log(1e-4)))
        return self.add("Concat", entropy, two, left, self.reduce("Mean", mask), axis=1)

    def build(self, n_values: int, n_columns: int, n_units: int, n_outputs: int) -> Any:
        """Return the graph with its inputs and outputs."""
        types, info = self.onnx.TensorProto, self.onnx.helper.make_tensor_value_info
        return self.onnx.helper.make_graph(
            self.nodes,
            "suwr_step",
            [
                info("values", types.FLOAT, ["n", n_values]),
                info("mask", types.BOOL, ["n", n_columns]),
            ],
            [
                info("stop_probability", types.FLOAT, ["n"]),
                info("logits", types.FLOAT, ["n", n_units]),
                info("prediction", types.DOUBLE, ["n", n_outputs]),
            ],
            self.constants,
        )
