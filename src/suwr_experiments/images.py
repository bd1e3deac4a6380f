"""Digits-MNIST and Fashion-MNIST: from a folder, from the cache, or downloaded once.

Whatever the source, the decoded arrays must have the digests below, so every machine trains on the
same rows in the same order.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import struct
import sys
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from suwr._utils.files import write_atomic
from suwr.exceptions import DataError

__all__ = ["IMAGE_SETS", "ImageData", "ImageSet", "load_images", "read_idx"]

Bytes = NDArray[np.uint8]

#: Names a folder that holds ``mnist/`` and ``fashion-mnist/``.
FOLDER_VARIABLE = "SUWR_DATA"


@dataclass(frozen=True)
class ImageSet:
    """A set as it is published.

    Attributes
    ----------
    name : str
        Also the name of its folder.
    openml_id : int
    shapes, digests : mapping from file name to tuple of int, to str
        Shape and SHA-256 digest of the decoded array in each idx.gz file.
    """

    name: str
    openml_id: int
    shapes: Mapping[str, tuple[int, ...]]
    digests: Mapping[str, str]


FILES = (
    "train-images-idx3-ubyte.gz",
    "train-labels-idx1-ubyte.gz",
    "t10k-images-idx3-ubyte.gz",
    "t10k-labels-idx1-ubyte.gz",
)
_SHAPES = dict(zip(FILES, [(60_000, 28, 28), (60_000,), (10_000, 28, 28), (10_000,)], strict=True))

IMAGE_SETS = {
    "mnist": ImageSet("mnist", 554, _SHAPES, dict(zip(FILES, [
        "741c988805d008ac6e4c904b69001ba184c24b2c540a4ef403f4c71b676cf757",
        "1feba77c54802fa5339a11837ea4b2866434b83314ec45192930f1df69120c13",
        "6d87418db22cc8025d05968bec9bd5c3932904b23485740db143a061a2c9d161",
        "ddeff807876a9661a1110d45c266c86239a3a1b7d37da0c3716a7a683c852ff5",
    ], strict=True))),
    "fashion-mnist": ImageSet("fashion-mnist", 40996, _SHAPES, dict(zip(FILES, [
        "2e487a6c89124f78f2d7521542223cafe96f7123c3ca13d447772ac6ecbb3012",
        "657fbd221bfc9f4198cc14b5619cc33ec57c58dd0e47af4d99d6650759e869a7",
        "c867c93ff95360594e8ec3287995350b824dd110b11595c0e13d5423f621867a",
        "3d0e6c6ea990b53b6f8f500a41cac93881d981b315f84578b7d915342ade01e9",
    ], strict=True))),
}  # fmt: skip


@dataclass(frozen=True)
class ImageData:
    """Rows of an image set, in their published order.

    Attributes
    ----------
    X_train, X_test : ndarray of float32, shape (n, 784)
        Brightness from 0 to 1; pixels row by row.
    y_train, y_test : ndarray of int64, shape (n,)
        Classes 0 to 9.
    shape : tuple of int
        Height and width.
    """

    X_train: NDArray[np.float32]
    y_train: NDArray[np.int64]
    X_test: NDArray[np.float32]
    y_test: NDArray[np.int64]
    shape: tuple[int, int]


def load_images(name: str) -> ImageData:
    """Load digits-MNIST or Fashion-MNIST.

    The four idx.gz files are looked for in the folder that the environment variable ``SUWR_DATA``
    names (in its subfolder ``mnist`` or ``fashion-mnist``), then in the cache. Where neither has
    them, they are downloaded from OpenML and put into the cache.

    Parameters
    ----------
    name : {'mnist', 'fashion-mnist'}

    Returns
    -------
    ImageData

    Raises
    ------
    DataError
        A file is damaged, or the files are nowhere and cannot be downloaded.
    """
    if name not in IMAGE_SETS:
        raise ValueError(f"'name' must be one of {', '.join(IMAGE_SETS)}. Got {name!r} instead.")
    return load(IMAGE_SETS[name], folders())


def load(images: ImageSet, places: list[Path]) -> ImageData:
    """Read from the first folder that holds all files, or download into the last one.

    Parameters
    ----------
    images : ImageSet
    places : list of Path
        Folders of image sets; the last one is the cache.
    """
    candidates = [place / images.name for place in places]
    for folder in candidates:
        if all((folder / file).is_file() for file in FILES):
            return _as_rows({file: _read_checked(images, folder, file) for file in FILES})
    arrays = _download(images, candidates)
    _store(arrays, candidates[-1])
    return _as_rows(arrays)


def folders() -> list[Path]:
    """Where image sets may lie: the folder that the user names, and the cache."""
    named = os.environ.get(FOLDER_VARIABLE)
    return [*([Path(named)] if named else []), _cache_folder()]


def _cache_folder() -> Path:
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "suwr"


def read_idx(path: Path, shape: tuple[int, ...]) -> Bytes:
    """Decode an idx.gz file of bytes whose shape is known beforehand.

    No more is unpacked than that shape needs, whatever the file holds.

    Parameters
    ----------
    path : Path
    shape : tuple of int
    """
    header = _idx_header(shape)
    try:
        with gzip.open(path) as file:
            found = file.read(len(header))
            content = file.read(int(np.prod(shape)) + 1)
    except (EOFError, zlib.error, OSError) as error:
        raise DataError(f"{str(path)!r} is damaged or no gzip file: {error}.") from error
    if found != header or len(content) != np.prod(shape):
        raise DataError(f"{str(path)!r} is no idx file of bytes of shape {shape}.")
    return np.frombuffer(content, dtype=np.uint8).reshape(shape)


def _idx_header(shape: tuple[int, ...]) -> bytes:
    """Two zeros, the code of unsigned bytes, the number of axes, the length of each."""
    return bytes([0, 0, 8, len(shape)]) + struct.pack(f">{len(shape)}I", *shape)


def _is_right(images: ImageSet, file: str, array: Bytes) -> bool:
    return hashlib.sha256(array.tobytes()).hexdigest() == images.digests[file]


def _read_checked(images: ImageSet, folder: Path, file: str) -> Bytes:
    array = read_idx(folder / file, images.shapes[file])
    if not _is_right(images, file, array):
        raise DataError(
            f"{str(folder / file)!r} does not hold the published {images.name}: its SHA-256 digest "
            "differs. Delete it, or put the published file in its place."
        )
    return array


def _download(images: ImageSet, looked_in: list[Path]) -> dict[str, Bytes]:
    from sklearn.datasets import fetch_openml

    # The parser of pandas is many times faster; the other one needs nothing.
    parser = "pandas" if find_spec("pandas") else "liac-arff"
    try:
        pixels, labels = fetch_openml(
            data_id=images.openml_id, as_frame=False, parser=parser, cache=False, return_X_y=True
        )
    except (OSError, ValueError) as error:
        looked = " and ".join(repr(str(folder)) for folder in looked_in)
        raise DataError(
            f"{images.name} was not found in {looked}, and could not be downloaded from OpenML "
            f"({error}). Without a network: put the files {', '.join(FILES)} into a folder "
            f"{images.name!r} and name the folder above it in the environment variable "
            f"{FOLDER_VARIABLE}."
        ) from error
    arrays, start = {}, {"images": 0, "labels": 0}
    for file, shape in images.shapes.items():
        kind = "images" if "images" in file else "labels"
        part = (pixels if kind == "images" else labels)[start[kind] : start[kind] + shape[0]]
        start[kind] += shape[0]
        arrays[file] = np.asarray(part).astype(np.float64).astype(np.uint8).reshape(shape)
        if not _is_right(images, file, arrays[file]):
            raise DataError(
                f"What OpenML sent is not the published {images.name}: the SHA-256 digest of "
                f"{file.removesuffix('.gz')} differs."
            )
    return arrays


def _store(arrays: dict[str, Bytes], folder: Path) -> None:
    """Into the cache; a file is there whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    for file, array in arrays.items():
        content = _idx_header(array.shape) + array.tobytes()
        write_atomic(folder / file, gzip.compress(content, mtime=0))


def _as_rows(arrays: dict[str, Bytes]) -> ImageData:
    train, train_labels, test, test_labels = (arrays[file] for file in FILES)
    return ImageData(
        X_train=_brightness(train),
        y_train=train_labels.astype(np.int64),
        X_test=_brightness(test),
        y_test=test_labels.astype(np.int64),
        shape=(train.shape[1], train.shape[2]),
    )


def _brightness(images: Bytes) -> NDArray[np.float32]:
    return images.reshape(len(images), -1).astype(np.float32) / np.float32(255)
