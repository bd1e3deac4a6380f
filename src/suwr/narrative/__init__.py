"""Narratives of predictions: explanations, what rows were given, receipts and their reasons."""
