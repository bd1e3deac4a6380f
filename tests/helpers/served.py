"""A real server process of a model file."""

import os
import socket
import subprocess
import sys
import time
from contextlib import suppress
from urllib.error import URLError
from urllib.request import urlopen


def free_port():
    """Return a port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start_server(model, port, log, *options):
    """Start ``suwr serve`` and wait until it answers; return the process."""
    process = subprocess.Popen(
        [sys.executable, "-m", "suwr.cli", "serve", str(model), "--port", str(port), *options],
        stdout=log,
        stderr=subprocess.STDOUT,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        start_new_session=True,
    )
    for _ in range(600):
        with suppress(URLError, ConnectionError):
            urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5).read()
            return process
        if process.poll() is not None:
            break
        time.sleep(0.1)
    process.kill()
    raise AssertionError("The server does not answer.")
