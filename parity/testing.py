"""Keeps a proof alive in a port's own tests: with pytest, or with any test runner that knows `assert`.

Example::

    from parity.testing import assert_parity

    def test_the_port_is_still_what_tensorflow_trained():
        assert_parity("golden", "case.toml")  # golden: kept by `parity bless case.toml`; needs no TensorFlow
"""

import io
import os
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from parity.case import load_case
from parity.experiment import Sides, open_sides, run_case
from parity.experiment.compare import compare_traces
from parity.experiment.sides.golden_side import DESCRIPTION, golden_steps
from parity.judge.result import Result
from parity.report import report
from parity.worker.process import fail_together


def assert_parity(
    reference: str | Path | None,
    candidate: str | Path,
    *,
    mapping: str | Path | None = None,
    levels: Sequence[str] = ("function", "float32"),
    tf_python: str | None = None,
    sides: Callable[[str | None, bool], Sides] | None = None,
    strict: bool = False,
    **overrides: Any,
) -> Result:
    """Raises unless the candidate is the same training as the reference, down to rounding.

    Args:
      reference: a golden trace (`parity bless`), or a recorded trace, or None for live TensorFlow.
      candidate: a case (file or folder) whose port is run; or a recorded trace, where the reference is one too.
      mapping: for two recorded traces, a case or a file with [mapping] tables.
      levels: to be decided, where something is run.
      tf_python: the interpreter with TensorFlow, for a live reference.
      sides: gives started sides for an interpreter, with a reference or without, which somebody else ends; by default they
        are started and ended here.
      strict: also raise where the verdict is same and something was not judged, e.g. how the port combines gradients.
      **overrides: keys of the case, e.g. ``steps=5``; against a golden trace its own steps are the default.

    Returns:
      The result, for whoever wants to look at its figures.

    Raises:
      AssertionError: the verdict is different or incomparable; its text is the report.
      ValueError: the case, the golden trace or a trace is not what it should be, or a side failed.
      DamagedError: a file of either is not what was written.
    """
    if reference is not None and not (Path(reference) / DESCRIPTION).is_file():
        result = compare_traces(Path(reference), Path(candidate), Path(mapping) if mapping else None)
        name = f"{reference} and {candidate}"
    else:
        if reference is not None:
            # Blessed with --steps: the golden trace knows of how many updates it is a proof.
            overrides = {"steps": golden_steps(Path(reference)), **overrides}
        case = load_case(candidate, **overrides)
        python = tf_python or os.environ.get("PARITY_TF_PYTHON") or case.tf.python
        golden = Path(reference) if reference is not None else None
        if sides is not None:
            result = run_case(case, sides(python, golden is None), levels, golden=golden)
        else:
            with open_sides(python, reference=golden is None) as opened:
                # For this run alone: sides that somebody else keeps serve the next test after a failure of this one.
                fail_together(*opened.started)
                result = run_case(case, opened, levels, golden=golden)
        name = case.name
    if result.strict_exit_code if strict else result.exit_code:
        missing = f"\nnot judged: {'; '.join(result.not_judged)}" if result.verdict == "same" else ""
        raise AssertionError(_text(result, name) + missing)
    return result


def assert_port(trace: str | Path, folder: str | Path) -> Result:
    """Raises unless a port that `parity port` wrote, edited since or not, is the same training as the recorded script.

    Args:
      trace: what it was written from.
      folder: with `port.py`, `port.toml` and `train.py`.

    Returns:
      The result, for whoever wants to look at its figures.

    Raises:
      AssertionError: the verdict is different or incomparable; its text is the report.
      ValueError: the trace or the port is not what it should be, or a side failed.
    """
    from parity.port.prove import prove_folder

    result = prove_folder(Path(folder), Path(trace))
    if result.exit_code:
        raise AssertionError(_text(result, str(folder)))
    return result


def _text(result: Result, name: str) -> str:
    shown = io.StringIO()
    with redirect_stdout(shown):
        report(result, name)
    return shown.getvalue().rstrip()
