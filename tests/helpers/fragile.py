"""A classifier that kills its process once."""

import os
import signal
from pathlib import Path

from suwr import SUWRClassifier

FATAL_WEIGHT = 0.07


class FragileClassifier(SUWRClassifier):
    """Kills the process in the first fit with `FATAL_WEIGHT`; a file in $FRAGILE records it."""

    def fit(self, X, y, sample_weight=None):
        if self.sparsity_weight == FATAL_WEIGHT:
            marker = Path(os.environ["FRAGILE"]) / str(len(X))
            try:
                marker.touch(exist_ok=False)
            except FileExistsError:
                pass
            else:
                os.kill(os.getpid(), signal.SIGKILL)
        return super().fit(X, y, sample_weight)
