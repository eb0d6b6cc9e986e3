"""The PyTorch equivalent of TensorFlow 1 towers: DistributedDataParallel with the same semantics.

Importing this package imports no torch: names are looked up when they are first used.
"""

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch_ddp.checkpoint.checkpoints import Checkpoints as Checkpoints
    from torch_ddp.checkpoint.checkpoints import Progress as Progress
    from torch_ddp.checkpoint.files import newest_whole as newest_whole
    from torch_ddp.checkpoint.files import read_whole as read_whole
    from torch_ddp.checkpoint.files import write_whole as write_whole
    from torch_ddp.checkpoint.finite import check_finite as check_finite
    from torch_ddp.checkpoint.generators import random_state as random_state
    from torch_ddp.checkpoint.generators import seed_all as seed_all
    from torch_ddp.checkpoint.generators import set_random_state as set_random_state
    from torch_ddp.checkpoint.masters import MasterWeights as MasterWeights
    from torch_ddp.errors import CheckpointError as CheckpointError
    from torch_ddp.errors import NonFiniteError as NonFiniteError
    from torch_ddp.errors import TorchDdpError as TorchDdpError
    from torch_ddp.facts import describe_variables as describe_variables
    from torch_ddp.facts import facts as facts
    from torch_ddp.facts import make_repeatable as make_repeatable
    from torch_ddp.gather import gather as gather
    from torch_ddp.gather import gather_everywhere as gather_everywhere
    from torch_ddp.gather import ranks_agree as ranks_agree
    from torch_ddp.process_group import Rank as Rank
    from torch_ddp.process_group import device_of as device_of
    from torch_ddp.process_group import leave_process_group as leave_process_group
    from torch_ddp.process_group import process_group as process_group
    from torch_ddp.process_group import rank_from_environment as rank_from_environment
    from torch_ddp.process_group import spawn as spawn
    from torch_ddp.recording import Recording as Recording
    from torch_ddp.recording import recording as recording
    from torch_ddp.shard import shard as shard
    from torch_ddp.step.gradients import GradientReduction as GradientReduction
    from torch_ddp.step.gradients import unreduced as unreduced
    from torch_ddp.step.learning_rate import make_schedule as make_schedule
    from torch_ddp.step.learning_rate import scaled_learning_rate as scaled_learning_rate
    from torch_ddp.step.learning_rate import warm_up as warm_up
    from torch_ddp.step.optimizer import hyper_parameters as hyper_parameters
    from torch_ddp.step.optimizer import make_optimizer as make_optimizer
    from torch_ddp.step.optimizer import named_counters as named_counters
    from torch_ddp.step.optimizer import named_slots as named_slots
    from torch_ddp.step.optimizer import round_hyper_parameters as round_hyper_parameters
    from torch_ddp.step.optimizer import set_counters as set_counters
    from torch_ddp.step.stepper import Stepper as Stepper
    from torch_ddp.step.update import Update as Update
    from torch_ddp.train.evaluate import broadcast_statistics as broadcast_statistics
    from torch_ddp.train.evaluate import evaluate as evaluate
    from torch_ddp.train.evaluate import evaluate_sums as evaluate_sums
    from torch_ddp.train.evaluate import gather_by_index as gather_by_index
    from torch_ddp.train.evaluate import gather_ragged as gather_ragged
    from torch_ddp.train.evaluate import mean_over_ranks as mean_over_ranks
    from torch_ddp.train.evaluate import reduce_tensor as reduce_tensor
    from torch_ddp.train.evaluate import sum_over_ranks as sum_over_ranks
    from torch_ddp.train.guard import UpdateGuard as UpdateGuard
    from torch_ddp.train.launch import add_launch_options as add_launch_options
    from torch_ddp.train.launch import launch as launch
    from torch_ddp.train.launch import under_torchrun as under_torchrun
    from torch_ddp.train.preemption import Preemption as Preemption
    from torch_ddp.train.samplers import ExactSampler as ExactSampler
    from torch_ddp.train.samplers import TrainingSampler as TrainingSampler
    from torch_ddp.weights import load_weights as load_weights
    from torch_ddp.weights import named_statistics as named_statistics

# A test holds this table and the imports above together.
_HOMES = {
    "CheckpointError": "errors",
    "Checkpoints": "checkpoint.checkpoints",
    "ExactSampler": "train.samplers",
    "GradientReduction": "step.gradients",
    "MasterWeights": "checkpoint.masters",
    "NonFiniteError": "errors",
    "Preemption": "train.preemption",
    "Progress": "checkpoint.checkpoints",
    "Rank": "process_group",
    "Recording": "recording",
    "Stepper": "step.stepper",
    "TorchDdpError": "errors",
    "TrainingSampler": "train.samplers",
    "Update": "step.update",
    "UpdateGuard": "train.guard",
    "add_launch_options": "train.launch",
    "broadcast_statistics": "train.evaluate",
    "check_finite": "checkpoint.finite",
    "describe_variables": "facts",
    "device_of": "process_group",
    "evaluate": "train.evaluate",
    "evaluate_sums": "train.evaluate",
    "facts": "facts",
    "gather": "gather",
    "gather_by_index": "train.evaluate",
    "gather_everywhere": "gather",
    "gather_ragged": "train.evaluate",
    "hyper_parameters": "step.optimizer",
    "launch": "train.launch",
    "leave_process_group": "process_group",
    "load_weights": "weights",
    "make_optimizer": "step.optimizer",
    "make_repeatable": "facts",
    "make_schedule": "step.learning_rate",
    "mean_over_ranks": "train.evaluate",
    "named_counters": "step.optimizer",
    "named_slots": "step.optimizer",
    "named_statistics": "weights",
    "newest_whole": "checkpoint.files",
    "process_group": "process_group",
    "random_state": "checkpoint.generators",
    "rank_from_environment": "process_group",
    "ranks_agree": "gather",
    "read_whole": "checkpoint.files",
    "recording": "recording",
    "reduce_tensor": "train.evaluate",
    "round_hyper_parameters": "step.optimizer",
    "scaled_learning_rate": "step.learning_rate",
    "seed_all": "checkpoint.generators",
    "set_counters": "step.optimizer",
    "set_random_state": "checkpoint.generators",
    "shard": "shard",
    "spawn": "process_group",
    "sum_over_ranks": "train.evaluate",
    "under_torchrun": "train.launch",
    "unreduced": "step.gradients",
    "warm_up": "step.learning_rate",
    "write_whole": "checkpoint.files",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})


class _Package(ModuleType):
    def __setattr__(self, name: str, value: Any) -> None:
        # Python sets a module on its package once it is imported; `shard` the function must stay what `shard` names.
        if not (name in _HOMES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
