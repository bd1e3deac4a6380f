"""Training and scoring of data larger than memory, and execution on a Dask cluster."""

from suwr.scale.scoring import ScoredFolder, score_partitions
from suwr.scale.training import ParquetTable, fit_partitions

__all__ = ["ParquetTable", "ScoredFolder", "fit_partitions", "score_partitions"]
