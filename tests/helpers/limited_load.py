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
import time
from collections.abc import Callable
from typing import Any

# A forked process waits forever for the threads of its parent.
os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np

SLACK, CPU_SECONDS = 200 * 2**20, 60


def address_space() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def peak_mb() -> float:
    """Peak resident memory since the process was created."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def in_limited_child(size: int, work: Callable[[], Any]) -> dict[str, Any]:
    """Run ``work`` in a forked process with the limits of a file of ``size`` bytes."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
            limit = address_space() + 4 * size + SLACK
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
            begun = time.process_time()
            try:
                outcome = work()
            except Exception as error:
                outcome = f"{type(error).__name__}: {error}"
            seconds = time.process_time() - begun
            os.write(writer, json.dumps({"outcome": outcome, "seconds": seconds}).encode())
            code = 0
        finally:
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        text = pipe.read()
    status = os.waitpid(child, 0)[1]
    if not text:
        return {"outcome": f"killed by signal {os.WTERMSIG(status)}", "seconds": CPU_SECONDS}
    return json.loads(text)


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
