"""Figures: the only part of suwr that draws."""
