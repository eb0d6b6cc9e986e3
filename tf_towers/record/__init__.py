"""Runs an unmodified TensorFlow 1 script and leaves a trace of what it does.

On a host that has the old interpreter only: ``python -m tf_towers.record [--steps N] [--out DIR] -- SCRIPT ARGS…``.
"""

from tf_towers.record.hazards.types import Hazard as Hazard
from tf_towers.record.hooks import ApplyCall as ApplyCall
from tf_towers.record.hooks import Calls as Calls
from tf_towers.record.hooks import GradientCall as GradientCall
from tf_towers.record.recorder import Recorder as Recorder
from tf_towers.record.towers import TowerFound as TowerFound
