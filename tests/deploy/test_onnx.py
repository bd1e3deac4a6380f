"""ONNX Runtime decides and predicts as Python does."""

import copy
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from helpers.models import NETWORKS, UNITS, make_policy, random_values, randomize
from helpers.services import functions_of
from helpers.tables import mixed_table, unrecorded_table
from suwr import Costs, SUWRClassifier, SUWRRegressor
from suwr.data.frame import read_table
from suwr.exceptions import MissingExtraError, UnsupportedModelError
from suwr.nn.inputs import MaskedInputs

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")


@pytest.fixture(scope="module")
def plain_model():
    rng = np.random.RandomState(0)
    X = rng.randn(60, 6)
    # One encoded value per column, as the policies of `make_policy` expect.
    model = SUWRClassifier(max_epochs=1, training={"hidden_size": 8, "n_bins": 0}, random_state=0)
    return model.fit(X, (X[:, 0] > 0).astype(int))


@pytest.fixture(scope="module")
def grouped_model():
    """A regression of numbers with gaps, in groups and two units per step."""
    rng = np.random.RandomState(1)
    X = pd.DataFrame(rng.randn(120, 6) * 50 + 200, columns=list("abcdef"))
    y = 1e6 + 300 * X["a"] - 200 * X["e"]
    X = X.mask(rng.rand(*X.shape) < 0.2)
    groups, costs = {"first": ["a", "b"], "last": ["e", "f"]}, {"first": 2.0}
    model = SUWRRegressor(
        groups=groups,
        costs=Costs(costs, of=2),
        max_epochs=1,
        training={"hidden_size": 8},
        random_state=0,
        sparsity_weight=1.0,
    )
    model.fit(X, y)
    return randomize(model, lambda: len(np.unique(model.cost(X[:30]))) > 1), X


def run(path, values, mask):
    names = ["stop_probability", "logits", "prediction"]
    session = onnxruntime.InferenceSession(path)
    return session.run(names, {"values": values, "mask": mask})


def check_step(model, path, values, mask):
    """Compare one step with Python in some states, with NaN for hidden values."""
    policy = model.policy_
    hidden = ~mask.numpy()[:, model.encoder_.column_of]
    stop, logits, prediction = run(path, np.where(hidden, np.nan, values.numpy()), mask.numpy())
    with torch.inference_mode():
        decision = policy.decide(values, mask)
    expected = model.target_.shown(policy.predict(values, mask).numpy())
    np.testing.assert_allclose(stop, decision.stop_probability.numpy(), atol=1e-5)
    np.testing.assert_allclose(logits, decision.logits.numpy(), atol=1e-5)
    np.testing.assert_allclose(prediction, expected, atol=1e-5, rtol=1e-7)


@pytest.mark.parametrize(
    "params",
    [
        {"loss": "absolute_error"},
        {"loss": "gamma"},
        {"target_transform": "log"},
        {"target_transform": "log1p"},
        {"target_transform": "asinh"},
    ],
)
def test_step_of_other_losses(params, tmp_path):
    rng = np.random.RandomState(0)
    X = rng.randn(60, 3)
    model = SUWRRegressor(**params, max_epochs=1, training={"hidden_size": 8}, random_state=0)
    model.fit(X, np.exp(X[:, 0]))
    model.to_onnx(tmp_path / "model.onnx")
    values = torch.tensor(model.encoder_.encode(read_table(X)))
    mask = torch.tensor(rng.rand(60, 3) < 0.5)
    check_step(model, tmp_path / "model.onnx", values, mask)


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("stop_odds", [None, 0.7])
def test_step_of_every_network(network, stop_odds, plain_model, tmp_path):
    model = copy.copy(plain_model)
    model.policy_ = make_policy(3, network=network)
    model.policy_.stop_odds = stop_odds
    path = tmp_path / "step.onnx"
    model.to_onnx(path)
    onnx.checker.check_model(onnx.load(path), full_check=True)
    values = random_values()
    masks = model.policy_.inputs.random_masks((40,), torch.Generator().manual_seed(0))
    masks[0], masks[1] = False, True
    check_step(model, path, values, masks)


@pytest.mark.parametrize("units", UNITS)
def test_units_that_cannot_be_revealed(units, plain_model, tmp_path):
    model = copy.copy(plain_model)
    model.policy_ = policy = make_policy(4, UNITS[units])
    model.units_ = model.units_ if units == "columns" else _units(UNITS[units])
    selectable = np.arange(len(model.units_)) % 2 == 0
    policy.inputs = MaskedInputs.build(model.units_, np.arange(6), "cpu", selectable)
    path = tmp_path / "step.onnx"
    model.to_onnx(path)
    masks = policy.inputs.random_masks((40,), torch.Generator().manual_seed(0))
    masks[0], masks[1] = False, True
    check_step(model, path, random_values(), masks)
    _, logits, _ = run(path, random_values().numpy(), np.zeros((40, 6), dtype=bool))
    assert np.isneginf(logits[:, ~selectable]).all()


