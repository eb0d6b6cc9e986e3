"""Records an unmodified TensorFlow 1 script.

Usage: python -m tf_towers.record [--steps N] [--skip N] [--gpus N] [--out DIR] [--no-shadow] [--] SCRIPT ARGS…
       python -m tf_towers.record [--steps N] [--skip N] [--gpus N] [--out DIR] [--no-shadow] -m MODULE ARGS…
"""

import argparse
import atexit
import os
import sys
import threading
from typing import TYPE_CHECKING, Optional, Sequence

from parity.trace import Ownership, TraceError

if TYPE_CHECKING:
    from tf_towers.record.recorder import Recorder


UNWIND_SECONDS = 10.0
NOT_RECORDED = 2


def main(arguments: Sequence[str]) -> int:
    """Runs the script under the recorder; returns its exit code, or 2 where that is 0 and not all was recorded."""
    # Arguments before the imports below: TensorFlow takes seconds to load, a wrong argument is refused at once.
    parsed = _parse(arguments)
    try:
        with Ownership(parsed.out):
            return _record(parsed)
    except TraceError as error:
        sys.stderr.write(f"{error}\n")
        return NOT_RECORDED


def _record(parsed: argparse.Namespace) -> int:
    from tf_towers.record.recorder import Recorder
    from tf_towers.record.report import Progress, print_failure
    from tf_towers.record.script import run_as_main, show_error

    ending = _Ending()

    def enough() -> None:
        ending.leave(0 if _close(recorder, parsed, whole=True) else NOT_RECORDED)

    def failed(error: BaseException) -> None:
        print_failure(error)
        # With --steps the script is ended anyway; without, it is trained for its own sake and goes on unrecorded.
        if parsed.steps is not None:
            ending.leave(2)

    recorder = Recorder(parsed.out, parsed.steps, parsed.skip, enough, failed, Progress(parsed.steps))
    recorder.install()
    if parsed.gpus:
        recorder.stand_in_for_gpus(parsed.gpus)
    code = 0
    try:
        run_as_main(parsed.script, parsed.module, parsed.arguments)
    except Enough:
        pass
    except SystemExit as left:
        code = _exit_code(left)
    except KeyboardInterrupt:
        code = 130
    except BaseException as error:
        show_error(error)
        code = 1
    if ending.code is not None:
        return ending.code
    if not recorder.of_this_process:  # a process that the script forked, on its own way out
        return code
    try:
        _wait_for_threads()
    except KeyboardInterrupt:
        code = 130
    written = _close(recorder, parsed, whole=code == 0)
    return code or (0 if written and recorder.recorded and not recorder.failed else NOT_RECORDED)


def _wait_for_threads() -> None:
    """Waits for the script's own threads, as the interpreter does at its end: they may be what trains."""
    while True:
        others = [each for each in threading.enumerate() if not each.daemon and each is not threading.current_thread()]
        if not others:
            return
        others[0].join()


def _close(recorder: "Recorder", parsed: argparse.Namespace, whole: bool) -> bool:
    """Ends the recording and says what there is of it; returns whether what was to be written could be."""
    from tf_towers.record.report import print_failure, print_report, print_shadow
    from tf_towers.record.script import compute_shadow

    try:
        written = recorder.finish(whole=whole)
    except OSError as error:
        # A full disk: the script has done its work, and the trace says that it is not complete.
        print_failure(error)
        return False
    print_report(recorder, parsed.out, whole=whole)
    if written and recorder.recorded and parsed.shadow:
        print_shadow(compute_shadow(parsed.out))
    return True


class Enough(BaseException):
    """Unwinds the script once enough is recorded."""


class _Ending:
    """Ends the script: politely at first, so that its `finally` blocks run; for good if it does not let itself be ended."""

    def __init__(self) -> None:
        self.code: Optional[int] = None

    def leave(self, code: int) -> None:
        again, self.code = self.code is not None, code
        # An exception in another thread would end that thread and not the script.
        if again or threading.current_thread() is not threading.main_thread():
            _end_now(code)
        # Scripts catch everything, or wait in a finally block for a thread that waits for them.
        watch = threading.Timer(UNWIND_SECONDS, _end_now, [code])
        watch.daemon = True
        watch.start()
        raise Enough()


def _end_now(code: int) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    atexit._run_exitfuncs()  # so that worker processes of the script end with it
    os._exit(code)


def _exit_code(left: SystemExit) -> int:
    if left.code is None:
        return 0
    if isinstance(left.code, int):
        return left.code
    sys.stderr.write(f"{left.code}\n")
    return 1


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tf_towers.record",
        description="Runs an unmodified TensorFlow 1 script and leaves a trace of it.",
    )
    parser.add_argument("--steps", type=int, metavar="N", help="end after N recorded training steps, with exit code 0")
    parser.add_argument("--skip", type=int, metavar="N", default=0, help="let N training steps go by first")
    parser.add_argument("--gpus", type=int, metavar="N", default=0, help="stand in for N GPUs that the script counts")
    parser.add_argument("--out", metavar="DIR", help="folder of the trace (default: SCRIPT.trace)")
    parser.add_argument(
        "--no-shadow", dest="shadow", action="store_false", help="do not compute the steps once more in float64"
    )
    parser.add_argument("-m", dest="module", nargs=argparse.REMAINDER, metavar="MODULE", help="run a module")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="SCRIPT ARGS…")
    parsed = parser.parse_args(arguments)
    words = parsed.module or parsed.arguments
    if words[:1] == ["--"]:
        del words[0]
    if not words:
        parser.error("expected a script to run, got none. Write it last, after --.")
    if (parsed.steps is not None and parsed.steps < 1) or parsed.skip < 0:
        parser.error(f"expected --steps from 1 and --skip from 0, got {parsed.steps} and {parsed.skip}.")
    if parsed.gpus < 0:
        parser.error(f"expected --gpus from 1, got {parsed.gpus}.")
    name, parsed.arguments = words[0], words[1:]
    parsed.script, parsed.module = (None, name) if parsed.module else (name, None)
    stem = parsed.module or os.path.splitext(os.path.basename(parsed.script))[0]
    parsed.out = os.path.abspath(parsed.out or stem + ".trace")
    # A trace is written over; any other file there may be the user's.
    if (
        os.path.isdir(parsed.out)
        and os.listdir(parsed.out)
        and not os.path.isfile(os.path.join(parsed.out, "trace.json"))
    ):
        parser.error(
            f"--out: expected an empty folder or an older trace at {parsed.out}, got other files. Name another."
        )
    return parsed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
