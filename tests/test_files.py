import os

import pytest

from suwr._files import check_writable, write_atomic


def test_writes_and_replaces(tmp_path):
    path = tmp_path / "a"
    write_atomic(path, b"one")
    write_atomic(path, b"two")
    assert path.read_bytes() == b"two"
    assert os.listdir(tmp_path) == ["a"]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "a"
    write_atomic(path, b"one")

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_atomic(path, b"two")
    assert path.read_bytes() == b"one"
    assert os.listdir(tmp_path) == ["a"]


def test_says_what_is_wrong_with_a_path(tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        check_writable(tmp_path / "no" / "file")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        check_writable(tmp_path)
