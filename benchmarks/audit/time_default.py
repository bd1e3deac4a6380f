"""How long a default audit takes: 30 columns, 1,000 rows, a clean selector, predictive gaps.

A clean selector is the slowest case, since the whole budget is spent. Run from the repository's
root: ``python benchmarks/audit/time_default.py``. Writes ``timing.json`` beside this file.
"""

import datetime
import json
import os
import platform
from pathlib import Path

import sklearn

from suwr.audit import audit
from suwr.audit.zoo import TreeWalker, gaussian_rows


def main() -> None:
    """Time one audit of each kind."""
    X, y = gaussian_rows(0, n_columns=30)
    rows = {}
    for name, walker in (
        ("deterministic", TreeWalker(6, 30, 0)),
        ("drawing its masks", TreeWalker(6, 30, 0, sampled=True)),
    ):
        report = audit(walker, X, y, random_state=0, verbose=False)
        rows[name] = {
            "seconds": report.seconds,
            "calls": report.n_calls,
            "rows_asked": report.n_asked,
            "verdict": report.verdict,
        }
        print(name, rows[name])
    result = {
        "command": "python benchmarks/audit/time_default.py",
        "date": datetime.date.today().isoformat(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "scikit-learn": sklearn.__version__,
        "audits": rows,
    }
    path = Path(__file__).with_name("timing.json")
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
