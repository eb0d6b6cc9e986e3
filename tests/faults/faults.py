"""The faults: what each does to a command before it starts, or while a process of it stands at a moment."""

import contextlib
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

STOPPED_SECONDS = 1.0
DISK_BYTES = "16m"  # of file systems that are filled: more than any command needs of them
CLOCK_SECONDS = 86_400 * 400.0
FEW_HANDLES, NO_MORE_HANDLES = 24, 1
LITTLE_MEMORY = 700 << 20  # bytes of addresses: a Python with numpy fits, a framework does not
SMALL_FILE = 2000  # bytes
FILLER = "filler"
PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass
class Place:
    """Where a command runs.

    Attributes:
      out: folder of its outputs.
      temporary: its TMPDIR.
      meeting: folder where `hooks` is told what to do.
      environment: of the command.
      before: called in the process before the command is executed.
      prefix: words in front of the command.
      stdout, stderr: files that its streams go to; None has them closed.
    """

    out: Path
    temporary: Path
    meeting: Path
    environment: dict[str, str]
    before: list[Callable[[], None]] = field(default_factory=list)
    prefix: list[str] = field(default_factory=list)
    stdout: str | None = ""
    stderr: str | None = ""

    def go(self) -> None:
        """Lets the process at the moment go on."""
        (self.meeting / "go").touch()


@dataclass
class Struck:
    """A command with a process at a moment.

    Attributes:
      place: where it runs.
      command: its process id.
      at: that of the process at the moment.
    """

    place: Place
    command: int
    at: int


@dataclass(frozen=True)
class Fault:
    """One fault; it comes before the start or at a moment.

    Attributes:
      name: as cells have it.
      before: what it does before the start, None where it comes at a moment.
      at: what it does at a moment.
      goes_on: whether the process at the moment is let go on afterwards.
      needs: "mount" or "network" where it needs namespaces of its own.
    """

    name: str
    before: Callable[[Place], None] | None = None
    at: Callable[[Struck], None] | None = None
    goes_on: bool = True
    needs: str = ""


# ---- signals


def _send(number: int, group: bool = False) -> Callable[[Struck], None]:
    def strike(struck: Struck) -> None:
        (os.killpg if group else os.kill)(struck.command, number)

    return strike


def _stop(struck: Struck) -> None:
    os.kill(struck.command, signal.SIGSTOP)
    struck.place.go()
    time.sleep(STOPPED_SECONDS)
    os.kill(struck.command, signal.SIGCONT)


def _kill_child(struck: Struck) -> None:
    os.kill(struck.at, signal.SIGKILL)


def _freeze_child(struck: Struck) -> None:
    os.kill(struck.at, signal.SIGSTOP)


# ---- disks and folders


def _tmpfs(folder: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "none", str(folder)], check=True)


def fill(folder: Path) -> None:
    """Takes all room of a folder's file system, which has to be a small one of its own."""
    with contextlib.suppress(OSError), open(folder / FILLER, "ab", buffering=0) as file:
        for size in (1 << 20, PAGE, 1):
            with contextlib.suppress(OSError):
                while True:
                    file.write(bytes(size))


def _read_only(folder: Path) -> None:
    subprocess.run(["mount", "--bind", str(folder), str(folder)], check=True)
    subprocess.run(["mount", "-o", "remount,bind,ro", str(folder)], check=True)


def unmount(folder: Path) -> None:
    """Takes away what was mounted on a folder."""
    # Until there is none: that a folder is bound to itself is not to be seen by its device.
    while (
        folder.is_dir()
        and not subprocess.run(["umount", "-l", str(folder)], capture_output=True, check=False).returncode
    ):
        pass


def _full_out(place: Place) -> None:
    _tmpfs(place.out)
    fill(place.out)


def _full_temporary(place: Place) -> None:
    _tmpfs(place.temporary)
    fill(place.temporary)


def _file_for_out(place: Place) -> None:
    place.out.rmdir()
    place.out.write_text("a file\n")


def _file_for_temporary(place: Place) -> None:
    place.temporary.rmdir()
    place.temporary.write_text("a file\n")


# ---- limits


def _limited(name: int, value: int) -> Callable[[Place], None]:
    return lambda place: place.before.append(lambda: resource.setrlimit(name, (value, value)))


def _few_handles(struck: Struck) -> None:
    # What is open stays open; one more may be.
    held = max(int(each) for each in os.listdir(f"/proc/{struck.at}/fd")) + 1 + NO_MORE_HANDLES
    resource.prlimit(struck.at, resource.RLIMIT_NOFILE, (held, held))


