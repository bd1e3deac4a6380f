"""The container of model files and checkpoints: digest, limits, and files that are not files."""

import json
import os

import numpy as np
import pytest

import suwr.estimators.container as module
from suwr.estimators.container import MAX_HEADER, digest, pack, read_file, unpack
from suwr.exceptions import ModelFileError

TENSORS = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.ones((), np.int64)}


def with_header(header):
    return len(header).to_bytes(8, "little") + header


def test_round_trip():
    text, tensors = unpack(pack("text ü", TENSORS), "file")
    assert text == "text ü"
    assert tensors.keys() == TENSORS.keys()
    for key, value in TENSORS.items():
        np.testing.assert_array_equal(tensors[key], value)


def test_digest_depends_on_text_names_types_shapes_and_values():
    a = TENSORS["a"]
    contents = [
        ("t", {"a": a}), ("u", {"a": a}), ("t", {"b": a}), ("t", {"a": a.T}), ("t", {"a": a + 1}),
        ("t", {"a": a.view(np.int32)}), ("t", {}), ("t", {"a": a[:0]}),
    ]  # fmt: skip
    assert len({digest(text, tensors) for text, tensors in contents}) == len(contents)


@pytest.fixture
def no_parsing(monkeypatch):
    """Reading a tensor or parsing JSON is an error."""

    def fail(*args, **options):
        raise AssertionError("The header was parsed.")

    monkeypatch.setattr(module, "read_tensors", fail)
    monkeypatch.setattr(json, "loads", fail)


@pytest.mark.parametrize(
    "header",
    [
        b'{"a":[' + b"[]," * (MAX_HEADER // 3) + b"[]]}",
        # Short, but each of its values takes 64 bytes in memory.
        b'{"a":[' + b"[]," * (module.MAX_VALUES // 2) + b"[]]}",
    ],
    ids=["long", "dense"],
)
def test_large_headers_are_refused_before_they_are_parsed(header, no_parsing):
    with pytest.raises(ModelFileError, match="not a suwr model file"):
        unpack(with_header(header), "file")


def test_files_that_would_be_refused_are_not_written():
    with pytest.raises(ValueError, match="must fit into"):
        pack("x" * MAX_HEADER, TENSORS)
    with pytest.raises(ValueError, match="values of JSON"):
        pack("," * module.MAX_VALUES, TENSORS)


@pytest.mark.parametrize("size", [2**20, 2**32 - 1])
def test_sparse_files_are_refused_before_they_are_read(tmp_path, size, monkeypatch):
    path = tmp_path / "sparse"
    header = b'{"a":{"dtype":"U8","shape":[%d],"data_offsets":[0,%d]}}' % (size, size)
    with open(path, "wb") as file:
        file.write(with_header(header))
        file.truncate(8 + len(header) + size)
    if os.stat(path).st_blocks == 0:
        pytest.skip("This file system does not report the blocks of a file.")
    with pytest.raises(ModelFileError, match="it is sparse"):
        read_file(path)


def test_ordinary_files_of_the_same_size_are_read(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(pack("text", {"a": np.zeros(2**18, np.float32)}))
    assert unpack(read_file(path), "file")[0] == "text"
