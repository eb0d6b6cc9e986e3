"""Runs a case: both sides, the same batches, the same weights."""

from parity.experiment.recorder import Recorder as Recorder
from parity.experiment.recording import Recorded as Recorded
from parity.experiment.session import LEVELS as LEVELS
from parity.experiment.session import run_case as run_case
from parity.experiment.sides.golden_side import GoldenError as GoldenError
from parity.experiment.sides.golden_side import keep_golden as keep_golden
from parity.experiment.sides.golden_side import require_golden_folder as require_golden_folder
from parity.worker.launch import Sides as Sides
from parity.worker.launch import open_sides as open_sides
