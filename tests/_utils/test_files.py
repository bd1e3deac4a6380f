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


def test_files_with_similar_names_are_kept(tmp_path):
    """Browsers and other programs write to such names too."""
    names = [".a.part", ".a.b.part", ".a.abcdefgh.part", ".a.backup.suwr-part", "a.suwr-part"]
    for name in names:
        (tmp_path / name).write_bytes(b"theirs")
    (tmp_path / ".a.abcdefgh.suwr-part").symlink_to(tmp_path / ".a.part")
    (tmp_path / ".a.stuvwxyz.suwr-part").mkdir()
    before = set(tmp_path.iterdir())
    write_atomic(tmp_path / "a", b"new")
    assert set(tmp_path.iterdir()) == {*before, tmp_path / "a"}


def test_the_error_of_a_full_disk_names_the_file(tmp_path):
    with (
        pytest.raises(OSError, match=r"No space left on device: '.*a'"),
        atomic_file(tmp_path / "a"),
    ):
        raise OSError(28, "No space left on device")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444])
def test_an_existing_file_keeps_its_permissions(tmp_path, mode):
    path = tmp_path / "a"
    path.write_bytes(b"one")
    path.chmod(mode)
    write_atomic(path, b"two")
    assert path.read_bytes() == b"two"
    assert path.stat().st_mode & 0o777 == mode


def test_a_new_file_has_the_permissions_of_the_umask(tmp_path):
    old = os.umask(0o027)
    try:
        write_atomic(tmp_path / "a", b"one")
    finally:
        os.umask(old)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640


def test_symbolic_links_are_followed(tmp_path):
    (tmp_path / "there").mkdir()
    target, link, chain = tmp_path / "there" / "a", tmp_path / "b", tmp_path / "c"
    link.symlink_to("there/a")
    chain.symlink_to(link)
    # The target of the first write does not exist yet.
    for text in (b"one", b"two"):
        write_atomic(chain, text)
        assert target.read_bytes() == text
        assert link.is_symlink()
        assert chain.is_symlink()
    assert os.listdir(tmp_path / "there") == ["a"]
    endless = tmp_path / "endless"
    endless.symlink_to(endless)
    with pytest.raises(OSError, match="symbolic links"):
        write_atomic(endless, b"three")
    lost = tmp_path / "lost"
    lost.symlink_to(tmp_path / "no" / "a")
    with pytest.raises(FileNotFoundError, match="does not exist"):
        write_atomic(lost, b"three")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="POSIX")
def test_pipes_and_devices_are_not_replaced(tmp_path):
    """As an administrator, writing to /dev/null would replace it."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    for name in ("pipe", "link"):
        with pytest.raises(OSError, match="Not a regular file"):
            write_atomic(tmp_path / name, b"new")
    assert (tmp_path / "pipe").is_fifo()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "pipe"]


@pytest.mark.skipif(getattr(os, "geteuid", lambda: 1)() != 0, reason="only root may change owners")
def test_an_existing_file_keeps_its_owner(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"old")
    os.chown(path, 12345, 12346)
    write_atomic(path, b"new")
    status = path.stat()
    assert (status.st_uid, status.st_gid, path.read_bytes()) == (12345, 12346, b"new")
