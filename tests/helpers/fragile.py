"""A model that kills the process it is trained in, once."""

import os
import signal
from pathlib import Path

from suwr import SUWRClassifier

FATAL_WEIGHT = 0.07


class FragileClassifier(SUWRClassifier):
    """Dies at the first fit with one certain λ; the folder in FRAGILE remembers that it did."""

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
