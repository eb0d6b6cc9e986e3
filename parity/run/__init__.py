"""Runs a case: both sides, the same batches, the same weights."""

from parity.run.golden import GoldenError as GoldenError
from parity.run.golden import keep_golden as keep_golden
from parity.run.golden import require_golden_folder as require_golden_folder
from parity.run.plan import Recorder as Recorder
from parity.run.recorded import Recorded as Recorded
from parity.run.session import LEVELS as LEVELS
from parity.run.session import run_case as run_case
from parity.worker.launch import Sides as Sides
from parity.worker.launch import open_sides as open_sides
