"""Functions that a guide prints, so that tests run exactly what readers copy."""

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def functions_of(page):
    """Return the namespace of the Python blocks of a page that define functions."""
    text = (DOCS / page).read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)
    defining = [block for block in blocks if re.search(r"^def ", block, flags=re.MULTILINE)]
    namespace = {"__name__": page}
    for block in defining:
        exec(compile(block, page, "exec"), namespace)
    namespace["lines"] = max(len(block.splitlines()) for block in defining)
    return namespace