def _units(groups):
    from suwr.data.units import resolve_units

    return resolve_units(groups, None, [f"x{i}" for i in range(6)])


def test_hidden_values_do_not_matter(mixed_model, tmp_path):
    path = tmp_path / "mixed.onnx"
    mixed_model.to_onnx(path)
    values = mixed_model._encode(mixed_model._read(mixed_table()[0])).numpy()
    mask = np.random.RandomState(0).rand(len(values), 6) < 0.5
    hidden = ~mask[:, mixed_model.encoder_.column_of]
    expected = run(path, values, mask)
    for poison in (np.nan, np.inf, 1e30, values[::-1]):
        found = run(path, np.where(hidden, poison, values).astype(np.float32), mask)
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)


def check_loop(model, X, path, known=None):
    """Run the loop of the guide, and compare each row with `explain`."""
    guide = functions_of("guides/onnx.md")
    session, metadata = guide["open_model"](path)
    scale = getattr(model, "target_scale_", 1.0)
    lengths = set()
    for number, narrative in enumerate(model.explain(X, known=known)):
        row = X.iloc[number]
        asked = []

        def ask(name, row=row, asked=asked):
            asked.append(name)
            value = row[name]
            return None if pd.isna(value) else value

        order, prediction = guide["rollout"](session, metadata, ask, known)
        assert order == [unit for step in narrative.steps for unit in step.units]
        start = [] if narrative.given is None else list(narrative.given.known)
        assert asked[: len(start)] == start
        assert set(asked) == {name for step in narrative.steps for name in step.columns} | {*start}
        assert len(asked) == len(set(asked))
        np.testing.assert_allclose(prediction, narrative.prediction, atol=1e-5 * scale)
        lengths.add(len(order))
    return lengths


def test_loop_of_the_guide_on_every_type_of_column(mixed_model, tmp_path):
    path = tmp_path / "mixed.onnx"
    mixed_model.to_onnx(path)
    X = mixed_table(60, seed=1)[0]
    X.loc[3, "city"] = "Paris"
    assert len(check_loop(mixed_model, X, path)) > 1


def test_loop_of_the_guide_with_groups_and_missing_values(grouped_model, tmp_path):
    model, X = grouped_model
    path = tmp_path / "grouped.onnx"
    model.to_onnx(path)
    assert len(check_loop(model, X[:30], path)) > 1


def test_loop_of_the_guide_has_at_most_60_lines():
    assert functions_of("guides/onnx.md")["lines"] <= 60


def test_metadata_describes_the_model(grouped_model, tmp_path):
    model, _ = grouped_model
    path = tmp_path / "grouped.onnx"
    model.to_onnx(path)
    _, metadata = functions_of("guides/onnx.md")["open_model"](path)
    assert [c["name"] for c in metadata["columns"]] == list("abcdef")
    assert metadata["units"][0] == {
        "name": "first", "columns": [0, 1], "cost": 2.0, "setup": None,
    }  # fmt: skip
    assert metadata["setup_costs"] == {}
    assert metadata["classes"] is None
    assert metadata["units_per_step"] == 2
    assert metadata["model"] == model.explain(grouped_model[1][:1])[0].receipt().model


def test_metadata_states_setup_costs(tmp_path):
    rng = np.random.RandomState(0)
    X = rng.randn(60, 3)
    model = SUWRClassifier(
        costs=Costs(setup={"draw": (5.0, ["x0", "x2"])}),
        max_epochs=1,
        training={"hidden_size": 4},
        random_state=0,
    ).fit(X, X[:, 0] > 0)
    model.to_onnx(tmp_path / "m.onnx")
    _, metadata = functions_of("guides/onnx.md")["open_model"](tmp_path / "m.onnx")
    assert [unit["setup"] for unit in metadata["units"]] == ["draw", None, "draw"]
    assert metadata["setup_costs"] == {"draw": 5.0}


@pytest.fixture(scope="module")
def started_model():
    """A model that always knows 'age' and 'city', and 'size' in some rows."""
    X, y = mixed_table(80)
    model = SUWRClassifier(
        known_at_start={"age": 1.0, "city": 1.0, "size": 0.3}, groups={"where": ["city", "code"]},
        max_epochs=1, training={"hidden_size": 8}, max_steps=3, random_state=0,
    ).fit(X, y)  # fmt: skip
    return randomize(model, lambda: len(np.unique(model.cost(X[:20]))) > 2)


def test_loop_of_the_guide_starts_from_known_columns(started_model, tmp_path):
    path = tmp_path / "started.onnx"
    started_model.to_onnx(path)
    X = mixed_table(20, seed=1)[0]
    assert len(check_loop(started_model, X, path)) > 1
    check_loop(started_model, X, path, ["age", "city", "size"])
    _, metadata = functions_of("guides/onnx.md")["open_model"](path)
    chance = {c["name"]: c["known_at_start"] for c in metadata["columns"]}
    assert chance == {"age": 1, "member": 0, "code": 0, "city": 1, "level": 0, "size": 0.3}
    assert metadata["missing"] == "value"


