"""Helpers that every layer may import: files, optional dependencies, text, validation, progress."""
