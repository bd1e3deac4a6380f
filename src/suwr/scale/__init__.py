"""Data larger than memory: scored partition by partition, on one machine or on many."""

from suwr.scale.scoring import ScoredFolder, score_partitions

__all__ = ["ScoredFolder", "score_partitions"]
