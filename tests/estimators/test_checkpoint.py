"""An interrupted fit resumes from its checkpoint, with the same result."""

import numpy as np
import pytest
from sklearn.datasets import load_iris

import suwr.estimators.container as module
from helpers.model_files import forged, take_apart
from suwr import SUWRClassifier
from suwr.exceptions import ModelFileError

X, y = load_iris(return_X_y=True)
SMALL = {"max_epochs": 3, "training": {"hidden_size": 8}, "random_state": 0}


class Killed(BaseException):
    pass


def interrupted_fit(path, monkeypatch, after, **changes):
    """Interrupt the fit right after its ``after``-th checkpoint."""
    write, count = module.FileCheckpoint.write, 0

    def writing(self, phase, state):
        nonlocal count
        write(self, phase, state)
        count += 1
        if count == after:
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(module.FileCheckpoint, "write", writing)
        with pytest.raises(Killed):
            SUWRClassifier(**(SMALL | changes)).fit(X, y, checkpoint=path)


@pytest.mark.parametrize(
    ("after", "changes"),
    [
        (3, {}),
        (7, {}),
        (2, {"trainer": "reinforce"}),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (
                (1, {}),
                (5, {}),
                (3, {"trainer": "lookahead"}),
                (5, {"sparsity_weight": (0.001, 0.1)}),
            )
        ),
    ],
)
def test_a_resumed_fit_equals_an_uninterrupted_one(tmp_path, monkeypatch, after, changes):
    """Pretraining and policy training have three epochs, fine-tuning one."""
    path = tmp_path / "fit.checkpoint"
    whole = SUWRClassifier(**(SMALL | changes)).fit(X, y)
    interrupted_fit(path, monkeypatch, after, **changes)
    assert path.exists()
    resumed = SUWRClassifier(**(SMALL | changes)).fit(X, y, checkpoint=path)
    np.testing.assert_array_equal(resumed.predict_proba(X), whole.predict_proba(X))
    np.testing.assert_array_equal(resumed.select(X), whole.select(X))
    assert resumed.history_ == whole.history_
    assert list(tmp_path.iterdir()) == []


def test_the_checkpoint_of_another_fit_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "fit.checkpoint"
    interrupted_fit(path, monkeypatch, 2)
    with pytest.raises(ModelFileError, match="other data or parameters"):
        SUWRClassifier(**(SMALL | {"training": {"hidden_size": 9}})).fit(X, y, checkpoint=path)
    with pytest.raises(ModelFileError, match="other data or parameters"):
        SUWRClassifier(**SMALL).fit(X[::-1], y, checkpoint=path)


@pytest.mark.parametrize("content", [b"", b"\x08\0\0\0\0\0\0\0{}      ", b"not a checkpoint" * 9])
def test_a_damaged_file_is_refused(tmp_path, content):
    path = tmp_path / "fit.checkpoint"
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match="damaged or not a suwr checkpoint"):
        SUWRClassifier(**SMALL).fit(X, y, checkpoint=path)
    assert path.read_bytes() == content


def test_a_forged_stop_temperature_is_refused(tmp_path, monkeypatch):
    """The model could not be loaded after it was saved."""
    path = tmp_path / "fit.checkpoint"
    interrupted_fit(path, monkeypatch, 6)
    state, tensors = take_apart(path.read_bytes())
    forged_keys = [key for key in tensors if key.endswith("stop_temperature")]
    assert forged_keys
    for key in forged_keys:
        tensors[key] = np.full_like(tensors[key], -1.0)
    path.write_bytes(forged(state, tensors))
    with pytest.raises(FloatingPointError, match="stop temperature is not positive"):
        SUWRClassifier(**SMALL).fit(X, y, checkpoint=path)


def test_a_checkpoint_requires_a_seed_and_an_existing_folder(tmp_path):
    with pytest.raises(ValueError, match="'random_state' to be an int"):
        SUWRClassifier(max_epochs=1).fit(X, y, checkpoint=tmp_path / "c")
    with pytest.raises(FileNotFoundError, match="does not exist"):
        SUWRClassifier(**SMALL).fit(X, y, checkpoint=tmp_path / "no" / "c")
