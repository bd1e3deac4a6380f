"""Texts: their sentences, spans or words as units, and the display of what was read."""

from suwr.texts.highlight import Highlight, Passage
from suwr.texts.units import TextUnits

__all__ = ["Highlight", "Passage", "TextUnits"]
