"""Load model files and predict under the limits that the documentation states.

    python limited_load.py FILE...

prints one line of JSON per file. A process of its own loads each file, with address space for four
times the size of the file plus 200 MB and, against files that never end, 60 seconds of CPU time.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from collections.abc import Callable

# A forked process waits forever for the threads of its parent.
os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np

SLACK, CPU_SECONDS = 200 * 2**20, 60


def address_space() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def in_limited_child(size: int, work: Callable[[], str]) -> str:
    """Run ``work`` in a forked process with the limits of a file of ``size`` bytes."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
            limit = address_space() + 4 * size + SLACK
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
            try:
                outcome = work()
            except Exception as error:
                outcome = f"{type(error).__name__}: {error}"
            os.write(writer, outcome.encode())
            code = 0
        finally:
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        outcome = pipe.read()
    status = os.waitpid(child, 0)[1]
    return outcome or f"killed by signal {os.WTERMSIG(status)}"


def load_and_predict(path: str) -> str:
    import suwr
    from suwr.exceptions import ModelFileError

    try:
        model = suwr.load(path)
    except ModelFileError as error:
        return f"refused: {error}"
    model.predict(np.zeros((1, model.n_features_in_)))
    return "predicted"


if __name__ == "__main__":
    import warnings
    from pathlib import Path

    warnings.simplefilter("error")
    fixtures = Path(__file__).parents[1] / "estimators" / "fixtures"
    # Import everything before the limits are set.
    load_and_predict(str(fixtures / "regressor-1.suwr"))
    for name in sys.argv[1:]:
        found = in_limited_child(os.path.getsize(name), lambda name=name: load_and_predict(name))
        print(json.dumps(found), flush=True)
