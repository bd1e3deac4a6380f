"""`ModelNarrative`: a narrative that ends with the output of the explained model."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from suwr._utils.text import format_label, percent_of
from suwr.explanation import Narrative, Prediction

__all__ = ["ModelNarrative"]


@dataclass(frozen=True)
class ModelNarrative(Narrative):
    """A narrative, and what the explained model says about the whole row.

    Attributes
    ----------
    model_output : tuple of float
        Output of the model for all features: a probability per class, or one value. Unlike
        everything else in a narrative, it depends on features that were not revealed.

    Examples
    --------
    >>> from suwr.explanation import Narrative, Step
    >>> step = Step({"bmi": {"bmi": 32.1}}, 0.9, (152.1,), (206.0,))
    >>> narrative = Narrative(0, (152.1,), 0.1, (step,), "decision", None, 10)
    >>> print(ModelNarrative.of(narrative, (210.0,)).comparison)
    The model says 210; from these features alone: 206.
    """

    model_output: Prediction = ()

    @classmethod
    def of(cls, narrative: Narrative, model_output: Prediction) -> ModelNarrative:
        """Add the output of the model to a narrative."""
        known = {field.name: getattr(narrative, field.name) for field in fields(Narrative)}
        return cls(**known, model_output=model_output)

    @property
    def agrees(self) -> bool:
        """Whether the revealed features give the class that the model predicts."""
        return bool(self._label(self.model_output) == self.label)

    @property
    def comparison(self) -> str:
        """The output of the model beside that of the revealed features, as a sentence."""
        if self.classes is None:
            says, alone = self._format(self.model_output), self._format(self.prediction)
        else:
            place = self.model_output.index(max(self.model_output))
            label = format_label(self.classes[place])
            says = percent_of(label, self.model_output[place])
            alone = percent_of(label, self.prediction[place])
        return f"The model says {says}; from these features alone: {alone}."

    def text(self, *, context: bool = True) -> str:
        """Return the narrative as plain text; the last line is `comparison`."""
        return f"{super().text(context=context)}\n{self.comparison}"

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> ModelNarrative:
        """Create a narrative from the output of `to_dict`."""
        known = {name: value for name, value in state.items() if name != "model_output"}
        return cls.of(Narrative.from_dict(known), tuple(map(float, state["model_output"])))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can represent."""
        return {**super().to_dict(), "model_output": list(self.model_output)}