def _no_more_memory(struck: Struck) -> None:
    pages = int(Path(f"/proc/{struck.at}/statm").read_text().split()[0])
    held = pages * PAGE
    resource.prlimit(struck.at, resource.RLIMIT_AS, (held, held))


def _small_files(struck: Struck) -> None:
    resource.prlimit(struck.at, resource.RLIMIT_FSIZE, (SMALL_FILE // 10, SMALL_FILE // 10))


# ---- clock, network, streams


def _clock(seconds: float) -> Callable[[Struck], None]:
    def strike(struck: Struck) -> None:
        unfinished = struck.place.meeting / "clock.part"
        unfinished.write_text(str(seconds))
        unfinished.rename(struck.place.meeting / "clock")

    return strike


def _stream(name: str, value: str | None) -> Callable[[Place], None]:
    return lambda place: setattr(place, name, value)


def _environment(name: str, value: str) -> Callable[[Place], None]:
    return lambda place: place.environment.__setitem__(name, value)


SIGNALS = (
    Fault("kill", at=_send(signal.SIGKILL), goes_on=False),
    Fault("term", at=_send(signal.SIGTERM)),  # a cancelled job
    Fault("hup", at=_send(signal.SIGHUP, group=True)),  # a closed terminal
    Fault("int", at=_send(signal.SIGINT, group=True)),  # Ctrl-C
    Fault("stop", at=_stop),
)
OF_A_CHILD = (
    Fault("child-killed", at=_kill_child, goes_on=False),
    Fault("child-frozen", at=_freeze_child, goes_on=False),
)
AT_THE_START = (
    Fault("out-full", before=_full_out, needs="mount"),
    Fault("out-read-only", before=lambda place: _read_only(place.out), needs="mount"),
    Fault("out-a-file", before=_file_for_out),
    Fault("files-small", before=_limited(resource.RLIMIT_FSIZE, SMALL_FILE)),
    Fault("temporary-full", before=_full_temporary, needs="mount"),
    Fault("temporary-read-only", before=lambda place: _read_only(place.temporary), needs="mount"),
    Fault("temporary-missing", before=lambda place: place.temporary.rmdir()),
    Fault("temporary-a-file", before=_file_for_temporary),
    Fault("few-handles", before=_limited(resource.RLIMIT_NOFILE, FEW_HANDLES)),
    Fault("little-memory", before=_limited(resource.RLIMIT_AS, LITTLE_MEMORY)),
    Fault("no-loopback", before=lambda place: place.prefix.extend(["unshare", "-n"]), needs="network"),
    Fault("stdout-closed", before=_stream("stdout", None)),
    Fault("stdout-full", before=_stream("stdout", "/dev/full")),
    Fault("stderr-full", before=_stream("stderr", "/dev/full")),
    Fault("stderr-closed", before=_stream("stderr", None)),
)
AT_A_MOMENT = (
    Fault("out-fills", before=lambda place: _tmpfs(place.out), at=lambda struck: fill(struck.place.out), needs="mount"),
    Fault("out-turns-read-only", at=lambda struck: _read_only(struck.place.out), needs="mount"),
    Fault("temporary-goes", at=lambda struck: shutil.rmtree(struck.place.temporary)),
    Fault(
        "temporary-fills",
        before=lambda place: _tmpfs(place.temporary),
        at=lambda struck: fill(struck.place.temporary),
        needs="mount",
    ),
    Fault("no-more-handles", at=_few_handles),
    Fault("no-more-memory", at=_no_more_memory),
    Fault("files-turn-small", at=_small_files),
    Fault("clock-ahead", at=_clock(CLOCK_SECONDS)),
    Fault("clock-back", at=_clock(-CLOCK_SECONDS)),
)
FAULTS = {fault.name: fault for fault in (*SIGNALS, *OF_A_CHILD, *AT_THE_START, *AT_A_MOMENT)}


def what_is_missing(needs: str) -> str:
    """Returns why a fault cannot be made here, "" where it can."""
    if not needs:
        return ""
    if sys.platform != "linux" or not shutil.which("unshare"):
        return "needs Linux and the program unshare"
    words = {"mount": ["-m", "sh", "-c", "mount -t tmpfs none /mnt"], "network": ["-n", "true"]}[needs]
    done = subprocess.run(["unshare", *words], capture_output=True, text=True, timeout=60, check=False)
    return "" if done.returncode == 0 else f"needs a {needs} namespace of its own, as root has: {done.stderr.strip()}"
