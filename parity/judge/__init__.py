"""Judges what two sides recorded: measured allowances, first differences, verdicts."""

from parity.judge.levels.float32 import Accuracy as Accuracy
from parity.judge.levels.float32 import judge_accuracy as judge_accuracy
from parity.judge.levels.float32 import judge_float32 as judge_float32
from parity.judge.levels.function import Lockstep as Lockstep
from parity.judge.levels.function import judge_free as judge_free
from parity.judge.levels.function import judge_init as judge_init
from parity.judge.levels.function import judge_lockstep as judge_lockstep
from parity.judge.levels.mixed import Halves as Halves
from parity.judge.levels.mixed import judge_mixed as judge_mixed
from parity.judge.levels.mixed import judge_scale as judge_scale
from parity.judge.levels.trajectory import Trajectories as Trajectories
from parity.judge.levels.trajectory import judge_trajectory as judge_trajectory
from parity.judge.result import Cause as Cause
from parity.judge.result import Check as Check
from parity.judge.result import FirstDifference as FirstDifference
from parity.judge.result import Level as Level
from parity.judge.result import Result as Result
from parity.judge.result import Verdict as Verdict
from parity.judge.tensor_details import Closer as Closer
from parity.judge.tensor_details import Histogram as Histogram
from parity.judge.tensor_details import Losses as Losses
from parity.judge.tensor_details import Place as Place
from parity.judge.tensor_details import look_closer as look_closer
from parity.judge.tensor_details import losses_of as losses_of
from parity.mapping.trace_map import Join as Join
