"""Data sets and metrics of the paper's experiments."""