@pytest.fixture(scope="module")
def unrecorded_model():
    """A model of cells that may be unrecorded, and rows with such cells."""
    X, y = unrecorded_table(80)
    model = SUWRClassifier(
        missing="unrecorded",
        groups={"where": ["city", "a"]},
        max_epochs=1,
        training={"hidden_size": 8},
        max_steps=3,
        random_state=0,
    ).fit(X, y)
    return randomize(model, lambda: len(np.unique(model.cost(X[:20]))) > 2), X[:20]


def test_loop_of_the_guide_with_unrecorded_cells(unrecorded_model, tmp_path):
    model, X = unrecorded_model
    path = tmp_path / "unrecorded.onnx"
    model.to_onnx(path)
    onnx.checker.check_model(onnx.load(path), full_check=True)
    assert (model.select(X) & X.isna().to_numpy()).any()
    assert len(check_loop(model, X, path)) > 1
    _, metadata = functions_of("guides/onnx.md")["open_model"](path)
    assert metadata["missing"] == "unrecorded"


@pytest.mark.parametrize("network", NETWORKS)
def test_step_of_every_network_with_unrecorded_cells(network, plain_model, tmp_path):
    model = copy.copy(plain_model)
    model.policy_ = make_policy(3, network=network)
    model.policy_.inputs = replace(model.policy_.inputs, unrecorded=True)
    path = tmp_path / "step.onnx"
    model.to_onnx(path)
    values = random_values()
    values[np.random.RandomState(0).rand(*values.shape) < 0.3] = np.nan
    masks = model.policy_.inputs.random_masks((len(values),), torch.Generator().manual_seed(0))
    check_step(model, path, values, masks)


@pytest.mark.parametrize("name", ["started_model", "unrecorded_model"])
def test_raw_cells_that_the_loop_does_not_ask_for_do_not_matter(name, request, tmp_path):
    found = request.getfixturevalue(name)
    model, X = found if name == "unrecorded_model" else (found, mixed_table(20, seed=1)[0])
    path = tmp_path / "model.onnx"
    model.to_onnx(path)
    guide = functions_of("guides/onnx.md")
    session, metadata = guide["open_model"](path)
    values, mask = model._encode(model._read(X)).numpy(), model.select(X)
    expected = run(path, values, mask)
    hidden = ~mask[:, model.encoder_.column_of]
    for poison in (np.nan, np.inf, 1e30, values[::-1]):
        found = run(path, np.where(hidden, poison, values).astype(np.float32), mask)
        for ours, theirs in zip(found, expected, strict=True):
            assert ours.tobytes() == theirs.tobytes()
    for number in range(len(X)):
        row = dict(zip(X.columns, X.iloc[number], strict=True))
        row = {name: None if pd.isna(value) else value for name, value in row.items()}
        shown = {
            name: row[name] for name, revealed in zip(row, mask[number], strict=True) if revealed
        }
        # A hidden cell that is asked for is an error.
        order, prediction = guide["rollout"](session, metadata, shown.__getitem__)
        again, same = guide["rollout"](session, metadata, row.__getitem__)
        assert order == again
        assert prediction.tobytes() == same.tobytes()


def test_one_weight_of_a_range(tmp_path):
    rng = np.random.RandomState(0)
    X = rng.randn(200, 3)
    model = SUWRClassifier(
        sparsity_weight=(0.001, 0.1), max_epochs=5, training={"hidden_size": 8}, random_state=0
    ).fit(X, X[:, 0] > 0)
    values = np.zeros((1, len(model.encoder_.column_of)), np.float32)
    stops = []
    for weight in (0.001, 0.1):
        path = tmp_path / f"{weight}.onnx"
        model.to_onnx(path, sparsity_weight=weight)
        stop, _, _ = run(path, values, np.zeros((1, 3), bool))
        narrative = model.explain(X[:1], sparsity_weight=weight)[0]
        assert stop[0] == pytest.approx(narrative.start_stop_probability, abs=1e-6)
        stops.append(stop[0])
    assert stops[0] != stops[1]


def test_other_networks_are_refused(plain_model, tmp_path):
    model = copy.copy(plain_model)
    model.policy_ = copy.copy(model.policy_)
    network = copy.copy(model.policy_.network)
    network.__class__ = type("Other", (type(network),), {})
    model.policy_.network = network
    with pytest.raises(UnsupportedModelError, match="Got Other instead"):
        model.to_onnx(tmp_path / "x.onnx")
    assert list(tmp_path.iterdir()) == []


def test_missing_extra_is_named(plain_model, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'suwr\[onnx\]'"):
        plain_model.to_onnx(tmp_path / "x.onnx")
