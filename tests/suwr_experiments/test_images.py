"""Image data sets: small ones in the published format, damaged files, downloads, the real ones."""

import functools
import gzip
import hashlib
import os
import sys
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from suwr.exceptions import DataError, MissingExtraError
from suwr_experiments.__main__ import main
from suwr_experiments.images import (
    FILES,
    IMAGE_SETS,
    ImageSet,
    load,
    load_images,
    local_folder,
    read_idx,
)

SHAPES = dict(zip(FILES, [(6, 2, 3), (6,), (4, 2, 3), (4,)], strict=True))


def idx(array, kind=8):
    sizes = b"".join(n.to_bytes(4, "big") for n in array.shape)
    return gzip.compress(bytes([0, 0, kind, array.ndim]) + sizes + array.tobytes())


@pytest.fixture
def arrays():
    rng = np.random.RandomState(0)
    return {f: rng.randint(0, 256, size=s).astype(np.uint8) for f, s in SHAPES.items()}


@pytest.fixture
def folder(tmp_path, arrays):
    place = tmp_path / "given"
    (place / "tiny").mkdir(parents=True)
    for file, array in arrays.items():
        (place / "tiny" / file).write_bytes(idx(array))
    return place


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture
def url(folder):
    """Address of a local server that publishes the files."""
    handler = functools.partial(QuietHandler, directory=folder / "tiny")
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture
def tiny(arrays, folder):
    def digest(content):
        return hashlib.sha256(content).hexdigest()

    digests = {f: digest(a.tobytes()) for f, a in arrays.items()}
    checksums = {f: digest((folder / "tiny" / f).read_bytes()) for f in FILES}
    # Nothing listens on port 9.
    return ImageSet("tiny", "http://127.0.0.1:9/", SHAPES, digests, checksums)


def at(images, url):
    return ImageSet(images.name, url, images.shapes, images.digests, images.checksums)


def test_rows_are_pixels_between_zero_and_one(tiny, folder, arrays, tmp_path):
    data = load(tiny, folder, tmp_path / "cache")
    assert data.shape == (2, 3)
    assert data.X_train.dtype == np.float32
    np.testing.assert_array_equal(data.X_train * 255, arrays[FILES[0]].reshape(6, 6))
    np.testing.assert_array_equal(data.y_test, arrays[FILES[3]])
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda b: b[:40], "damaged or not a gzip file"),
        (lambda b: b"", "not an idx file"),
        (lambda b: b"not gzip at all", "damaged or not a gzip file"),
        (lambda b: b[:30] + bytes([b[30] ^ 255]) + b[31:], "damaged|not an idx file"),
        (lambda b: idx(np.zeros((6, 3, 2), np.uint8)), "not an idx file"),
        (lambda b: idx(np.zeros((6, 2, 3), np.uint8), kind=9), "not an idx file"),
        (lambda b: idx(np.zeros((6, 2, 3), np.uint8)), "digest differs"),
        (lambda b: gzip.compress(gzip.decompress(b) + b"more"), "not an idx file"),
    ],
)
def test_damaged_file_is_named(tiny, folder, tmp_path, damage, message):
    path = folder / "tiny" / FILES[0]
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DataError, match=message) as error:
        load(tiny, folder, tmp_path)
    assert str(path) in str(error.value)


def test_decompression_is_bounded(tmp_path):
    header = gzip.decompress(idx(np.zeros((6,), np.uint8)))[:8]
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(header + bytes(10_000_000)))
    with pytest.raises(DataError, match="not an idx file"):
        read_idx(tmp_path / "bomb.gz", (6,))


def test_download_is_kept(tiny, url, tmp_path):
    first = load(at(tiny, url), None, tmp_path / "cache")
    # The address of the second call is unreachable.
    again = load(tiny, None, tmp_path / "cache")
    for name in ("X_train", "y_train", "X_test", "y_test"):
        np.testing.assert_array_equal(getattr(first, name), getattr(again, name))
    assert sorted(p.name for p in (tmp_path / "cache" / "tiny").iterdir()) == sorted(FILES)


def test_wrong_download_is_rejected(tiny, url, folder, tmp_path):
    (folder / "tiny" / FILES[2]).write_bytes(b"another file")
    with pytest.raises(DataError, match="tiny could not be downloaded"):
        load(at(tiny, url), None, tmp_path / "cache")
    assert not (tmp_path / "cache" / "tiny" / FILES[2]).exists()


def test_offline_error_says_what_to_do(tiny, folder, tmp_path):
    (folder / "tiny" / FILES[1]).unlink()
    with pytest.raises(DataError, match="environment variable SUWR_DATA") as error:
        load(tiny, folder, tmp_path / "cache")
    for part in (str(folder / "tiny"), "--data", *FILES):
        assert part in str(error.value)


def test_missing_pooch_names_the_extra(tiny, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(MissingExtraError, match=r"suwr\[bench\]"):
        load(tiny, None, tmp_path)


def test_folder_comes_from_the_environment_or_the_command_line(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("SUWR_DATA", str(tmp_path))
    (tmp_path / "mnist").mkdir()
    for file in FILES:
        (tmp_path / "mnist" / file).write_bytes(b"no images")
    with pytest.raises(DataError, match="not a gzip file"):
        load_images("mnist")
    monkeypatch.setenv("SUWR_DATA", str(tmp_path / "elsewhere"))
    assert main(["figures", "m.suwr", "mnist", "--data", str(tmp_path)]) == 1
    assert "not a gzip file" in capsys.readouterr().err


def test_unknown_name():
    with pytest.raises(ValueError, match="'name' parameter of load_images must be"):
        load_images("cifar")


@pytest.mark.parametrize("name", IMAGE_SETS)
def test_published_sets(name):
    if local_folder(IMAGE_SETS[name], Path(os.environ.get("SUWR_DATA", "missing"))) is None:
        pytest.skip("the files are not on this machine")
    data = load_images(name)
    assert (data.X_train.shape, data.X_test.shape) == ((60_000, 784), (10_000, 784))
    assert np.bincount(data.y_test).shape == (10,)
    assert 0 == data.X_train.min() < data.X_train.max() == 1
