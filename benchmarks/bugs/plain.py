"""The comparisons that people write by hand, on the same float32 numbers."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from parity.case import Case
from parity.experiment.mapping.of_traces import mapping_of_traces
from parity.mapping.trace_map import Join, Renaming
from parity.trace import Trace

# torch.testing.assert_close's defaults for float32, and numpy.allclose's.
TOLERANCES = {"assert_close": (1.3e-6, 1e-5), "rtol=1e-5": (1e-5, 1e-8)}
LOSS_CURVE = 0.01


def judged_plainly(case: Case, out: Path) -> dict[str, bool]:
    """Returns for each way to compare whether it raises an alarm over a case's float32 steps from the same states.

    Args:
      case: what was run.
      out: the folder that `run_case` left its traces in.
    """
    reference, candidate = Trace(out / "tf" / "float32"), Trace(out / "torch" / "float32")
    join = Join(
        mapping_of_traces(reference, candidate, case.mapping),
        {str(quantity): Renaming(quantity, entries) for quantity, entries in case.mapping_of.items()},
        candidate.facts.get("slots", []),
    )
    alarms = dict.fromkeys([*TOLERANCES, "loss curve 1%"], False)
    for quantity, one, other in _pairs(join, reference, candidate):
        if quantity == "loss":
            alarms["loss curve 1%"] |= bool(abs(one - other).max() > LOSS_CURVE * abs(one).max())
        for name, (rtol, atol) in TOLERANCES.items():
            alarms[name] |= not np.allclose(other, one, rtol=rtol, atol=atol)
    return alarms


def _pairs(join: Join, reference: Trace, candidate: Trace) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    for step in reference.step_numbers:
        one_file, other_file = reference.step(step), candidate.step(step)
        for key, text in join.ordered(one_file.names()):
            if key.quantity in ("loss", "grad", "var"):
                other = join.read(key, other_file)
                if other is not None:
                    yield key.quantity, one_file.read(text), other
