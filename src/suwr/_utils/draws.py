"""Random numbers of rows that do not depend on the other rows of a call.

A generator that rows share would make the draws of a row depend on the rows before it. Philox is a
counter-based generator (Salmon et al., SC 2011): a random number is a function of a key and a
counter. Here the key is a seed, and the counter states the row, the draw and its number.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from suwr._utils.validation import parameter_error

Words = NDArray[np.uint64]

_LOW, _HALF = np.uint64(2**32 - 1), np.uint64(32)
_MULTIPLIERS = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_INCREMENTS = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
# Random numbers per evaluation, which bounds the memory of intermediate results.
_BLOCK = 2**16


def philox(counter: tuple[Words, Words, Words, Words], key: tuple[Words, Words]) -> Words:
    """Philox 4x32-10: four random words for every counter and key.

    Parameters
    ----------
    counter : four arrays of uint64
        The words of the counter, each less than 2**32; they are broadcast with the key.
    key : two arrays of uint64
        The words of the key, each less than 2**32.

    Returns
    -------
    ndarray of uint64, shape (..., 4)
        Words of 32 bits.

    Examples
    --------
    >>> zero = np.zeros(1, dtype=np.uint64)
    >>> [f"{word:08x}" for word in philox((zero, zero, zero, zero), (zero, zero))[0].tolist()]
    ['6627e8d5', 'e169c58d', 'bc57ac4c', '9b00dbd8']
    """
    (c0, c1, c2, c3), (k0, k1) = counter, key
    for _ in range(10):
        left, right = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c1 = (right >> _HALF) ^ c1 ^ k0, right & _LOW
        c2, c3 = (left >> _HALF) ^ c3 ^ k1, left & _LOW
        k0, k1 = (k0 + _INCREMENTS[0]) & _LOW, (k1 + _INCREMENTS[1]) & _LOW
    return np.stack(np.broadcast_arrays(c0, c1, c2, c3), axis=-1)


@dataclass(frozen=True)
class RowDraws:
    """Random numbers of rows, each a function of the seed and the position of its row alone.

    Attributes
    ----------
    seed : ndarray of uint64, shape (n,)
    position : ndarray of uint64, shape (n,)
        Rows of equal seed and position have the same random numbers.

    Examples
    --------
    >>> draws = RowDraws.of(0, 5, "select")
    >>> bool((draws[3:].uniform(0, 2) == draws.uniform(0, 2)[3:]).all())
    True
    """

    seed: Words
    position: Words

    @classmethod
    def of(
        cls, random_state: np.random.RandomState | ArrayLike | None, n_rows: int, owner: str
    ) -> RowDraws:
        """The draws of the rows of a call.

        Parameters
        ----------
        random_state : int, RandomState, None or array of int of shape (n_rows,)
            One seed for all rows, which then differ by their positions; or the seed of each row,
            whose draws do not depend on its position. A row that is alone has the same draws for
            an int as for an array of this int.
        n_rows : int
        owner : str
            The method with the parameter 'random_state', for the error message.
        """
        position = np.arange(n_rows, dtype=np.uint64)
        if random_state is None or isinstance(random_state, np.random.RandomState):
            randint = np.random.randint if random_state is None else random_state.randint
            seed = np.asarray(randint(0, 2**64, dtype=np.uint64))
        else:
            seed = np.asarray(random_state)
            if seed.dtype.kind not in "iu" or seed.shape not in ((), (n_rows,)) or (seed < 0).any():
                expected = (
                    "None, an instance of 'RandomState', an int in the range [0, 2**64), or an "
                    f"array of such ints of shape ({n_rows},), one per row"
                )
                raise parameter_error("random_state", owner, expected, random_state)
            if seed.ndim == 1:
                position = np.zeros_like(position)
        return cls(np.broadcast_to(seed.astype(np.uint64), n_rows), position)

    def __len__(self) -> int:
        return len(self.position)

    def __getitem__(self, rows: slice | NDArray[np.intp]) -> RowDraws:
        """The draws of some of the rows."""
        return RowDraws(self.seed[rows], self.position[rows])

    def uniform(self, draw: int, n: int) -> NDArray[np.float64]:
        """Numbers that are uniform on (0, 1), ``(n_rows, n)``.

        Parameters
        ----------
        draw : int
            Draws of different numbers are independent; draws of the same number are equal.
        n : int
            Numbers per row; the first ones are the same for every ``n``.
        """
        block = np.arange(-(-n // 4), dtype=np.uint64)
        row, seed = self.position[:, None], self.seed[:, None]
        counter = (block, np.asarray(draw, dtype=np.uint64), row & _LOW, row >> _HALF)
        words = philox(counter, (seed & _LOW, seed >> _HALF))
        words = words.reshape(len(self), 4 * len(block))[:, :n]
        return (words.astype(np.float64) + 0.5) * 2.0**-32

    def gumbel(self, draw: int, n: int) -> NDArray[np.float32]:
        """Standard Gumbel noise, ``(n_rows, n)``; see `uniform`."""
        noise = np.empty((len(self), n), dtype=np.float32)
        step = max(1, _BLOCK // max(n, 1))
        for start in range(0, len(self), step):
            rows = slice(start, start + step)
            noise[rows] = -np.log(-np.log(self[rows].uniform(draw, n)))
        return noise
