"""MNIST and Fashion-MNIST: read from a folder, or downloaded once by pooch.

The decoded arrays must match the SHA-256 digests below, whichever files they come from, so that
every machine trains on the same rows in the same order.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from suwr._utils.validation import check_choice, require
from suwr.exceptions import DataError, MissingExtraError

__all__ = ["IMAGE_SETS", "ImageData", "ImageSet", "load_images", "read_idx"]

Bytes = NDArray[np.uint8]

#: Environment variable with the folder that holds ``mnist/`` and ``fashion-mnist/``.
FOLDER_VARIABLE = "SUWR_DATA"
FILES = (
    "train-images-idx3-ubyte.gz",
    "train-labels-idx1-ubyte.gz",
    "t10k-images-idx3-ubyte.gz",
    "t10k-labels-idx1-ubyte.gz",
)
_SHAPES = dict(zip(FILES, [(60_000, 28, 28), (60_000,), (10_000, 28, 28), (10_000,)], strict=True))


@dataclass(frozen=True)
class ImageSet:
    """A published image data set.

    Attributes
    ----------
    name : str
        Also the name of its folder.
    url : str
        Where the files are published.
    shapes : mapping from file name to tuple of int
        Shape of the decoded array in each idx.gz file.
    digests : mapping from file name to str
        SHA-256 digest of the decoded array in each idx.gz file.
    checksums : mapping from file name to str
        Digest of the published file in pooch's notation.
    """

    name: str
    url: str
    shapes: Mapping[str, tuple[int, ...]]
    digests: Mapping[str, str]
    checksums: Mapping[str, str]


def _by_file(values: list[str]) -> dict[str, str]:
    return dict(zip(FILES, values, strict=True))


IMAGE_SETS = {
    "mnist": ImageSet(
        "mnist",
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        _SHAPES,
        _by_file([
            "741c988805d008ac6e4c904b69001ba184c24b2c540a4ef403f4c71b676cf757",
            "1feba77c54802fa5339a11837ea4b2866434b83314ec45192930f1df69120c13",
            "6d87418db22cc8025d05968bec9bd5c3932904b23485740db143a061a2c9d161",
            "ddeff807876a9661a1110d45c266c86239a3a1b7d37da0c3716a7a683c852ff5",
        ]),
        _by_file([
            "md5:f68b3c2dcbeaaa9fbdd348bbdeb94873",
            "md5:d53e105ee54ea40749a09fcbcd1e9432",
            "md5:9fb629c4189551a2d022fa330f9573f3",
            "md5:ec29112dd5afa0611ce80d1b7f02629c",
        ]),
    ),
    "fashion-mnist": ImageSet(
        "fashion-mnist",
        "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
        _SHAPES,
        _by_file([
            "2e487a6c89124f78f2d7521542223cafe96f7123c3ca13d447772ac6ecbb3012",
            "657fbd221bfc9f4198cc14b5619cc33ec57c58dd0e47af4d99d6650759e869a7",
            "c867c93ff95360594e8ec3287995350b824dd110b11595c0e13d5423f621867a",
            "3d0e6c6ea990b53b6f8f500a41cac93881d981b315f84578b7d915342ade01e9",
        ]),
        _by_file([
            "md5:8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            "md5:25c81989df183df01b3e8a0aad5dffbe",
            "md5:bef4ecab320f06d8554ea6380940ec79",
            "md5:bb300cfdad3c16e7a12a480ee83cd310",
        ]),
    ),
}  # fmt: skip


@dataclass(frozen=True)
class ImageData:
    """Rows of an image data set, in their published order.

    Attributes
    ----------
    X_train, X_test : ndarray of float32, shape (n, 784)
        Brightness from 0 to 1, row by row of pixels.
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
    """Load MNIST or Fashion-MNIST.

    The four idx.gz files are read from the folder in the environment variable ``SUWR_DATA`` (from
    its subfolder ``mnist`` or ``fashion-mnist``). Files that are not there are downloaded once by
    pooch, which needs the extra 'bench', into its cache.

    Parameters
    ----------
    name : {'mnist', 'fashion-mnist'}

    Returns
    -------
    ImageData

    Raises
    ------
    DataError
        A file is damaged, or the files are neither found nor downloadable.
    """
    check_choice(name, "name", "load_images", tuple(IMAGE_SETS))
    folder = os.environ.get(FOLDER_VARIABLE)
    return load(IMAGE_SETS[name], Path(folder) if folder else None)


