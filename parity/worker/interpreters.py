"""Finds Python interpreters and what is installed in them, without importing any framework here."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

PROBE_TIMEOUT = 60.0  # seconds; a probe imports torch at most, which a cold disk may take long to read
DISTRIBUTIONS = ("tensorflow", "tf_keras", "torch", "numpy", "apex", "scikit-learn")
PROBE = """
import json, sys
try:
    from importlib import metadata
except ImportError:
    metadata = None
found = {"version": "%d.%d.%d" % sys.version_info[:3], "executable": sys.executable}
for name in NAMES:
    try:
        if metadata:
            found[name] = metadata.version(name)
        else:
            import pkg_resources
            found[name] = pkg_resources.get_distribution(name).version
    except Exception:
        pass
print(json.dumps(found))
"""
CUDA_PROBE = "import torch; print(torch.cuda.device_count() if torch.cuda.is_available() else 0)"


def probe(python: str) -> dict[str, Any] | None:
    """Returns an interpreter's `version`, `executable` and installed frameworks by name; None where it does not run."""
    program = PROBE.replace("NAMES", repr(DISTRIBUTIONS))
    printed = _run(python, program)
    try:
        return dict(json.loads(printed)) if printed else None
    except ValueError:
        return None


def gpus(python: str = sys.executable) -> int:
    """Returns how many GPUs torch sees in an interpreter."""
    printed = _run(python, CUDA_PROBE)
    return int(printed) if printed and printed.strip().isdigit() else 0


def legacy_interpreters(also: str | None = None) -> list[dict[str, Any]]:
    """Returns the Python 3.7 interpreters that can be found, best first, as `probe` describes them.

    Looked for in ``PARITY_TF_PYTHON``, on PATH, and under pyenv; one that has TensorFlow comes before one that has not.

    Args:
      also: another interpreter to look at, first.
    """
    found: dict[str, dict[str, Any]] = {}
    for candidate in [*([also] if also else []), *_candidates()]:
        described = probe(candidate)
        if described and described["version"].startswith("3.7."):
            found.setdefault(described["executable"], described)
    return sorted(found.values(), key=lambda described: "tensorflow" not in described)


def _candidates() -> list[str]:
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    named = [os.environ.get("PARITY_TF_PYTHON"), shutil.which("python3.7")]
    under_pyenv = sorted(root.glob("versions/3.7.*/bin/python"), reverse=True)
    return [name for name in named if name] + [str(path) for path in under_pyenv]


def _run(python: str, program: str) -> str | None:
    # Ours leads to the packages of this interpreter, another one would be said to have them.
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    try:
        done = subprocess.run(
            [python, "-c", program], capture_output=True, text=True, timeout=PROBE_TIMEOUT, env=environment, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
