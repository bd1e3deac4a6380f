"""suwr: feature selection for each prediction that provably tells nothing else."""

__version__ = "0.1.0"
