"""Data larger than memory: trained on from files, scored partition by partition."""

from suwr.scale.scoring import ScoredFolder, score_partitions
from suwr.scale.training import ParquetTable, fit_partitions

__all__ = ["ParquetTable", "ScoredFolder", "fit_partitions", "score_partitions"]
