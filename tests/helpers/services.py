"""Requests to the service, a server process, and the engine of SurveyJS forms."""

import asyncio
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import httpx
import pandas as pd

from suwr.deploy.form_files import NOT_AVAILABLE, OTHER


def _run(coroutine):
    """Run a coroutine in a thread: the browser of other tests has an event loop in this one."""
    with ThreadPoolExecutor(1) as executor:
        return executor.submit(asyncio.run, coroutine).result()


class Client:
    """A synchronous client of an application."""

    def __init__(self, app):
        self.app = app

    def request(self, method, path, **options):
        async def send():
            transport = httpx.ASGITransport(self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://service") as client:
                return await client.request(method, path, **options)

        return _run(send())

    def post_all(self, path, bodies):
        """Send requests at the same time; return their responses in order."""

        async def send():
            transport = httpx.ASGITransport(self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://service") as client:
                return await asyncio.gather(*(client.post(path, json=body) for body in bodies))

        return _run(send())

    def get(self, path, **options):
        return self.request("GET", path, **options)

    def post(self, path, **options):
        return self.request("POST", path, **options)

    def put(self, path, **options):
        return self.request("PUT", path, **options)


async def in_parts(body, size):
    """Yield a body in parts, so that its length is not declared."""
    for start in range(0, len(body), size):
        yield body[start : start + size]


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


VERSION = "2.5.43"

WALK = Path(__file__).with_name("survey_walk.cjs")


def install(folder):
    """Install the package into a folder unless it is there; return why that is impossible, or None.

    The folder is complete or absent, also where several processes install at the same time.
    """
    if shutil.which("node") is None or shutil.which("npm") is None:
        return "there is no command 'node' or 'npm'"
    if folder.is_dir():
        return None
    new = Path(tempfile.mkdtemp(dir=folder.parent))
    command = ["npm", "install", f"survey-core@{VERSION}", "--prefix", str(new), "--ignore-scripts",
               "--no-audit", "--no-fund", "--fetch-retries=0", "--fetch-timeout=20000"]  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    except subprocess.TimeoutExpired:
        done = None
    if done is None or done.returncode != 0:
        shutil.rmtree(new)
        return "npm cannot install survey-core"
    try:
        new.rename(folder)
    except OSError:
        shutil.rmtree(new)  # another process was faster
    return None


def survey_answers(form, walk, value_of):
    """Return what a person enters on a walk through a form, by the name of the question."""
    found = {}
    for page in walk.asked:
        name, value = f"q{page.number}", value_of(page.column)
        values, missing = form.codes[page.column].categories, pd.isna(value)
        if values is not None:
            known = f"v{values.index(value)}" if value in values else OTHER
            found[name] = NOT_AVAILABLE if missing else known
            continue
        if any(branch.answer.missing for branch in page.branches):
            found[f"{name}_known"] = NOT_AVAILABLE if missing else "yes"
        if not missing:
            found[name] = value
    return found


def walk_survey(folder, survey, rows):
    """Fill in a survey for each row, as a person does, with the engine of SurveyJS.

    Parameters
    ----------
    folder : Path
        Of `install`.
    survey : bytes
        The JSON of SurveyJS.
    rows : list of list of dict
        The `survey_answers` of each row. With several of them, the answers are changed from each to
        the next, on the same survey.

    Returns
    -------
    list of dict
        For each row: the names of the ``pages`` from first to last, the ``texts`` on them, the
        ``result`` as HTML (None if it is not reached) and the final ``data``.
    """
    # Numbers are typed, as texts.
    typed = [[{k: str(v) for k, v in answers.items()} for answers in row] for row in rows]
    content = json.dumps({"survey": json.loads(survey), "rows": typed})
    done = subprocess.run(
        ["node", str(WALK), str(folder / "node_modules" / "survey-core")],
        input=content, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    # Expressions that are not valid are only reported.
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


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
