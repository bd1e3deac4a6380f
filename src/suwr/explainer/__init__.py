"""Explanations of models that are already there, without leakage."""
