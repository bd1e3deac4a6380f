"""survey-core, the engine of SurveyJS forms: installed from npm once, and run by Node."""

import json
import shutil
import subprocess
import tempfile
from pathlib import Path

import pandas as pd

from suwr.deploy.form_files import NOT_AVAILABLE, OTHER

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
        values, missing = form.questions[page.column].values, pd.isna(value)
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
