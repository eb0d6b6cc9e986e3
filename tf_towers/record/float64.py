"""Has the float64 shadow of what was recorded computed, in a process of its own: the script's is left alone."""

import json
import os
import subprocess
import sys

from parity.trace import SHADOW_FILE, write_json
from parity.worker import bootstrap

SECONDS = 1800.0


def compute_shadow(out):
    """Computes the shadow of the trace at `out`; returns what there is to say of it, in one line."""
    environment = dict(os.environ, CUDA_VISIBLE_DEVICES="", TF_CPP_MIN_LOG_LEVEL="3")
    command = [sys.executable, bootstrap.__file__, "tf_towers.shadow", out]
    try:
        done = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        what = "its free run was not finished" if _is_made(out) else "none"
        return f"shadow: {what} after {SECONDS:g} s. Make it with python -m tf_towers.shadow {out}"
    lines = [line for line in done.stderr.decode("utf-8", "replace").splitlines() if line.strip()]
    told = [line for line in lines if line.startswith("shadow: ")]
    if told:
        return told[-1]
    ended = f"shadow: none: {lines[-1] if lines else f'it ended with status {done.returncode}'}"
    if not os.path.exists(os.path.join(out, SHADOW_FILE)):
        # Killed, say for memory: nobody is to be told to make what cannot be made.
        write_json(os.path.join(out, SHADOW_FILE), {"made": False, "reason": f"{ended}. Level 2 only can be judged."})
    return ended


def _is_made(out):
    try:
        with open(os.path.join(out, SHADOW_FILE), encoding="utf-8") as file:
            return bool(json.load(file)["made"])
    except (OSError, ValueError, KeyError):
        return False
