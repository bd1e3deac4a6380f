"""The pinned versions and their digests."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PIN = re.compile(r"^([\w.-]+)==([^\s;]+)", re.MULTILINE)


def test_every_pinned_version_has_digests():
    pinned = dict(PIN.findall((ROOT / "constraints.txt").read_text()))
    hashed = (ROOT / "requirements-hashed.txt").read_text()
    assert dict(PIN.findall(hashed)) == pinned
    # One requirement per name, which starts in the first column; the others are comments.
    for requirement in re.split(r"\n(?=\S)", hashed.strip())[1:]:
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", requirement), requirement
