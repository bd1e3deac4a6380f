"""Model files: round trips, files of earlier versions, and damaged or hostile files."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from random import Random
from types import MappingProxyType

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_classification

import suwr
import suwr.estimators.files as module
from helpers.model_files import ACCIDENTS, FORGERIES, forged, resized, rows_for, take_apart, watched
from suwr import Costs, Patches, SUWRClassifier, SUWRRegressor, TrainingConfig
from suwr.estimators.files import FORMAT, from_bytes, to_bytes
from suwr.exceptions import ModelFileError, TableError

FIXTURES = Path(__file__).parent / "fixtures"
SMALL = {"max_epochs": 2, "training": {"hidden_size": 8}, "random_state": 0}


def roundtrip(model, tmp_path):
    path = tmp_path / "model.suwr"
    model.save(path)
    return suwr.load(path)


@pytest.mark.parametrize(
    "labels",
    [[0, 1], ["no", "yes"], [1.0, 2.0], [False, True], np.array([3, 4], dtype=np.uint8),
     np.array(["no", "yes"], dtype=object)],
)  # fmt: skip
def test_classes_keep_their_type(tmp_path, labels):
    X, y = make_classification(60, 4, random_state=0)
    model = SUWRClassifier(**SMALL).fit(X, np.array(labels)[y])
    again = roundtrip(model, tmp_path)
    assert again.classes_.dtype == model.classes_.dtype
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(again.select(X), model.select(X))
    assert again.predict(X).tolist() == model.predict(X).tolist()


def test_explanations_and_parameters_survive(tmp_path, classifier, regressor, cancer, diabetes):
    X = cancer[0].iloc[:, :10]
    assert roundtrip(classifier, tmp_path).explain(X) == classifier.explain(X)
    X = diabetes[0]
    assert roundtrip(regressor, tmp_path).explain(X) == regressor.explain(X)
    assert roundtrip(regressor, tmp_path).get_params() == regressor.get_params()


def test_groups_costs_patches_and_categories_survive(tmp_path):
    X = np.random.RandomState(0).randn(40, 6)
    y = X[:, 0]
    patches = SUWRRegressor(**SMALL, groups=Patches((2, 3), size=(1, 2))).fit(X, y)
    again = roundtrip(patches, tmp_path)
    assert again.groups == patches.groups
    assert again.units_.names == patches.units_.names
    frame = pd.DataFrame({"a": X[:, 0], "c": np.where(X[:, 1] > 0, "u", "v"), "f": X[:, 2] > 0})
    named = SUWRRegressor(**SMALL, groups={"g": ["a", "c"]}, costs={"g": 2}).fit(frame, y)
    again = roundtrip(named, tmp_path)
    assert again.explain(frame) == named.explain(frame)
    assert again.units_.costs.tolist() == [2, 1]
    assert again.feature_names_in_.tolist() == ["a", "c", "f"]


def test_parameters_of_unusual_types_survive(tmp_path):
    X = np.random.RandomState(0).randn(40, 3)
    groups = MappingProxyType({"g": np.array([0, 1])})
    model = SUWRRegressor(
        **SMALL | {"random_state": np.random.RandomState(0)}, groups=groups,
        costs=pd.Series([2.0, 3.0]), sparsity_weight=np.float32(0.5),
    ).fit(X, X[:, 0])  # fmt: skip
    again = roundtrip(model, tmp_path)
    assert again.units_.names == ("g", "x2")
    assert again.units_.costs.tolist() == [2, 3]
    assert again.sparsity_weight_ == 0.5
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_classes_without_a_json_type_are_refused_by_save(tmp_path):
    X, y = make_classification(60, 4, random_state=0)
    model = SUWRClassifier(**SMALL).fit(X, y)
    model.target_ = replace(model.target_, classes=np.array([b"no", b"yes"]))
    with pytest.raises(ValueError, match="Class labels must be numbers, strings or booleans"):
        model.save(tmp_path / "model.suwr")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("training", [TrainingConfig(rollouts=3), {"rollouts": 3}, None])
def test_training_settings_and_history_survive(tmp_path, training):
    X, y = make_classification(200, 4, random_state=0)
    model = SUWRClassifier(**SMALL | {"training": training}).fit(X, y)
    again = roundtrip(model, tmp_path)
    assert again.training == training
    assert again.history_ == model.history_
    assert len(again.history_) == 5


def test_a_reinforce_model_survives(tmp_path):
    X, y = make_classification(60, 4, random_state=0)
    model = SUWRClassifier(**SMALL, trainer="reinforce").fit(X, y)
    np.testing.assert_array_equal(
        roundtrip(model, tmp_path).predict_proba(X), model.predict_proba(X)
    )


@pytest.fixture(scope="module")
def data():
    X, y = make_classification(60, 4, random_state=0)
    return to_bytes(SUWRClassifier(**SMALL).fit(X, y))


@pytest.fixture(scope="module")
def image_model():
    X = np.random.RandomState(0).randn(40, 16)
    groups = Patches((4, 4), size=2)
    settings = {"max_epochs": 1, "max_steps": 1, "random_state": 0, "trainer": "lookahead"}
    training = {"hidden_size": 4, "network": "conv"}
    model = SUWRClassifier(**settings, groups=groups, training=training)
    return to_bytes(model.fit(X, X[:, 0] > 0))


def test_every_truncation_is_refused(data):
    for size in [0, 1, 7, 8, 9, 100, len(data) // 2, len(data) - 1]:
        with pytest.raises(ModelFileError, match="not a suwr model file, or it is truncated"):
            from_bytes(data[:size])


def test_every_flipped_bit_is_refused(data):
    rng = np.random.RandomState(0)
    refused = 0
    for place in rng.randint(0, len(data), 300):
        altered = bytearray(data)
        altered[place] ^= 1 << rng.randint(8)
        try:
            model = from_bytes(bytes(altered))
        except ModelFileError:
            refused += 1
        else:
            # Only white space in the header has no meaning.
            assert to_bytes(model) == data
    assert refused > 290


def rewritten(data, **changes):
    """Return a file with a changed state and a valid digest."""
    state, tensors = take_apart(data)
    return forged(state | changes, tensors)


def test_a_newer_format_is_reported(data):
    with pytest.raises(ModelFileError, match=r"format 99, written by suwr 9\.9.*Upgrade suwr"):
        from_bytes(rewritten(data, format=99, version="9.9"))


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "os.system"},
        {"params": {"evil": 1}},
        {"architecture": {"hidden_size": 10**9}},
        {"encoder": {"names": ["a"], "codes": []}},
        {"classes": {"kind": "O", "values": None}},
        {"format": "one"},
        {"history": [{"epoch": 1}]},
        {"history": 5},
    ],
)
def test_invalid_states_are_refused(data, changes):
    with pytest.raises(ModelFileError):
        from_bytes(rewritten(data, **changes))


def test_huge_declared_shapes_allocate_nothing(data):
    architecture = take_apart(data)[0]["architecture"]
    for field in ("hidden_size", "n_layers", "n_members"):
        with pytest.raises(ModelFileError, match="does not match its tensors"):
            from_bytes(rewritten(data, architecture=architecture | {field: 10**7}))


def test_foreign_files(tmp_path):
    path = tmp_path / "model.suwr"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ModelFileError, match="not a suwr model file"):
        suwr.load(path)
    with pytest.raises(FileNotFoundError):
        suwr.load(tmp_path / "none.suwr")


def test_saving_to_a_missing_folder_writes_nothing(tmp_path, classifier):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        classifier.save(tmp_path / "no" / "model.suwr")
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_stops_by_predictive_uncertainty(tmp_path):
    X = np.random.RandomState(0).randn(90, 5)
    y = X[:, 0] + X[:, 1] > 0
    clf = SUWRClassifier(
        trainer="lookahead",
        sparsity_weight=(0.01, 0.1),
        max_epochs=3,
        random_state=0,
        training={"hidden_size": 8, "rollouts": 3},
    ).fit(X, y)
    clf.save(tmp_path / "m.suwr")
    again = suwr.load(tmp_path / "m.suwr")
    assert again.policy_.network.architecture.informed
    assert again.training == {"hidden_size": 8, "rollouts": 3}
    for weight in (0.01, 0.1):
        np.testing.assert_array_equal(
            again.predict_proba(X, sparsity_weight=weight),
            clf.predict_proba(X, sparsity_weight=weight),
        )


def subject(kind, version=1):
    """Return a file of a format, rows, and the results of the model when it was written."""
    known = json.loads((FIXTURES / f"{kind}-{version}.json").read_text())
    named = isinstance(known["rows"][0], dict)
    rows = pd.DataFrame(known["rows"]) if named else np.array(known["rows"])
    return FIXTURES / f"{kind}-{version}.suwr", rows, known


@pytest.mark.parametrize("version", range(1, FORMAT + 1))
@pytest.mark.parametrize("kind", ["classifier", "regressor"])
def test_files_of_every_format_load(kind, version):
    path, rows, known = subject(kind, version)
    model = suwr.load(path)
    assert take_apart(path.read_bytes())[0]["format"] == version
    assert model.select(rows).astype(int).tolist() == known["mask"]
    assert [[s.unit for s in e.steps] for e in model.explain(rows)] == known["steps"]
    if kind == "classifier":
        assert model.predict(rows).tolist() == known["prediction"]
        np.testing.assert_allclose(model.predict_proba(rows), known["probability"], atol=1e-5)
    else:
        np.testing.assert_allclose(model.predict(rows), known["prediction"], rtol=1e-5)
    # What only format 2 has: a certificate, and costs of each row.
    if "certificate" in known:
        assert model.certificate_.to_dict() == known["certificate"]
    if "cost" in known:
        np.testing.assert_allclose(model.cost(rows), known["cost"], rtol=1e-6)


@pytest.mark.parametrize("kind", ["classifier", "regressor"])
def test_missing_fields_take_their_defaults(kind):
    path, rows, known = subject(kind)
    state, tensors = take_apart(path.read_bytes())
    # The defaults of these fields equal their values in the file.
    del state["architecture"]["n_members"], state["architecture"]["shared"]
    del state["params"]["validation_fraction"], state["params"]["verbose"]
    model = from_bytes(forged(state, tensors))
    assert model.select(rows).astype(int).tolist() == known["mask"]


def test_training_settings_that_were_removed_are_dropped():
    path, rows, known = subject("classifier")
    state, tensors = take_apart(path.read_bytes())
    state["params"]["training"] = {"states_per_row": 2, "rollouts": 3}
    model = from_bytes(forged(state, tensors))
    assert model.training["rollouts"] == 3
    assert model.training["hidden_size"] == state["params"]["hidden_size"]
    assert "states_per_row" not in model.training
    assert model.select(rows).astype(int).tolist() == known["mask"]


def test_parameters_of_earlier_versions_are_translated():
    assert suwr.load(FIXTURES / "regressor-1.suwr").costs == Costs(of=2)
    state, tensors = take_apart(subject("classifier")[0].read_bytes())
    old = {"setup_costs": {"a": [2.0, ["size"]]}, "visit_cost": 1.5}
    state["params"] |= {**old, "hidden_size": 7, "n_predictors": 6, "network": "mlp"}
    model = from_bytes(forged(state, tensors))
    assert model.costs == Costs({"size": 2.0}, setup={"a": (2.0, ["size"])}, visit=1.5)
    # Defaults are not spelled out.
    assert model.training == {"hidden_size": 7, "n_layers": 2, "n_predictors": 6}
    assert from_bytes(to_bytes(model)).get_params() == model.get_params()


@pytest.mark.parametrize("part", ["params", "architecture"])
def test_unknown_fields_are_named(part):
    state, tensors = take_apart(subject("classifier")[0].read_bytes())
    state[part]["warp"], state["version"] = 9, "7.1"
    with pytest.raises(ModelFileError, match=r"'warp', which suwr .* not know; suwr 7\.1 wrote"):
        from_bytes(forged(state, tensors))


def test_categories_of_mixed_types_are_refused():
    state, tensors = take_apart(subject("classifier")[0].read_bytes())
    code = next(c for c in state["encoder"]["codes"] if c["categories"] is not None)
    code["categories"][-1] = True if isinstance(code["categories"][0], str) else "x"
    with pytest.raises(ModelFileError, match="has categories of mixed types"):
        from_bytes(forged(state, tensors))


@pytest.mark.parametrize("family", list(ACCIDENTS))
def test_accidental_damage_is_refused_or_harmless(family, n_seeds):
    data = subject("classifier")[0].read_bytes()
    whole = to_bytes(from_bytes(data))
    with watched() as seen:
        for number in range(300 * n_seeds):
            try:
                model = from_bytes(ACCIDENTS[family](data, Random(number)))
            except ModelFileError:
                continue
            assert to_bytes(model) == whole, f"{family}, case {number}"
    assert seen == []


OVERSIZED = pytest.param("sizes", marks=pytest.mark.slow)


@pytest.mark.parametrize("family", [OVERSIZED if f == "sizes" else f for f in FORGERIES])
@pytest.mark.parametrize("kind", ["classifier", "regressor"])
def test_forged_files_are_refused_or_work(kind, family, n_seeds):
    path, rows, _ = subject(kind)
    data = path.read_bytes()
    # The first prediction imports modules.
    from_bytes(data).predict(rows)
    with watched() as seen:
        for number in range(60 * n_seeds):
            try:
                model = from_bytes(FORGERIES[family](data, Random(number)))
                model.predict(rows_for(model, rows))
            # A forged type of a column refuses the cells of the original type.
            except (ModelFileError, TableError):
                continue
    assert seen == []


@pytest.mark.parametrize(
    "patches", [[[2**62 + 1, 4], 1, 1], [[10**6, 10**6], 3, 1], [[1, 5], 10**9, 10**9]]
)
def test_patches_that_would_exhaust_the_memory_are_refused(patches):
    state, tensors = take_apart(subject("regressor")[0].read_bytes())
    state["params"]["groups"] = {"__patches__": patches}
    with pytest.raises(ModelFileError):
        from_bytes(forged(state, tensors))


def convolutional(data, n_members):
    """Ten kilobytes that declare many convolutional networks."""
    state, _ = take_apart(data)
    width = state["n_features"]
    state["params"] |= {"network": "conv", "groups": {"__patches__": [[1, width], 1, 1]}}
    state["architecture"] |= {"n_members": n_members, "image_shape": [1, width]}
    return forged(state, {f"a{i}": np.zeros(250, np.float32) for i in range(10)})


def equal_hashes(data):
    """Integers whose comparison takes quadratic time."""
    state, tensors = take_apart(data)
    state["classes"] = {"kind": "O", "values": [(2**61 - 1) * i for i in range(1, 100_000)]}
    return forged(state, tensors)


@pytest.mark.slow
def test_memory_is_proportional_to_the_size_of_the_file(tmp_path):
    """Each file is loaded under a limit of four times its size plus 200 MB of address space."""
    small, labels = (subject(kind)[0].read_bytes() for kind in ("regressor", "classifier"))
    cases = {
        "members": (convolutional(small, 5000), "does not match its tensors"),
        "columns": (resized(small, 32_768), "predicted"),
        "many columns": (resized(small, 32_768, reveals=True), "predicted"),
        "groups": (resized(small, 32_768, groups=[[0, 1]]), "too many columns"),
        "some groups": (resized(small, 4_000, groups=[[0, 1]]), "predicted"),
        "steps": (resized(small, 32_768, max_steps=32_768, reveals=True), "too many steps"),
        "wide": (
            resized(small, 784, hidden_size=256, max_steps=784, reveals=True),
            "The most is 2",
        ),
        "some steps": (
            resized(small, 784, hidden_size=64, max_steps=200, reveals=True),
            "predicted",
        ),
        "classes": (resized(labels, 4, n_classes=10**6), "predicted"),
        "hashes": (equal_hashes(labels), "more than 64 bits"),
    }
    for name, (data, _) in cases.items():
        (tmp_path / name).write_bytes(data)
    helper = Path(__file__).parents[1] / "helpers" / "limited_load.py"
    run = subprocess.run(
        [sys.executable, helper, *(tmp_path / name for name in cases)],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    found = [json.loads(line) for line in run.stdout.splitlines()]
    for (name, (_, expected)), outcome in zip(cases.items(), found, strict=True):
        assert expected in outcome, name


@pytest.mark.parametrize(
    "change",
    [
        {"n_members": 5000, "image_shape": [1, 5]},
        {"n_members": 10**6},
        {"hidden_size": 10**9},
        {"n_layers": 10**5},
    ],
    ids=str,
)
def test_nothing_is_built_before_the_architecture_is_checked(change, monkeypatch):
    state, tensors = take_apart(subject("regressor")[0].read_bytes())
    state["architecture"] |= change
    monkeypatch.setattr(module, "build", lambda a: pytest.fail("A network was built."))
    with pytest.raises(ModelFileError, match="does not match its tensors"):
        from_bytes(forged(state, tensors))


@pytest.mark.parametrize(
    "change",
    [
        {"image_shape": [True, 4]},
        {"image_shape": [1, 4]},
        {"image_shape": [4, 4, 1]},
        {"n_members": True},
        {"n_members": 2.0},
        {"informed": 1},
    ],
    ids=str,
)
def test_architectures_have_numbers_of_the_right_type_and_all_pixels(change, image_model):
    state, tensors = take_apart(image_model)
    state["architecture"] |= change
    with pytest.raises(ModelFileError, match=r"must be|does not match"):
        from_bytes(forged(state, tensors))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0])
def test_importances_are_finite_and_not_negative(value, image_model):
    state, tensors = take_apart(image_model)
    state["importances"][3] = value
    with pytest.raises(ModelFileError, match="importance"):
        from_bytes(forged(state, tensors))


def test_no_units_are_built_before_their_size_is_checked(monkeypatch):
    data = resized(subject("regressor")[0].read_bytes(), 20_000, groups=[[0, 1]])
    monkeypatch.setattr(
        SUWRRegressor, "_resolve_units", lambda *a: pytest.fail("Units were built.")
    )
    with pytest.raises(ModelFileError, match="too many columns"):
        from_bytes(data)


def test_models_that_could_not_be_loaded_are_not_saved(monkeypatch):
    model = from_bytes(resized(subject("regressor")[0].read_bytes(), 200))
    model.max_steps = 10**9
    assert to_bytes(model)
    monkeypatch.setattr("suwr.estimators.base._MAX_WORK", 10**9)
    with pytest.raises(ValueError, match=r"cannot be saved.*too many steps"):
        to_bytes(model)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kind", ["classifier", "regressor"])
def test_weights_that_are_not_finite_are_refused(kind, value):
    state, tensors = take_apart(subject(kind)[0].read_bytes())
    for key in tensors:
        altered = tensors | {key: tensors[key].copy()}
        altered[key].flat[-1] = value
        with pytest.raises(ModelFileError, match="not finite"):
            from_bytes(forged(state, altered))


@pytest.mark.parametrize("kind", ["classifier", "regressor"])
def test_results_of_weights_that_are_too_large_are_an_error(kind):
    """Finite weights can give NaN, which must not be returned as a prediction."""
    path, rows, _ = subject(kind)
    state, tensors = take_apart(path.read_bytes())
    n_refused = 0
    for number, key in enumerate(tensors):
        signs = np.random.RandomState(number).choice([-3e38, 3e38], tensors[key].shape)
        if key == "stop_temperature":
            continue
        model = from_bytes(forged(state, tensors | {key: signs.astype(np.float32)}))
        for method in (model.predict, lambda X, m=model: m.explain(X).text()):
            try:
                found = method(rows)
            except ModelFileError as error:
                n_refused += "weights are too large" in str(error)
            else:
                assert isinstance(found, str) or not pd.isna(found).any()
    assert n_refused > 2


@pytest.mark.parametrize("value", [0.0, -1.0])
def test_stop_temperatures_must_be_positive(value):
    state, tensors = take_apart(subject("classifier")[0].read_bytes())
    tensors["stop_temperature"] = np.full_like(tensors["stop_temperature"], value)
    with pytest.raises(ModelFileError, match="stop temperature"):
        from_bytes(forged(state, tensors))


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf"), -1.0, 0.0])
def test_target_statistics_must_be_finite_and_scales_positive(bad):
    state, tensors = take_apart(subject("regressor")[0].read_bytes())
    mean, scale = state["target"]
    changes = [{"target": [mean, bad]}, {"constant_loss": bad}]
    if not np.isfinite(bad):
        changes.append({"target": [bad, scale]})
    for change in changes:
        with pytest.raises(ModelFileError, match="of its target"):
            from_bytes(forged(state | change, tensors))


@pytest.mark.parametrize(
    "knots",
    [[0.0, 0.0], [1.0, 0.0], [0.0, float("nan")], [0.0, "x"], [0.0, 1e200], "10", 3, {"1": 1},
     [float(i) for i in range(300)]],
)  # fmt: skip
def test_bins_of_columns_must_be_valid(knots):
    state, tensors = take_apart(subject("classifier")[0].read_bytes())
    codes = [dict(code) for code in state["encoder"]["codes"]]
    number = next(i for i, code in enumerate(codes) if code["categories"] is None)
    codes[number]["knots"] = knots
    encoder = state["encoder"] | {"codes": codes}
    with pytest.raises(ModelFileError):
        from_bytes(forged(state | {"encoder": encoder}, tensors))


def test_models_with_bins_are_restored(tmp_path):
    X, y = make_classification(60, 4, random_state=0)
    model = SUWRClassifier(**SMALL | {"training": {"hidden_size": 8, "n_bins": 5}}).fit(X, y)
    assert [code.n_bins for code in model.encoder_.codes] == [5] * 4
    restored = from_bytes(to_bytes(model))
    assert restored.encoder_.codes == model.encoder_.codes
    np.testing.assert_array_equal(restored.predict_proba(X), model.predict_proba(X))


def test_ranges_of_the_sparsity_weight_are_checked(tmp_path):
    X, y = make_classification(60, 4, random_state=0)
    data = to_bytes(SUWRClassifier(**SMALL, sparsity_weight=(0.01, 0.1)).fit(X, y))
    state, tensors = take_apart(data)
    stored, n_units = state["weight_range"], state["weight_range"]["n_units"]
    assert from_bytes(forged(state, tensors)).weight_range_.low == 0.01
    for change in (
        {"low": -0.01}, {"low": 0.2}, {"high": float("inf")}, {"high": float("nan")},
        {"n_units": [-1.0] * 33}, {"n_units": [float("nan"), *n_units[1:]]},
        {"n_units": [*n_units[:-1], 10.0]}, {"n_units": n_units[1:]},
    ):  # fmt: skip
        with pytest.raises(ModelFileError):
            from_bytes(forged(state | {"weight_range": stored | change}, tensors))
    params = state["params"] | {"sparsity_weight": [-0.1, -0.01]}
    with pytest.raises(ModelFileError):
        from_bytes(forged(state | {"params": params}, tensors))
    with pytest.raises(ModelFileError, match="range"):
        from_bytes(forged(state | {"weight_range": None}, tensors))


def test_a_path_in_a_file_is_ignored(tmp_path, data):
    """A checkpoint was a parameter once."""
    X, y = make_classification(60, 4, random_state=0)
    path = tmp_path / "fit.checkpoint"
    state, tensors = take_apart(data)
    state["params"]["checkpoint"] = str(path)
    loaded = from_bytes(forged(state, tensors))
    path.write_text("mine")
    loaded.fit(X, y)
    assert path.read_text() == "mine"


def test_saving_keeps_permissions_and_follows_links(tmp_path, classifier):
    path, link = tmp_path / "model.suwr", tmp_path / "link.suwr"
    path.write_text("old")
    path.chmod(0o600)
    link.symlink_to(path)
    classifier.save(link)
    assert link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_bytes() == to_bytes(classifier)


def test_only_regular_files_are_read(tmp_path):
    pipe = tmp_path / "pipe.suwr"
    os.mkfifo(pipe)
    for path in (pipe, "/dev/zero", "/dev/null"):
        with pytest.raises(ModelFileError, match="not a regular file"):
            suwr.load(path)
    with pytest.raises(IsADirectoryError):
        suwr.load(tmp_path)
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(OSError, match="symbolic links"):
        suwr.load(loop)
    sparse = tmp_path / "sparse.suwr"
    with open(sparse, "wb") as file:
        file.truncate(2**40)
    with pytest.raises(ModelFileError, match="not a suwr model file"):
        suwr.load(sparse)


def test_equal_models_are_equal_files():
    model = suwr.load(subject("regressor")[0])
    assert len({to_bytes(model) for _ in range(5)}) == 1


def test_loading_does_not_change_the_global_generator():
    import torch

    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    suwr.load(subject("regressor")[0])
    assert torch.equal(torch.rand(3), expected)