def load(images: ImageSet, folder: Path | None, cache: Path | None = None) -> ImageData:
    """Read an image data set from a folder that holds all of its files, or download it.

    Parameters
    ----------
    images : ImageSet
    folder : Path or None
        Parent folder of the data set's own folder.
    cache : Path or None, default=None
        Where downloads are kept; None is the user's cache folder.
    """
    if (place := local_folder(images, folder)) is not None:
        paths = {file: place / file for file in FILES}
    else:
        paths = _download(images, folder, cache)
    arrays = []
    for file, path in paths.items():
        array = read_idx(path, images.shapes[file])
        if hashlib.sha256(array.tobytes()).hexdigest() != images.digests[file]:
            raise DataError(
                f"{str(path)!r} is not the published file of {images.name}: its SHA-256 digest "
                "differs. Delete it, or replace it by the published file."
            )
        arrays.append(array)
    train, train_labels, test, test_labels = arrays
    return ImageData(
        X_train=_brightness(train),
        y_train=train_labels.astype(np.int64),
        X_test=_brightness(test),
        y_test=test_labels.astype(np.int64),
        shape=(train.shape[1], train.shape[2]),
    )


def local_folder(images: ImageSet, folder: Path | None) -> Path | None:
    """Folder of the files of a data set, or None if one of them is missing."""
    if folder is None:
        return None
    place = folder / images.name
    return place if all((place / file).is_file() for file in FILES) else None


def _download(images: ImageSet, folder: Path | None, cache: Path | None) -> dict[str, Path]:
    """Paths of the files in the cache of pooch; what is missing there is downloaded."""
    where = "" if folder is None else f" is not in {str(folder / images.name)!r} and"
    offline = (
        f"Without a network, put the files {', '.join(FILES)} into a folder {images.name!r} and "
        f"pass its parent folder as --data or in the environment variable {FOLDER_VARIABLE}."
    )
    try:
        pooch = require("pooch", "bench", f"Downloading {images.name}")
    except MissingExtraError as error:
        raise MissingExtraError(f"{error}. {offline}") from error
    place = (cache or Path(pooch.os_cache("suwr"))) / images.name
    source = pooch.create(place, images.url, registry=dict(images.checksums))
    try:
        return {file: Path(source.fetch(file)) for file in FILES}
    except (OSError, ValueError) as error:
        raise DataError(
            f"{images.name}{where} could not be downloaded from {images.url}: {error}. {offline}"
        ) from error


def read_idx(path: Path, shape: tuple[int, ...]) -> Bytes:
    """Decode an idx.gz file of unsigned bytes.

    No more than ``shape`` requires is decompressed, whatever the file contains.

    Parameters
    ----------
    path : Path
    shape : tuple of int
        Expected shape.
    """
    # Two zeros, the code of unsigned bytes, the number of axes and the length of each.
    header = bytes([0, 0, 8, len(shape)]) + struct.pack(f">{len(shape)}I", *shape)
    try:
        with gzip.open(path) as file:
            found = file.read(len(header))
            content = file.read(int(np.prod(shape)) + 1)
    except (EOFError, zlib.error, OSError) as error:
        raise DataError(f"{str(path)!r} is damaged or not a gzip file: {error}.") from error
    if found != header or len(content) != np.prod(shape):
        raise DataError(f"{str(path)!r} is not an idx file of bytes with shape {shape}.")
    return np.frombuffer(content, dtype=np.uint8).reshape(shape)


def _brightness(images: Bytes) -> NDArray[np.float32]:
    return images.reshape(len(images), -1).astype(np.float32) / np.float32(255)
