"""Duration of a default audit, with predictive gaps, of 1,000 rows and 30 columns.

The selectors are leak-free, which is the slowest case because the whole query budget is used. Run
``python benchmarks/audit/time_default.py`` from the root of the repository. Writes ``timing.json``
beside this file.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parents[1]))
from common import machine, write_json
from suwr.auditing import audit
from suwr_experiments.zoo import TreeWalker, gaussian_rows


def main() -> None:
    """Time one audit of each kind; wall and CPU time differ on a busy machine."""
    X, y = gaussian_rows(0, n_columns=30)
    rows = {}
    for name, walker in (
        ("deterministic", TreeWalker(6, 30, 0)),
        ("stochastic", TreeWalker(6, 30, 0, sampled=True)),
    ):
        started = time.process_time()
        report = audit(walker, X, y, random_state=0, verbose=False)
        rows[name] = {
            "seconds": round(report.seconds, 1),
            "processor_seconds": round(time.process_time() - started, 1),
            "calls": report.n_calls,
            "queries": report.n_queries,
            "verdict": report.verdict,
        }
        print(name, rows[name])
    about = {**machine(), "load": [round(v, 1) for v in os.getloadavg()]}
    write_json(Path(__file__).with_name("timing.json"), {"about": about, "audits": rows})


if __name__ == "__main__":
    main()
