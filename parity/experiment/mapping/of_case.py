"""Joins the variables of a case without running it: both sides are built, and make one step where numbers have to decide."""

import tempfile
from pathlib import Path

from parity.case import Case, as_declared
from parity.experiment.prepare import prepare_both
from parity.experiment.sides.tensorflow_side import TensorFlowSide
from parity.experiment.sides.torch_side import TorchSide
from parity.experiment.spec import Progress, silent
from parity.mapping import Mapping, mapping_notes
from parity.worker.launch import Sides


def map_case(case: Case, sides: Sides, tick: Progress = silent) -> tuple[Mapping, list[str]]:
    """Returns the mapping of a case, and what a report says of it.

    Args:
      case: a validated case.
      sides: started processes.
      tick: told how far it is: what, done, total.

    Raises:
      SideFailed: a side could not do its part.
      MappingError: the variables do not join.
    """
    with tempfile.TemporaryDirectory(prefix="parity-map-") as folder:
        out = Path(folder)
        reference = TensorFlowSide(as_declared(case), sides, out / "tf", tick)
        prepared = prepare_both(case, reference, TorchSide(case, sides, out / "torch", tick), out, tick)
        if prepared.question is not None:
            raise prepared.question
        return prepared.draft.mapping(), mapping_notes(prepared.draft)
