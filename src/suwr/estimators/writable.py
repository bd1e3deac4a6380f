"""`WritableModel`: the files of a fitted model."""

from __future__ import annotations

import os

from sklearn.utils.validation import check_is_fitted

from suwr.estimators.certifiable import CertifiableModel

__all__ = ["WritableModel"]


class WritableModel(CertifiableModel):
    """Base class that writes model files and exports them to other formats."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one file of tensors and JSON, to be read by `suwr.load`.

        Parameters
        ----------
        path : path
        """
        from suwr.estimators.io import save

        check_is_fitted(self, "policy_")
        save(self, path)

    def to_onnx(
        self,
        path: str | os.PathLike[str],
        *,
        sparsity_weight: float | None = None,
        mean_features: float | None = None,
    ) -> None:
        """Write one step of Algorithm 1 as an ONNX graph, with the encoding as metadata.

        The graph maps ``values`` (encoded rows, float) and ``mask`` (revealed columns, bool) to
        ``stop_probability``, ``logits`` (-inf for units that cannot be revealed) and
        ``prediction``. It replaces hidden values itself, so they have no influence. A caller
        repeats it until ``stop_probability`` is at least one half or ``max_steps`` is reached.

        Parameters
        ----------
        path : path
            The file; an existing file is replaced atomically.
        sparsity_weight, mean_features : float, optional
            As in `select`; an ONNX file holds the policy of one λ.

        Raises
        ------
        UnsupportedModelError
            The model has a network that cannot be exported.
        """
        from suwr.integrations.onnx import export_onnx

        export_onnx(self, path, sparsity_weight=sparsity_weight, mean_features=mean_features)
