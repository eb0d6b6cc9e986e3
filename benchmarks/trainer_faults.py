"""Interrupts the example trainer at random moments, in six ways, and checks that nothing is lost by it.

Launch: ``python benchmarks/trainer_faults.py [--moments 50] [--seed 1]``. Needs Linux. Trainings of two ranks are
interrupted ten times each: the launcher or a rank is killed (SIGKILL), the launcher gets SIGTERM or SIGUSR1, a rank is
stopped (SIGSTOP), the disk is full, a loss is NaN. Half of the moments are any after the start, importing and resuming
included, half are some milliseconds after some update was saved. After each, the newest checkpoint must be whole and finite
and no older than the one before, the exit code and the message must be those of docs/training.md, and no process may be
left. A training that has come to its end must have the weights, slots and random states of one that nobody interrupted, to
the bit. Prints a row for each moment; returns 0 where all hold.

The disk is a file system of its own where one can be mounted, and full when a file fills it; elsewhere it is the largest
file that rank 0 may write. With ``--forked`` neither launcher nor ranks are started anew and import: they are forks, which
takes a tenth of the time. On a machine with other work ``--slow 4`` lets everything take four times as long, the moments
included.
"""

import argparse
import contextlib
import hashlib
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from trainer_starts import STEPS, Starts, Training, preload

from torch_ddp import newest_whole, read_whole

IN_A_TRAINING = 10
LATEST = 12.0  # seconds after a start, most of which pass until the first update
LATEST_FORKED = 4.0
MOST_STEPS = 40  # updates between two moments, so that the training is not at its end before the last


class Row(NamedTuple):
    """What came of one moment.

    Fields:
      fault: which.
      begun: updates in the checkpoint before.
      moment: when it was, in words.
      code: the launcher's exit code; None where it was left stopped.
      newest: updates in the newest checkpoint after it.
      wrong: what does not hold, "" for nothing.
    """

    fault: str
    begun: int
    moment: str
    code: int | None
    newest: int
    wrong: str


def newest_step(out: Path) -> int:
    """Returns the number of updates in the newest checkpoint by its name, 0 for none."""
    return max((int(path.name[5:15]) for path in (out / "checkpoints").glob("step-*.pt")), default=0)


def wait_for_moment(training: Training, out: Path, begun: int, moments: random.Random) -> str:
    """Waits until the moment comes, or the training is some updates further; returns it in words."""
    after, step, pause = None, None, 0.0
    if moments.random() < 0.5:
        after = moments.uniform(0.0, LATEST_FORKED if training.starts.forked else LATEST) * training.starts.slow
    else:
        step, pause = begun + moments.randrange(1, MOST_STEPS), moments.uniform(0, 0.05)
    while training.process.poll() is None and time.monotonic() < training.begun + training.within:
        newest = newest_step(out)
        if newest >= begun + MOST_STEPS or (step is not None and newest >= step):
            time.sleep(pause)
            break
        if after is not None and time.monotonic() >= training.begun + after:
            break
        time.sleep(0.002)
    return f"after {time.monotonic() - training.begun:5.2f} s"


def kill(training: Training, out: Path, moments: random.Random) -> tuple[set[int], str]:
    """Kills the launcher or a rank; returns the codes that are right, and a word of the message."""
    targets = [training.process.pid, *training.ranks()]
    target = moments.choice(targets)
    with contextlib.suppress(ProcessLookupError):
        os.kill(target, signal.SIGKILL)
    # A rank that is gone makes another fail, which may be noticed first, with its own words.
    return ({-9}, "") if target == training.process.pid else ({1}, "")


def terminate(
    training: Training, out: Path, moments: random.Random, number: int = signal.SIGTERM
) -> tuple[set[int], str]:
    """Sends the launcher what a scheduler sends; while it imports it dies of it."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(training.process.pid, number)
    return {128 + number, -number}, ""


def user_signal(training: Training, out: Path, moments: random.Random) -> tuple[set[int], str]:
    """Sends Slurm's warning."""
    return terminate(training, out, moments, signal.SIGUSR1)


def stop(training: Training, out: Path, moments: random.Random) -> tuple[set[int], str]:
    """Stops a rank, and lets it go on only when the others have given it up."""
    ranks = training.ranks()
    if not ranks:
        return kill(training, out, moments)
    os.kill(moments.choice(ranks), signal.SIGSTOP)
    return {1}, "first|is stopped since"


def fill_disk(training: Training, out: Path, moments: random.Random) -> tuple[set[int], str]:
    """Takes the room, or has rank 0 write no file of that size."""
    if os.path.ismount(out.parent):
        with (out.parent / "filler").open("wb", buffering=0) as file:
            # All through: what is removed of older checkpoints is room for another one.
            while training.process.poll() is None:
                with contextlib.suppress(OSError):
                    while file.write(bytes(1 << 12)):
                        pass
                time.sleep(0.001)
        return {1}, "No space left on device after"
    for pid in training.ranks():
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (moments.randrange(20_000), resource.RLIM_INFINITY))
    return {1}, "File too large after"


FAULTS = {
    "SIGKILL": kill,
    "SIGTERM": terminate,
    "SIGUSR1": user_signal,
    "SIGSTOP": stop,
    "disk full": fill_disk,
    "NaN": None,
}


