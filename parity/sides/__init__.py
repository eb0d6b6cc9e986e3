"""The processes that play the sides of a comparison: TensorFlow, torch, and the user's data."""

from parity.sides.failure import SideFailed as SideFailed
from parity.sides.launch import DEFAULT_SILENCE as DEFAULT_SILENCE
from parity.sides.launch import launch_data as launch_data
from parity.sides.launch import launch_tf as launch_tf
from parity.sides.launch import launch_torch as launch_torch
from parity.sides.process import SideProcess as SideProcess
from parity.sides.process import fail_together as fail_together
