"""Model files from anywhere: old ones load for ever, hostile ones do no harm."""

import json
import os
from pathlib import Path
from random import Random

import numpy as np
import pandas as pd
import pytest
from hostile_files import ACCIDENTS, FORGERIES, forged, take_apart, watched

import suwr
from suwr.estimators.model_file import MAX_HEADER
from suwr.estimators.persistence import from_bytes, to_bytes
from suwr.exceptions import ModelFileError

FIXTURES = Path(__file__).parent / "fixtures"


def subject(kind):
    """A stored file of version 1, rows, and what the model said of them when it was written."""
    known = json.loads((FIXTURES / f"{kind}-1.json").read_text())
    rows = pd.DataFrame(known["rows"]) if kind == "classifier" else np.array(known["rows"])
    return FIXTURES / f"{kind}-1.suwr", rows, known


@pytest.mark.parametrize("kind", ["classifier", "regressor"])
def test_version_1_loads_for_ever(kind):
    path, rows, known = subject(kind)
    model = suwr.load(path)
    assert model.select(rows).astype(int).tolist() == known["mask"]
    assert [[s.unit for s in e.steps] for e in model.explain(rows)] == known["steps"]
    if kind == "classifier":
        assert model.predict(rows).tolist() == known["prediction"]
        np.testing.assert_allclose(model.predict_proba(rows), known["probability"], atol=1e-5)
    else:
        np.testing.assert_allclose(model.predict(rows), known["prediction"], rtol=1e-5)


@pytest.mark.parametrize("kind", ["classifier", "regressor"])
def test_fields_that_older_files_lack_take_their_defaults(kind):
    path, rows, known = subject(kind)
    state, tensors = take_apart(path.read_bytes())
    # Each of these has a default that equals what the file says.
    del state["architecture"]["n_members"], state["architecture"]["shared"]
    del state["params"]["validation_fraction"], state["params"]["verbose"]
    model = from_bytes(forged(state, tensors))
    assert model.select(rows).astype(int).tolist() == known["mask"]


@pytest.mark.parametrize("part", ["params", "architecture"])
def test_fields_of_a_newer_version_are_named(part):
    state, tensors = take_apart(subject("classifier")[0].read_bytes())
    state[part]["warp"], state["version"] = 9, "7.1"
    with pytest.raises(ModelFileError, match=r"'warp', which suwr .* not know; suwr 7\.1 wrote"):
        from_bytes(forged(state, tensors))


@pytest.mark.parametrize("family", list(ACCIDENTS))
def test_accidents_are_refused_or_change_nothing(family):
    data = subject("classifier")[0].read_bytes()
    whole = to_bytes(from_bytes(data))
    with watched() as seen:
        for number in range(300):
            try:
                model = from_bytes(ACCIDENTS[family](data, Random(number)))
            except ModelFileError:
                continue
            assert to_bytes(model) == whole, f"{family}, case {number}"
    assert seen == []


@pytest.mark.parametrize("family", list(FORGERIES))
@pytest.mark.parametrize("kind", ["classifier", "regressor"])
def test_forgeries_are_refused_or_work(kind, family):
    path, rows, _ = subject(kind)
    data = path.read_bytes()
    with watched() as seen:
        for number in range(60):
            try:
                model = from_bytes(FORGERIES[family](data, Random(number)))
            except ModelFileError:
                continue
            model.predict(rows)
    assert seen == []


@pytest.mark.parametrize(
    "patches", [[[2**62 + 1, 4], 1, 1], [[10**6, 10**6], 3, 1], [[1, 5], 10**9, 10**9]]
)
def test_patches_that_would_fill_the_memory_are_refused(patches):
    state, tensors = take_apart(subject("regressor")[0].read_bytes())
    state["params"]["groups"] = {"__patches__": patches}
    with pytest.raises(ModelFileError):
        from_bytes(forged(state, tensors))


def test_a_header_of_megabytes_is_refused_before_it_is_parsed():
    header = b'{"a":[' + b"[]," * (MAX_HEADER // 3) + b"[]]}"
    with pytest.raises(ModelFileError, match="not a model file of suwr"):
        from_bytes(len(header).to_bytes(8, "little") + header)


def test_only_plain_files_are_read(tmp_path):
    pipe = tmp_path / "pipe.suwr"
    os.mkfifo(pipe)
    for path in (pipe, "/dev/zero", "/dev/null"):
        with pytest.raises(ModelFileError, match="not a plain file"):
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
    with pytest.raises(ModelFileError, match="not a model file of suwr"):
        suwr.load(sparse)


def test_equal_models_are_equal_files():
    model = suwr.load(subject("regressor")[0])
    assert len({to_bytes(model) for _ in range(5)}) == 1


def test_loading_leaves_random_numbers_alone():
    import torch

    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    suwr.load(subject("regressor")[0])
    assert torch.equal(torch.rand(3), expected)
