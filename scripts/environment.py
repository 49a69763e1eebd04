"""The virtual environment of scripts/run and scripts/test. Readable to an old Python, to say that it is too old."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VENV = os.path.join(ROOT, ".venv")
PYTHON = os.path.join(VENV, "bin", "python")
OLDEST, NEWEST = (3, 11), (3, 13)


def require_linux():
    if not sys.platform.startswith("linux"):
        sys.exit(f"mlflow-resilience runs on Linux only (this is {sys.platform}): use a container or WSL 2.")


def prepare(extra):
    """Make the environment, with the optional dependencies ``extra``, unless it stands already as described now."""
    require_linux()
    wanted = _digest()
    with open(os.path.join(ROOT, ".venv.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two first starts at once
        if not any(_stamp(name) == wanted for name in {extra, "test"}):
            _make()
            _install(extra)
            _write_stamp(extra, wanted)


def environ():
    """Ours, with the environment's programs first."""
    path = os.path.join(VENV, "bin") + os.pathsep + os.environ.get("PATH", os.defpath)
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONHOME"}
    return dict(kept, PATH=path, VIRTUAL_ENV=VENV)


def _make():
    if os.path.exists(PYTHON) and subprocess.call([PYTHON, "-m", "pip", "--version"], stdout=subprocess.DEVNULL) == 0:
        return
    python = _find_python()
    if subprocess.call([python, "-m", "venv", "--clear", VENV]) != 0:
        sys.exit(f"{python} could not make a virtual environment: install its venv module (Debian: python3-venv).")


def _install(extra):
    print("installing into .venv; this takes a few minutes, once", file=sys.stderr, flush=True)
    project = f"{ROOT}[{extra}]"
    constraints = os.path.join(ROOT, "constraints.txt")
    pip = [PYTHON, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "-c", constraints, "-e", project]
    if subprocess.call(pip, env=environ(), stdin=subprocess.DEVNULL) != 0:
        sys.exit("installing failed: see pip's message above, and start again.")


def _find_python():
    if OLDEST <= sys.version_info[:2] <= NEWEST:
        return sys.executable
    for minor in range(NEWEST[1], OLDEST[1] - 1, -1):
        found = shutil.which(f"python3.{minor}")
        if found and subprocess.call([found, "-c", ""], stderr=subprocess.DEVNULL) == 0:
            return found
    own = ".".join(map(str, sys.version_info[:2]))
    sys.exit(f"mlflow-resilience needs Python 3.11, 3.12 or 3.13, and there is only {own}: install one of them.")


def _digest():
    digest = hashlib.sha256(ROOT.encode())
    for name in ("pyproject.toml", "constraints.txt"):
        with open(os.path.join(ROOT, name), "rb") as file:
            digest.update(file.read())
    return digest.hexdigest()


def _stamp_path(extra):
    return os.path.join(VENV, f"installed-{extra}")


def _stamp(extra):
    try:
        with open(_stamp_path(extra)) as file:
            return file.read()
    except OSError:
        return None


def _write_stamp(extra, digest):
    with open(_stamp_path(extra) + ".new", "w") as file:
        file.write(digest)
    os.replace(_stamp_path(extra) + ".new", _stamp_path(extra))
