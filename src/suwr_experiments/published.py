"""Published results: the paper's Table 2 (Syn1 to Syn6), and GDFS on MNIST."""

from __future__ import annotations

__all__ = ["GDFS_ON_MNIST", "LIMIT", "PUBLISHED"]

_NAMES = ("cfsr", "tpr", "fdr", "auroc")
# CFSR (Syn4 to Syn6 only), TPR and FDR in percent, AUROC.
_ROWS: dict[str, tuple[tuple[float | None, float, float, float], ...]] = {
    "AllFeatures": (
        (None, 100.0, 82.0, 0.578), (None, 100.0, 64.0, 0.789), (None, 100.0, 64.0, 0.854),
        (100.0, 100.0, 64.0, 0.558), (100.0, 100.0, 64.0, 0.662), (100.0, 100.0, 55.0, 0.692),
    ),
    "Oracle": (
        (None, 100.0, 0.0, 0.700), (None, 100.0, 0.0, 0.895), (None, 100.0, 0.0, 0.903),
        (100.0, 100.0, 0.0, 0.818), (100.0, 100.0, 0.0, 0.823), (100.0, 100.0, 0.0, 0.902),
    ),
    "L2X": (
        (None, 33.2, 33.6, 0.675), (None, 44.6, 55.4, 0.872), (None, 66.0, 34.0, 0.889),
        (56.5, 79.2, 34.7, 0.781), (51.0, 71.9, 43.6, 0.788), (34.0, 80.1, 19.9, 0.876),
    ),
    "INVASE": (
        (None, 100.0, 0.0, 0.692), (None, 100.0, 0.0, 0.873), (None, 95.0, 0.0, 0.883),
        (56.0, 91.0, 10.2, 0.792), (40.7, 76.0, 2.2, 0.780), (60.7, 89.4, 7.0, 0.877),
    ),
    "TabNet": (
        (None, 86.4, 57.9, 0.667), (None, 98.7, 5.6, 0.885), (None, 96.6, 9.7, 0.903),
        (99.7, 91.5, 29.5, 0.789), (98.9, 92.5, 36.2, 0.791), (100.0, 97.5, 23.6, 0.870),
    ),
    "REALX": (
        (None, 100.0, 24.2, 0.661), (None, 100.0, 20.0, 0.794), (None, 100.0, 7.94, 0.873),
        (100.0, 99.9, 41.9, 0.748), (100.0, 99.8, 52.4, 0.774), (100.0, 97.2, 8.27, 0.842),
    ),
    "SUWR": (
        (None, 100.0, 2.35, 0.700), (None, 97.0, 0.0, 0.895), (None, 100.0, 0.0, 0.903),
        (100.0, 98.0, 20.0, 0.810), (100.0, 99.6, 20.0, 0.816), (100.0, 97.4, 0.37, 0.896),
    ),
}  # fmt: skip

#: Metrics of each method on each data set: ``PUBLISHED["L2X"]["Syn4"]["auroc"]``.
PUBLISHED: dict[str, dict[str, dict[str, float]]] = {
    method: {
        f"Syn{number}": {
            name: value for name, value in zip(_NAMES, row, strict=True) if value is not None
        }
        for number, row in enumerate(rows, start=1)
    }
    for method, rows in _ROWS.items()
}

#: AUROC of the true p(y | x) on the test rows of the benchmark.
LIMIT = {
    "Syn1": 0.7023, "Syn2": 0.9006, "Syn3": 0.9075, "Syn4": 0.8228, "Syn5": 0.8273, "Syn6": 0.9066,
}  # fmt: skip

#: Accuracy of GDFS on MNIST in percent by its number of pixels (Covert et al., 2023).
GDFS_ON_MNIST = {10: 87.1, 20: 94.4, 30: 96.4, 50: 97.4}
