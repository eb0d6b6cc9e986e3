"""Starts of the example trainer, of a launcher and two ranks, for whoever interrupts them.

A start is a process anew, or with `forked` a fork of this one, whose ranks are forks too and import nothing.
"""

import contextlib
import importlib
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch

ROOT = Path(__file__).parents[1]
TRAINER = ROOT / "examples" / "train_ddp"
STEPS = 500
# Small images, which are drawn with numpy alone: a start is most of what this takes.
TASK = ["--task", "images", "--size", 8, "--batch-size", 8, "--accumulate", 2, "--epochs", 10]
OPTIONS = ["--gpus", 2, *TASK, "--save-every", 2, "--steps", STEPS, "--quiet"]
STOPPED = 15  # seconds until the other rank gives up a stopped one
WITHIN = 180
NAN_AT = "TRAINER_FAULTS_NAN_AT"


class Starts(NamedTuple):
    """How trainings are started.

    Fields:
      forked: whether as forks of this process, which import nothing.
      slow: how many times longer anything may take than on a machine without other work.
    """

    forked: bool = False
    slow: float = 1.0


class Training:
    """One start of the trainer.

    Args:
      folder: where it runs.
      out: what it gets as --out.
      poisoned_at: number of updates behind which the losses of rank 1 are NaN, None for never.
      starts: how it is started.
    """

    def __init__(self, folder: Path, out: Path, poisoned_at: int | None, starts: Starts) -> None:
        self.log = folder / "log"
        self.starts = starts
        self.within = WITHIN * starts.slow
        self.begun = time.monotonic()
        words = [str(word) for word in ["--out", out, *OPTIONS, "--timeout", round(STOPPED * starts.slow)]]
        with self.log.open("wb") as log:
            if starts.forked:
                self.process: Any = Fork(lambda: run_forked(words, poisoned_at), log.fileno(), folder)
                return
            environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1"}
            (folder / "sitecustomize.py").unlink(missing_ok=True)
            if poisoned_at is not None:
                # Ranks are started anew and import what they need: all of them take this in at their start.
                (folder / "sitecustomize.py").write_text(POISON_HOOK)
                environment[NAN_AT] = str(poisoned_at)
            command = [sys.executable, str(TRAINER / "train.py"), *words]
            self.process = subprocess.Popen(
                command, env=environment, cwd=folder, stdout=log, stderr=log, start_new_session=True
            )

    def ranks(self) -> list[int]:
        """Returns the processes of the ranks, those that import still included."""
        if self.starts.forked:
            return [pid for pid in self.members() if stat_of(pid)[1:2] == [str(self.process.pid)] and pid in forks(pid)]
        return [pid for pid in self.members() if b"spawn_main" in command_of(pid)]

    def members(self) -> list[int]:
        """Returns all processes of this start."""
        everyone = map(int, filter(str.isdigit, os.listdir("/proc")))
        return [pid for pid in everyone if session_of(pid) == self.process.pid]

    def end(self) -> str:
        """Waits for the launcher and then for its ranks; returns what is wrong with that."""
        try:
            self.process.wait(self.within)
            deadline = time.monotonic() + 30 * self.starts.slow
            while self.members() and time.monotonic() < deadline:
                time.sleep(0.05)
            return f"{len(self.members())} processes left" if self.members() else ""
        except subprocess.TimeoutExpired:
            return "did not end"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


class Fork:
    """A fork of this process in a session of its own, with what is needed of `subprocess.Popen`.

    Args:
      run: what it does.
      log: descriptor that it writes to.
      folder: where it runs.
    """

    def __init__(self, run: Callable[[], None], log: int, folder: Path) -> None:
        self.returncode: int | None = None
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid:
            return
        code = 1
        try:
            os.setsid()
            os.dup2(log, 1)
            os.dup2(log, 2)
            os.chdir(folder)
            run()
            code = 0
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def poll(self) -> int | None:
        """Returns the exit code, None while it runs."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode

    def wait(self, timeout: float = float("inf")) -> None:
        """Waits for its end."""
        deadline = time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("fork", timeout)
            time.sleep(0.01)


def run_forked(words: list[str], poisoned_at: int | None) -> None:
    """Runs the trainer in this process, and its ranks in forks of it."""
    import train

    from torch_ddp import UpdateGuard

    spawning = importlib.import_module("torch.multiprocessing.spawn")  # the package's name is that of a function
    start = spawning.start_processes

    def forking(*arguments: Any, **named: Any) -> Any:
        return start(*arguments, **{**named, "start_method": "fork"})

    spawning.start_processes = forking
    if poisoned_at is not None:
        admits = UpdateGuard.admits

        def spoilt(guard: UpdateGuard, loss: torch.Tensor, gradients: Any, when: str) -> bool:
            late = int(when.split()[-1]) > poisoned_at and guard._rank.rank == 1
            return admits(guard, loss * float("nan") if late else loss, gradients, when)

        UpdateGuard.admits = spoilt  # type: ignore[method-assign]
    sys.argv = [str(TRAINER / "train.py"), *words]
    train.main()


def preload() -> None:
    """Imports all that the trainer does, so that forks need not."""
    sys.path.insert(0, str(TRAINER))
    for name in ("train", "torch._dynamo", "torch.multiprocessing.spawn"):
        importlib.import_module(name)
    torch.set_num_threads(1)


# The hook waits for torch_ddp.train.guard to be imported, and changes it then.
POISON_HOOK = """
import importlib.util, os, sys
class Wait:
    def find_spec(self, name, path=None, target=None):
        if name != "torch_ddp.train.guard":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module
        def spoil(module):
            execute(module)
            admits = module.UpdateGuard.admits
            def spoilt(self, loss, gradients, when):
                late = int(when.split()[-1]) > int(os.environ["TRAINER_FAULTS_NAN_AT"])
                return admits(self, loss * float("nan") if late and self._rank.rank == 1 else loss, gradients, when)
            module.UpdateGuard.admits = spoilt
        spec.loader.exec_module = spoil
        return spec
sys.meta_path.insert(0, Wait())
"""


def stat_of(pid: int) -> list[str]:
    """Returns state, parent, process group and session of a process, and more; nothing of one that is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def session_of(pid: int) -> int:
    """Returns the session of a process that lives, else 0."""
    fields = stat_of(pid)
    return int(fields[3]) if fields and fields[0] != "Z" else 0


def forks(pid: int) -> list[int]:
    """Returns the process where it is a fork of this one, by its command line."""
    return [pid] if command_of(pid) == command_of(os.getpid()) else []


def command_of(pid: int) -> bytes:
    """Returns the command line of a process, empty where it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
