"""A selector that sees the whole row beside a predictor that sees what it selects."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from suwr.nn.ensembles import Ensemble, EnsembleConv, EnsembleMLP
from suwr.nn.rollout import BLOCK

__all__ = ["SelectorNetwork", "in_blocks", "top_units"]


def in_blocks(evaluate: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
    """Evaluate rows in blocks of one shape, the last one padded, and join the results.

    As in `suwr.nn.rollout`: matrix products of different shapes may round differently, and a row
    must get the same answer alone as in any batch.
    """
    parts = []
    for start in range(0, len(tensors[0]), BLOCK):
        block = [tensor[start : start + BLOCK] for tensor in tensors]
        n_rows = len(block[0])
        padded = [F.pad(part, (0, 0, 0, BLOCK - n_rows)) for part in block]
        parts.append(evaluate(*padded)[:n_rows])
    return torch.cat(parts)


def top_units(scores: Tensor, k: int) -> Tensor:
    """The ``k`` best units of each row as a mask, bool ``(n, n_units)``.

    Examples
    --------
    >>> top_units(torch.tensor([[0.1, 3.0, 2.0]]), 2)
    tensor([[False,  True,  True]])
    """
    chosen = torch.zeros_like(scores, dtype=torch.bool)
    return chosen.scatter(1, scores.topk(k, dim=1).indices, True)


class SelectorNetwork(nn.Module):
    """Two networks of one shape: scores of units from all of *x*, a prediction from *x ⊙ h*.

    Parameters
    ----------
    n_values, n_columns, n_units, n_outputs : int
        As in `suwr.nn.networks.Architecture`.
    hidden_size, n_layers : int
    baseline : bool, default=False
        A third network that predicts from all of *x*.
    dropout : float, default=0.0
        Of predictor and baseline.
    image_shape : tuple of int, optional
        The predictor begins with convolutions over images of this shape.
    """

    def __init__(
        self,
        n_values: int,
        n_columns: int,
        n_units: int,
        n_outputs: int,
        hidden_size: int,
        n_layers: int,
        *,
        baseline: bool = False,
        dropout: float = 0.0,
        image_shape: tuple[int, int] | None = None,
    ) -> None:
        super().__init__()
        n_in = n_values + n_columns
        self.selector = EnsembleMLP(1, n_values, hidden_size, n_layers, n_units)
        self.predictor: Ensemble
        if image_shape is None:
            self.predictor = EnsembleMLP(1, n_in, hidden_size, n_layers, n_outputs, dropout)
        else:
            self.predictor = EnsembleConv(1, image_shape, 0, hidden_size, n_outputs, dropout)
        self.baseline = (
            EnsembleMLP(1, n_values, hidden_size, n_layers, n_outputs, dropout)
            if baseline
            else None
        )

    def predictors(self) -> nn.ModuleList:
        """The networks that predict: predictor, and baseline where there is one."""
        return nn.ModuleList(n for n in (self.predictor, self.baseline) if n is not None)

    def scores(self, values: Tensor) -> Tensor:
        """One score per unit from the whole row, ``(n, n_units)``."""
        return self.selector(values.unsqueeze(0))[0]

    def outputs(self, inputs: Tensor) -> Tensor:
        """What the predictor says of *[x ⊙ h, h]*, ``(n, n_outputs)``."""
        return self.predictor(inputs.unsqueeze(0))[0]

    def baseline_outputs(self, values: Tensor) -> Tensor:
        """What the baseline says of the whole row, ``(n, n_outputs)``."""
        assert self.baseline is not None
        return self.baseline(values.unsqueeze(0))[0]
