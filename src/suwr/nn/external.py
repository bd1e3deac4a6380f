"""A predictor that suwr did not train, in the place of the ensemble of predictors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from suwr.exceptions import ModelOutputError
from suwr.nn.distributed import Shard
from suwr.nn.ensembles import Ensemble

__all__ = ["ExternalPredictor", "MaskedPredictor"]


class MaskedPredictor(Protocol):
    """What the ``predictor`` parameter of the estimators accepts."""

    def predict_masked(self, X: Any, masks: NDArray[np.bool_]) -> Any:
        """Predict from masked rows: probabilities (n, n_classes), or values (n,)."""
        ...


class ExternalPredictor(Ensemble):
    """Evaluates a user's predictor on masked inputs ``[x ⊙ h, h]``.

    Its rows are decoded from the masked inputs, so that it cannot read a hidden value whatever it
    does with the mask. Equal rows are evaluated once.

    Parameters
    ----------
    source : MaskedPredictor
    n_columns : int
    decode : callable
        From encoded values (n, n_values) and masks (n, n_columns) to rows.
    to_outputs : callable
        From validated predictions (n, n_outputs) to network outputs.
    n_outputs : int
    """

    differentiable = False

    def __init__(
        self,
        source: MaskedPredictor,
        n_columns: int,
        decode: Callable[[NDArray[np.float32], NDArray[np.bool_]], Any],
        to_outputs: Callable[[NDArray[np.float64]], NDArray[np.float64]],
        n_outputs: int,
    ) -> None:
        super().__init__(n_members=1)
        self.source, self.decode, self.to_outputs = source, decode, to_outputs
        self.n_columns, self.n_outputs = n_columns, n_outputs
        self.dropout = 0.0
        # Optimizers and checks of devices expect a parameter; this one is never updated.
        self.unused = nn.Parameter(torch.zeros(()))

    def evaluate(self, x: Tensor, shard: Shard | None = None) -> Tensor:
        """See `Ensemble`; all members are the same predictor."""
        shape = (*x.shape[:-1], self.n_outputs)
        if x.numel() == 0:
            return x.new_zeros(shape)
        flat = x.detach().float().cpu().numpy().reshape(-1, x.shape[-1])
        keys = np.ascontiguousarray(flat).view(np.dtype((np.void, flat.itemsize * flat.shape[1])))
        _, first, inverse = np.unique(keys[:, 0], return_index=True, return_inverse=True)
        distinct = flat[first]
        masks = distinct[:, -self.n_columns :] > 0.5
        rows = self.decode(distinct[:, : -self.n_columns], masks)
        try:
            found = np.asarray(self.source.predict_masked(rows, masks.copy()), dtype=np.float64)
        except Exception as error:
            raise ModelOutputError(
                f"The 'predictor' failed on {len(masks)} rows: {type(error).__name__}: {error}"
            ) from error
        found = found.reshape(len(found), -1) if found.ndim == 1 else found
        if found.shape != (len(masks), self.n_outputs) or not np.isfinite(found).all():
            raise ModelOutputError(
                "predict_masked of the 'predictor' must return finite predictions of shape "
                f"({len(masks)}, {self.n_outputs}). Got shape {found.shape}, with "
                f"{int((~np.isfinite(found)).sum())} values that are not finite."
            )
        outputs = self.to_outputs(found).astype(np.float32)[inverse.reshape(-1)]
        return torch.as_tensor(outputs, device=x.device).reshape(shape)
