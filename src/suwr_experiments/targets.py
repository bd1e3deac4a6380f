"""What SUWR is meant to reach on Syn1 to Syn6, beside what it reached."""

from __future__ import annotations

import numpy as np

from suwr_experiments.benchmark_summary import Summary
from suwr_experiments.published import LIMIT, PUBLISHED
from suwr_experiments.tables import Grid

__all__ = ["TARGETS", "target_grid"]

#: Least AUROC, most FDR and least TPR, mean of the seeds.
TARGETS = {
    "Syn1": (0.699, 2.0, 88.0),
    "Syn2": (0.897, 3.0, 95.0),
    "Syn3": (0.904, 2.0, 88.0),
    "Syn4": (0.816, 6.0, 95.0),
    "Syn5": (0.818, 6.0, 95.0),
    "Syn6": (0.899, 5.0, 95.0),
}


def target_grid(summaries: list[Summary]) -> Grid:
    """One row for each data set that SUWR was run on."""
    rows = []
    for s in summaries:
        if s.method != "SUWR" or s.data not in TARGETS:
            continue
        least, most, found = TARGETS[s.data]
        auroc, fdr, tpr = (float(np.mean(s.values(m))) for m in ("auroc", "fdr", "tpr"))
        missed = [
            f"{name} by {abs(gap):.{digits}f}"
            for name, gap, digits in (
                ("AUROC", min(auroc - least, 0), 4),
                ("FDR", max(fdr - most, 0), 1),
                ("TPR", min(tpr - found, 0), 1),
            )
            if round(gap, digits)
        ]
        rows.append(
            [
                s.data,
                f"{auroc:.4f} (≥ {least})", f"{fdr:.1f} (≤ {most:g})", f"{tpr:.1f} (≥ {found:g})",
                f"{PUBLISHED['SUWR'][s.data]['auroc']:.3f}", f"{LIMIT[s.data]:.4f}",
                ", ".join(missed) or "reached",
            ]
        )  # fmt: skip
    header = ["data", "AUROC", "FDR", "TPR", "published AUROC", "limit", "missed"]
    return Grid(header, rows)
