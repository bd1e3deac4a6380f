from types import MappingProxyType

import numpy as np
import pandas as pd
import pytest
from hostile_files import forged, take_apart
from sklearn.datasets import make_classification

import suwr
from suwr import Patches, SUWRClassifier, SUWRRegressor
from suwr.estimators.persistence import from_bytes, to_bytes
from suwr.exceptions import ModelFileError

SMALL = {"max_epochs": 2, "hidden_size": 8, "random_state": 0}


def roundtrip(model, tmp_path):
    path = tmp_path / "model.suwr"
    model.save(path)
    return suwr.load(path)


@pytest.mark.parametrize(
    "labels",
    [[0, 1], ["no", "yes"], [1.0, 2.0], [False, True], np.array([3, 4], dtype=np.uint8),
     np.array(["no", "yes"], dtype=object)],
)  # fmt: skip
def test_classes_of_every_type_survive(tmp_path, labels):
    X, y = make_classification(60, 4, random_state=0)
    model = SUWRClassifier(**SMALL).fit(X, np.array(labels)[y])
    again = roundtrip(model, tmp_path)
    assert again.classes_.dtype == model.classes_.dtype
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(again.select(X), model.select(X))
    assert again.predict(X).tolist() == model.predict(X).tolist()


def test_real_models_survive(tmp_path, classifier, regressor, cancer, diabetes):
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


def test_classes_that_json_cannot_hold_are_refused_by_save(tmp_path):
    X, y = make_classification(60, 4, random_state=0)
    model = SUWRClassifier(**SMALL).fit(X, y)
    model.classes_ = np.array([b"no", b"yes"])
    with pytest.raises(ValueError, match="Classes must be numbers, text or booleans"):
        model.save(tmp_path / "model.suwr")
    assert list(tmp_path.iterdir()) == []


def test_the_published_trainer_survives(tmp_path):
    X, y = make_classification(60, 4, random_state=0)
    model = SUWRClassifier(**SMALL, trainer="reinforce").fit(X, y)
    np.testing.assert_array_equal(
        roundtrip(model, tmp_path).predict_proba(X), model.predict_proba(X)
    )


@pytest.fixture(scope="module")
def data():
    X, y = make_classification(60, 4, random_state=0)
    return to_bytes(SUWRClassifier(**SMALL).fit(X, y))


def test_every_truncation_is_refused(data):
    for size in [0, 1, 7, 8, 9, 100, len(data) // 2, len(data) - 1]:
        with pytest.raises(ModelFileError, match="not a model file of suwr, or it is truncated"):
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
            # White space in the header is the one thing that carries no meaning.
            assert to_bytes(model) == data
    assert refused > 290


def rewritten(data, **changes):
    """A file whose state was changed and whose digest is right."""
    state, tensors = take_apart(data)
    return forged(state | changes, tensors)


def test_a_newer_format_says_so(data):
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
    ],
)
def test_states_that_make_no_sense_are_refused(data, changes):
    with pytest.raises(ModelFileError):
        from_bytes(rewritten(data, **changes))


def test_huge_declared_shapes_allocate_nothing(data):
    architecture = take_apart(data)[0]["architecture"]
    for field in ("hidden_size", "n_layers", "n_members"):
        with pytest.raises(ModelFileError, match="does not fit its tensors"):
            from_bytes(rewritten(data, architecture=architecture | {field: 10**7}))


def test_foreign_files(tmp_path):
    path = tmp_path / "model.suwr"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ModelFileError, match="not a model file of suwr"):
        suwr.load(path)
    with pytest.raises(FileNotFoundError):
        suwr.load(tmp_path / "none.suwr")


def test_saving_says_what_is_wrong_and_writes_nothing(tmp_path, classifier):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        classifier.save(tmp_path / "no" / "model.suwr")
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_stops_by_its_predictions(tmp_path):
    X = np.random.RandomState(0).randn(90, 5)
    y = X[:, 0] + X[:, 1] > 0
    clf = SUWRClassifier(
        trainer="lookahead", sparsity_weight=(0.01, 0.1), max_epochs=3, hidden_size=8,
        random_state=0, training={"rollouts": 3},
    ).fit(X, y)  # fmt: skip
    clf.save(tmp_path / "m.suwr")
    again = suwr.load(tmp_path / "m.suwr")
    assert again.policy_.network.architecture.informed
    assert again.training == {"rollouts": 3}
    for weight in (0.01, 0.1):
        np.testing.assert_array_equal(
            again.predict_proba(X, sparsity_weight=weight),
            clf.predict_proba(X, sparsity_weight=weight),
        )
