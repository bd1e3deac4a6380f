"""Training and scoring of data larger than memory, and execution on a Dask cluster."""

from suwr.scale.partitions import ParquetTable, fit_partitions
from suwr.scale.scoring import ScoredFolder, score_partitions

__all__ = ["ParquetTable", "ScoredFolder", "fit_partitions", "score_partitions"]
