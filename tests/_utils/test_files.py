import os
import subprocess
import sys

import pytest

from suwr._utils.files import atomic_file, check_writable, write_atomic


def test_write_and_replace(tmp_path):
    path = tmp_path / "a"
    write_atomic(path, b"one")
    write_atomic(path, b"two")
    assert path.read_bytes() == b"two"
    assert os.listdir(tmp_path) == ["a"]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "a"
    write_atomic(path, b"one")

    def no_space(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(OSError, match="No space left"):
        write_atomic(path, b"two")
    assert path.read_bytes() == b"one"
    assert os.listdir(tmp_path) == ["a"]


def test_unwritable_paths_are_errors(tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        check_writable(tmp_path / "no" / "file")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        check_writable(tmp_path)


def test_temporary_files_of_killed_writers_are_removed(tmp_path):
    code = "import os, signal, sys; from suwr._utils.files import atomic_file\n"
    code += "with atomic_file(sys.argv[1]) as path:\n"
    code += "    path.write_bytes(b'half'); os.kill(os.getpid(), signal.SIGKILL)"
    path = tmp_path / "a"
    assert subprocess.run([sys.executable, "-c", code, str(path)]).returncode == -9
    assert len(os.listdir(tmp_path)) == 1
    with atomic_file(path) as mine:
        mine.write_bytes(b"first")
        # The temporary file of a running writer is kept.
        write_atomic(path, b"second")
        assert mine.exists()
    assert path.read_bytes() == b"first"
    assert os.listdir(tmp_path) == ["a"]


def test_the_error_of_a_full_disk_names_the_file(tmp_path):
    with (
        pytest.raises(OSError, match=r"No space left on device: '.*a'"),
        atomic_file(tmp_path / "a"),
    ):
        raise OSError(28, "No space left on device")
    assert os.listdir(tmp_path) == []
