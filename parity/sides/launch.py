"""Starts the processes that play the sides."""

import os
import sys
from pathlib import Path

from parity.sides.process import SideProcess
from parity.trace import bootstrap

DEFAULT_SILENCE = 300.0


def launch_tf(python: str | None, log: Path, silence: float = DEFAULT_SILENCE) -> SideProcess:
    """Starts the TensorFlow side, in this interpreter or in the one named `python`."""
    environment = dict(os.environ)
    if python and Path(python).resolve() != Path(sys.executable).resolve():
        for name in ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP"):
            environment.pop(name, None)
    environment.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    environment.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    environment.setdefault("TF_DETERMINISTIC_OPS", "1")
    environment.setdefault("TF_USE_LEGACY_KERAS", "1")
    return _launch("tf", python or sys.executable, "tf_towers.child", environment, log, silence)


def launch_torch(log: Path, silence: float = DEFAULT_SILENCE) -> SideProcess:
    """Starts the torch side in this interpreter."""
    environment = dict(os.environ)
    environment.setdefault("OMP_NUM_THREADS", "1")
    environment.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    return _launch("torch", sys.executable, "torch_ddp.child", environment, log, silence)


def launch_data(log: Path, silence: float = DEFAULT_SILENCE) -> SideProcess:
    """Starts the process that runs the case's own `batches`, whatever it imports."""
    return _launch("data", sys.executable, "parity.sides.data", dict(os.environ), log, silence)


def _launch(side: str, python: str, module: str, environment: dict[str, str], log: Path, silence: float) -> SideProcess:
    # A crash in compiled code prints where it was.
    environment.setdefault("PYTHONFAULTHANDLER", "1")
    # A line reaches its log as soon as it is whole; unbuffered, the lines of several ranks would mix.
    environment.pop("PYTHONUNBUFFERED", None)
    return SideProcess(side, [python, str(bootstrap.__file__), module], environment, log, silence)
