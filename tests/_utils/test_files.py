import os
import subprocess
import sys

import pytest

from suwr._utils.files import atomic_file, check_writable, write_atomic


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


def test_what_a_killed_writer_left_is_swept_away(tmp_path):
    code = "import os, signal, sys; from suwr._utils.files import atomic_file\n"
    code += "with atomic_file(sys.argv[1]) as path:\n"
    code += "    path.write_bytes(b'half'); os.kill(os.getpid(), signal.SIGKILL)"
    path = tmp_path / "a"
    assert subprocess.run([sys.executable, "-c", code, str(path)]).returncode == -9
    assert len(os.listdir(tmp_path)) == 1
    with atomic_file(path) as mine:
        mine.write_bytes(b"first")
        # A writer that is alive is left alone.
        write_atomic(path, b"second")
        assert mine.exists()
    assert path.read_bytes() == b"first"
    assert os.listdir(tmp_path) == ["a"]


def test_a_full_disk_names_the_file(tmp_path):
    with (
        pytest.raises(OSError, match=r"No space left on device: '.*a'"),
        atomic_file(tmp_path / "a"),
    ):
        raise OSError(28, "No space left on device")
    assert os.listdir(tmp_path) == []
