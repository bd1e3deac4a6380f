"""Image sets: tiny ones in the published format, damaged ones, and the real ones where they are."""

import gzip
import hashlib
from urllib.error import URLError

import numpy as np
import pytest
import sklearn.datasets

from suwr.exceptions import DataError
from suwr_experiments import images
from suwr_experiments.images import FILES, IMAGE_SETS, ImageSet, load, load_images, read_idx

SHAPES = dict(zip(FILES, [(6, 2, 3), (6,), (4, 2, 3), (4,)], strict=True))


def idx(array, kind=8):
    sizes = b"".join(n.to_bytes(4, "big") for n in array.shape)
    return gzip.compress(bytes([0, 0, kind, array.ndim]) + sizes + array.tobytes())


@pytest.fixture
def arrays():
    rng = np.random.RandomState(0)
    return {f: rng.randint(0, 256, size=s).astype(np.uint8) for f, s in SHAPES.items()}


@pytest.fixture
def tiny(arrays):
    digests = {f: hashlib.sha256(a.tobytes()).hexdigest() for f, a in arrays.items()}
    return ImageSet("tiny", 1, SHAPES, digests)


@pytest.fixture
def folder(tmp_path, arrays):
    place = tmp_path / "given"
    (place / "tiny").mkdir(parents=True)
    for file, array in arrays.items():
        (place / "tiny" / file).write_bytes(idx(array))
    return place


def no_network(**_):
    raise URLError("no route to host")


def test_rows_are_pixels_between_zero_and_one(tiny, folder, arrays, tmp_path):
    data = load(tiny, [folder, tmp_path / "cache"])
    assert data.shape == (2, 3)
    assert data.X_train.dtype == np.float32
    np.testing.assert_array_equal(data.X_train * 255, arrays[FILES[0]].reshape(6, 6))
    np.testing.assert_array_equal(data.y_test, arrays[FILES[3]])
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda b: b[:40], "damaged or no gzip"),
        (lambda b: b"", "no idx file"),
        (lambda b: b"not gzip at all", "damaged or no gzip"),
        (lambda b: b[:30] + bytes([b[30] ^ 255]) + b[31:], "damaged|no idx file"),
        (lambda b: idx(np.zeros((6, 3, 2), np.uint8)), "no idx file"),
        (lambda b: idx(np.zeros((6, 2, 3), np.uint8), kind=9), "no idx file"),
        (lambda b: idx(np.zeros((6, 2, 3), np.uint8)), "digest differs"),
        (lambda b: gzip.compress(gzip.decompress(b) + b"more"), "no idx file"),
    ],
)
def test_damage_is_named(tiny, folder, tmp_path, damage, message):
    path = folder / "tiny" / FILES[0]
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DataError, match=message) as error:
        load(tiny, [folder, tmp_path])
    assert str(path) in str(error.value)


def test_a_bomb_is_not_unpacked(tmp_path):
    header = gzip.decompress(idx(np.zeros((6,), np.uint8)))[:8]
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(header + bytes(10_000_000)))
    with pytest.raises(DataError, match="no idx file"):
        read_idx(tmp_path / "bomb.gz", (6,))


def test_offline_it_says_what_to_do(tiny, folder, tmp_path, monkeypatch):
    monkeypatch.setattr(sklearn.datasets, "fetch_openml", no_network)
    (folder / "tiny" / FILES[1]).unlink()
    with pytest.raises(DataError, match="environment variable SUWR_DATA") as error:
        load(tiny, [folder, tmp_path / "cache"])
    for part in (str(folder / "tiny"), str(tmp_path / "cache"), *FILES):
        assert part in str(error.value)
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("kind", [np.float64, np.int64, str])
def test_a_download_is_checked_and_kept(tiny, arrays, tmp_path, monkeypatch, kind):
    pixels = np.concatenate([arrays[FILES[0]], arrays[FILES[2]]]).reshape(10, 6)
    labels = np.concatenate([arrays[FILES[1]], arrays[FILES[3]]])

    def fetch(**_):
        return pixels.astype(np.float64), labels.astype(kind)

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch)
    first = load(tiny, [tmp_path / "cache"])
    monkeypatch.setattr(sklearn.datasets, "fetch_openml", no_network)
    again = load(tiny, [tmp_path / "cache"])
    for name in ("X_train", "y_train", "X_test", "y_test"):
        np.testing.assert_array_equal(getattr(first, name), getattr(again, name))
    assert sorted(p.name for p in (tmp_path / "cache" / "tiny").iterdir()) == sorted(FILES)


def test_a_wrong_download_is_refused(tiny, tmp_path, monkeypatch):
    def fetch(**_):
        return np.zeros((10, 6)), np.zeros(10)

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch)
    with pytest.raises(DataError, match="OpenML sent is not the published tiny"):
        load(tiny, [tmp_path / "cache"])
    assert not (tmp_path / "cache").exists()


def test_the_folder_comes_from_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("SUWR_DATA", str(tmp_path))
    assert images.folders()[0] == tmp_path
    monkeypatch.delenv("SUWR_DATA")
    assert len(images.folders()) == 1
    assert images.folders()[0].name == "suwr"


def test_unknown_sets_are_refused():
    with pytest.raises(ValueError, match="'name' must be one of mnist, fashion-mnist"):
        load_images("cifar")


@pytest.mark.parametrize("name", IMAGE_SETS)
def test_the_published_sets(name):
    places = [place / name for place in images.folders()]
    if not any(all((place / file).is_file() for file in FILES) for place in places):
        pytest.skip("the files are not on this machine")
    data = load_images(name)
    assert (data.X_train.shape, data.X_test.shape) == ((60_000, 784), (10_000, 784))
    assert np.bincount(data.y_test).shape == (10,)
    assert 0 == data.X_train.min() < data.X_train.max() == 1