def interrupt(fault: str, folder: Path, out: Path, moments: random.Random, starts: Starts) -> Row | None:
    """Starts the training where it was, interrupts it, and looks at what is there; None where it ended before that."""
    begun = newest_step(out)
    poisoned_at = begun + moments.randrange(0, MOST_STEPS) if fault == "NaN" else None
    training = Training(folder, out, poisoned_at, starts)
    inflict = FAULTS[fault]
    if inflict is None:
        moment, codes, word = (
            f"update {(poisoned_at or 0) + 1}",
            {1},
            f"numbers at update {(poisoned_at or 0) + 1}, got",
        )
    else:
        moment = wait_for_moment(training, out, begun, moments)
        if training.process.poll() == 0:
            return None
        codes, word = inflict(training, out, moments)
    wrong = training.end()
    (out.parent / "filler").unlink(missing_ok=True)
    code, said = training.process.returncode, training.log.read_text(errors="replace")
    if not wrong and code not in codes:
        wrong = f"expected exit code {sorted(codes)}; said: {said[-300:]}"
    if not wrong and not any(each in said for each in word.split("|")):
        wrong = f"expected the words {word!r}; said: {said[-300:]}"
    if fault == "SIGSTOP" and not wrong and "was killed by" in said:
        wrong = f"takes the launcher's own signal for the cause: {said[-300:]}"
    wrong = wrong or state_of(out, begun)
    if poisoned_at is not None and not wrong and newest_step(out) > poisoned_at:
        wrong = "has a checkpoint of later than the NaN"
    return Row(fault, begun, moment, code, newest_step(out), wrong)


def state_of(out: Path, begun: int) -> str:
    """Returns what is wrong with the newest checkpoint: whole, finite, and no older than before."""
    paths = sorted((out / "checkpoints").glob("step-*.pt"))
    if not paths:
        return "lost all checkpoints" if begun else ""
    data = paths[-1].read_bytes()
    if not paths[-1].stem.endswith("-" + hashlib.blake2b(data, digest_size=16).hexdigest()):
        return "the newest is damaged"
    state = read_whole(data)
    floats = [tensor for tensor in tensors_of(state["parts"]) if tensor.is_floating_point()]
    if not all(bool(tensor.isfinite().all()) for tensor in floats):
        return "the newest is not finite"
    return f"went back to {state['progress']['step']}" if state["progress"]["step"] < begun else ""


def tensors_of(state: Any) -> Iterator[torch.Tensor]:
    """Yields the tensors of a state."""
    if isinstance(state, torch.Tensor):
        yield state
    elif isinstance(state, dict | list | tuple):
        for value in state.values() if isinstance(state, dict) else state:
            yield from tensors_of(value)


def finish(folder: Path, out: Path, starts: Starts) -> dict[str, Any]:
    """Trains to the end; returns parts and random states of the last checkpoint."""
    training = Training(folder, out, None, starts)
    wrong = training.end()
    if wrong or training.process.returncode:
        raise SystemExit(f"a training could not be finished: {wrong} {training.log.read_text(errors='replace')}")
    newest = newest_whole(out / "checkpoints")
    assert newest is not None and newest.step == STEPS
    state = read_whole(newest.data)
    return {"parts": state["parts"], "random": state["random"]}


def same_bits(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Returns whether two states have the same tensors, to the bit."""
    pairs = zip(tensors_of(one), tensors_of(other), strict=True)
    return all(a.dtype == b.dtype and torch.equal(a, b) for a, b in pairs)


@contextlib.contextmanager
def disk(folder: Path) -> Iterator[Path]:
    """Gives a folder on a file system of 16 MB, or a plain one where none can be mounted."""
    place = folder / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=16m", "trainer-faults", str(place)]
    mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0
    try:
        yield place
    finally:
        if mounted:
            subprocess.run(["umount", str(place)], check=True)


def main(arguments: list[str] | None = None) -> int:
    """Prints a row for each moment; returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--moments", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", nargs="+", choices=FAULTS, default=list(FAULTS))
    parser.add_argument("--forked", action="store_true", help="start nothing anew, for machines with other work")
    parser.add_argument("--slow", type=float, default=1.0, metavar="N", help="times longer that anything may take")
    options = parser.parse_args(arguments)
    starts = Starts(options.forked, options.slow)
    if starts.forked:
        preload()
    warnings.simplefilter("ignore")  # of damaged files that are passed over
    moments = random.Random(options.seed)
    faults = [options.faults[number % len(options.faults)] for number in range(options.moments)]
    moments.shuffle(faults)
    rows: list[Row] = []
    other_bits = 0
    with tempfile.TemporaryDirectory() as plain:
        expected = finish(Path(plain), Path(plain, "disk"), starts)
    while len(rows) < len(faults):
        with tempfile.TemporaryDirectory() as name, disk(Path(name)) as place:
            for fault in faults[len(rows) : len(rows) + IN_A_TRAINING]:
                row = interrupt(fault, Path(name), place / "out", moments, starts)
                if row is None:
                    break  # what is left goes on in another training
                rows.append(row)
                print(f"{len(rows):3} {row.fault:9} from {row.begun:3}, {row.moment:14} exit code {row.code!s:4} "
                      f"newest {row.newest:3}  {row.wrong or 'holds'}", flush=True)  # fmt: skip
            same = same_bits(finish(Path(name), place / "out", starts), expected)
            other_bits += not same
            print(f"    finished: {'the same bits' if same else 'OTHER BITS'}", flush=True)
    wrong = sum(bool(row.wrong) for row in rows)
    print(f"{len(rows)} moments: {len(rows) - wrong} hold; trainings with other bits at their end: {other_bits}")
    return int(bool(wrong or other_bits))


if __name__ == "__main__":
    sys.exit(main())
