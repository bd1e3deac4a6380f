"""How many steps a policy may take, and how much one step may reveal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from suwr.exact._checks import check_count


@dataclass(frozen=True)
class Steps:
    """The paper's T, and the most features of one step.

    Attributes
    ----------
    max_steps : int or None
        Most steps; None is as many as there are features.
    units_per_step : int
        Most features that one step reveals without looking in between.
    """

    max_steps: int | None = None
    units_per_step: int = 1

    @classmethod
    def checked(cls, max_steps: Any, units_per_step: Any, owner: str) -> Steps:
        """Check both parameters."""
        if max_steps is not None:
            max_steps = check_count(max_steps, "max_steps", owner, 0)
        return cls(max_steps, check_count(units_per_step, "units_per_step", owner, 1))

    def is_free(self, n_features: int) -> bool:
        """Whether one feature a step loses nothing, so that time need not be counted.

        With enough steps, looking in between never hurts. With one feature a step, the number of
        revealed features is the time.
        """
        return self.units_per_step == 1 or self.max_steps is None or self.max_steps >= n_features

    def max_size(self, n_features: int) -> int:
        """Most features that can be revealed at all."""
        if self.max_steps is None:
            return n_features
        return min(n_features, self.max_steps * self.units_per_step)

    @property
    def limit(self) -> int:
        """The number of steps, when it is limited."""
        if self.max_steps is None:
            raise ValueError("The number of steps is not limited.")
        return self.max_steps
