"""The wheel: what it holds, and the demo run from it alone in an empty environment.

    python benchmarks/reliability/wheel.py

Builds the source distribution and, from it, the wheel; compares the files of the wheel with those
of src/suwr; installs the wheel with the extra 'plots' and pandas into a scratch environment outside
of the repository; runs ``suwr demo`` there; and copies what passed to dist/. Needs `build`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import venv
import zipfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import machine, write_json

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def expected_files() -> set[str]:
    """The files that belong into the wheel, apart from its metadata."""
    package = ROOT / "src" / "suwr"
    kept = [*package.rglob("*.py"), *(package / "report" / "assets").iterdir()]
    return {path.relative_to(ROOT / "src").as_posix() for path in [*kept, package / "py.typed"]}


def run(words: list[str], folder: Path) -> str:
    """Run a command without any path to the repository."""
    hidden = {"PYTHONPATH", "VIRTUAL_ENV"}
    environment = {k: v for k, v in os.environ.items() if k not in hidden}
    done = subprocess.run(
        words,
        cwd=folder,
        capture_output=True,
        text=True,
        env=environment | {"OMP_NUM_THREADS": "1"},
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(words[-3:])} failed:\n{done.stdout}{done.stderr}"[-3000:])
    return done.stdout


def measure() -> dict:
    """Build, compare, install and run."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        words = [sys.executable, "-m", "build", "--outdir", str(folder / "dist"), str(ROOT)]
        run(words, folder)
        [wheel] = (folder / "dist").glob("*.whl")
        [source] = (folder / "dist").glob("*.tar.gz")
        with zipfile.ZipFile(wheel) as archive:
            files = {n for n in archive.namelist() if ".dist-info/" not in n}
            metadata = [n.split("/")[1] for n in archive.namelist() if ".dist-info/" in n]
        with tarfile.open(source) as archive:
            in_source = {n.split("/", 1)[-1] for n in archive.getnames()}
        expected = expected_files()
        venv.create(folder / "env", with_pip=True)
        scripts = folder / "env" / "bin"
        pip = [str(scripts / "python"), "-m", "pip", "install", "--quiet"]
        constraint = ["--constraint", str(ROOT / "constraints.txt")]
        run([*pip, *constraint, f"{wheel}[plots]", "pandas"], folder)
        suwr = str(scripts / "suwr")
        start = time.perf_counter()
        demo = run([suwr, "demo"], folder)
        seconds = time.perf_counter() - start
        place = run([str(scripts / "python"), "-c", "import suwr; print(suwr.__file__)"], folder)
        assert Path(place.strip()).is_relative_to(folder / "env")
        made = sorted(p.name for p in (folder / "suwr-demo").iterdir())
        version = run([suwr, "--version"], folder).strip()
        if not expected ^ files:
            (ROOT / "dist").mkdir(exist_ok=True)
            for path in (wheel, source):
                shutil.copy2(path, ROOT / "dist")
    return {
        "wheel": wheel.name,
        "version": version,
        "n_files": len(files),
        "missing": sorted(expected - files),
        "unexpected": sorted(files - expected),
        "metadata": sorted(metadata),
        "source_lacks": sorted(f"src/{f}" for f in expected if f"src/{f}" not in in_source),
        "demo_seconds": seconds,
        "demo_files": made,
        "demo_last_lines": demo.strip().splitlines()[-4:],
    }


def main() -> None:
    """Write the record; fail if the wheel is not what it should be."""
    result = measure()
    about = machine()
    write_json(HERE / "wheel.json", {"about": about, **result})
    problems = result["missing"] + result["unexpected"] + result["source_lacks"]
    lines = [
        "# The wheel",
        "",
        f"{result['wheel']}: {result['n_files']} files, of which {len(result['unexpected'])} do "
        f"not belong there, and {len(result['missing'])} are missing. Python {about['python']}, "
        f"{about['machine']}, {about['date']}.",
        "",
        f"Installed from the wheel alone into an empty environment, `suwr demo` took "
        f"{result['demo_seconds']:.0f} seconds and wrote {', '.join(result['demo_files'])}.",
        "",
        "Command: `make wheel`",
    ]
    (HERE / "wheel.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))
    if problems:
        raise SystemExit(f"The wheel is wrong: {problems[:5]}")


if __name__ == "__main__":
    main()
