"""Records a script from inside: three lines in it, and the trace that `parity record` leaves."""

import contextlib
import os
from typing import TYPE_CHECKING, Iterator, Optional

from parity.trace.safetensors import Path

if TYPE_CHECKING:
    from tf_towers.record.recorder import Recorder


@contextlib.contextmanager
def recording(out: Path, steps: Optional[int] = None, skip: int = 0, shadow: bool = True) -> "Iterator[Recorder]":
    """Records the training steps of a block, in which the script also builds its graph, into a trace.

    Three lines in a script; the rest of it stays as it is::

        import tf_towers
        with tf_towers.recording("trace"):
            main()

    What is recorded, and that nothing is disturbed, is as with `parity record`; the script goes on after `steps`.

    Args:
      out: folder of the trace; made if missing.
      steps: number of training steps to record, or None for all.
      skip: number of training steps that go by first.
      shadow: whether to compute the steps once more in float64 in the end, in a process of its own.

    Yields:
      The `tf_towers.record.Recorder`.

    Counterpart: torch_ddp.recording
    """
    from tf_towers.record.recorder import Recorder
    from tf_towers.record.report import print_failure, print_report, print_shadow
    from tf_towers.record.script import compute_shadow

    out = os.path.abspath(str(out))
    recorder = Recorder(out, steps, skip, lambda: None, print_failure)
    recorder.install()
    whole = False
    try:
        yield recorder
        whole = True
    finally:
        if recorder.of_this_process:
            written = recorder.finish(whole=whole)
            print_report(recorder, out, whole=whole)
            if written and recorder.recorded and shadow:
                print_shadow(compute_shadow(out))
