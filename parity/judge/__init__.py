"""Judges what two sides recorded: measured allowances, first differences, verdicts."""

from parity.judge.closer import Closer as Closer
from parity.judge.closer import Histogram as Histogram
from parity.judge.closer import Place as Place
from parity.judge.closer import look_closer as look_closer
from parity.judge.join import Join as Join
from parity.judge.level1 import Lockstep as Lockstep
from parity.judge.level1 import judge_free as judge_free
from parity.judge.level1 import judge_init as judge_init
from parity.judge.level1 import judge_lockstep as judge_lockstep
from parity.judge.level2 import Accuracy as Accuracy
from parity.judge.level2 import judge_accuracy as judge_accuracy
from parity.judge.level2 import judge_float32 as judge_float32
from parity.judge.level3 import Trajectories as Trajectories
from parity.judge.level3 import judge_trajectory as judge_trajectory
from parity.judge.level4 import Halves as Halves
from parity.judge.level4 import judge_mixed as judge_mixed
from parity.judge.level4 import judge_scale as judge_scale
from parity.judge.losses import Losses as Losses
from parity.judge.losses import losses_of as losses_of
from parity.judge.result import Cause as Cause
from parity.judge.result import Check as Check
from parity.judge.result import FirstDifference as FirstDifference
from parity.judge.result import Level as Level
from parity.judge.result import Result as Result
from parity.judge.result import Verdict as Verdict
