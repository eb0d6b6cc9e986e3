"""One TensorFlow process per interpreter: it is sent functions, and answers with arrays."""

import inspect
import json
import os
import queue
import subprocess
import tempfile
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

TIMEOUT_SECONDS = 240


class TfChild:
    """Runs test functions under TensorFlow in a process of its own, which pays for its imports once."""

    def __init__(self, python: str, timeout: float = TIMEOUT_SECONDS) -> None:
        self._timeout = timeout
        main = Path(__file__).with_name("tf_child_main.py")
        self._folder = tempfile.TemporaryDirectory()
        self._log = Path(self._folder.name, "log").open("w")  # noqa: SIM115 - closed in close()
        self._process = subprocess.Popen(
            [python, str(main)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env={name: value for name, value in os.environ.items() if not name.startswith("PYTHON")},
        )
        self._replies: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __call__(self, program: Callable[..., Any], **inputs: Any) -> dict[str, np.ndarray]:
        """Runs the source of ``program`` in the child; arrays travel as .npz, everything else as JSON."""
        folder = Path(self._folder.name)
        arrays = {name: value for name, value in inputs.items() if isinstance(value, np.ndarray)}
        np.savez(folder / "inputs.npz", **arrays)
        request = {
            "source": textwrap.dedent(inspect.getsource(program)),
            "name": program.__name__,
            "plain": {name: value for name, value in inputs.items() if name not in arrays},
            "inputs": str(folder / "inputs.npz"),
            "outputs": str(folder / "outputs.npz"),
        }
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        reply = json.loads(self._reply(program.__name__))
        if "error" in reply:
            raise RuntimeError(f"{program.__name__} failed under TensorFlow:\n{reply['error']}")
        with np.load(folder / "outputs.npz", allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}

    def _reply(self, name: str) -> str:
        try:
            return self._replies.get(timeout=self._timeout)
        except queue.Empty:
            self._process.kill()  # its late reply must not answer the next call
            raise TimeoutError(f"{name} took more than {self._timeout} seconds under TensorFlow") from None

    def close(self) -> None:
        """Ends the process, by force when it does not end by itself."""
        self._process.stdin.close()
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(timeout=20)
        self._reader.join(timeout=20)
        self._process.stdout.close()
        self._log.close()
        self._folder.cleanup()

    def _read(self) -> None:
        for line in self._process.stdout:
            self._replies.put(line)
        log = Path(self._folder.name, "log").read_text(errors="replace")
        self._replies.put(json.dumps({"error": f"the process has ended:\n{log[-4000:]}"}))
