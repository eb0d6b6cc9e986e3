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
    from torch_ddp.checkpoint.masters import MasterWeights as MasterWeights
    from torch_ddp.checkpoint.random_state import random_state as random_state
    from torch_ddp.checkpoint.random_state import seed_all as seed_all
    from torch_ddp.checkpoint.random_state import set_random_state as set_random_state
    from torch_ddp.errors import CheckpointError as CheckpointError
    from torch_ddp.errors import TorchDdpError as TorchDdpError
    from torch_ddp.evaluation.evaluate import evaluate as evaluate
    from torch_ddp.evaluation.exact_sampler import ExactSampler as ExactSampler
    from torch_ddp.evaluation.ragged import gather_by_index as gather_by_index
    from torch_ddp.evaluation.ragged import gather_ragged as gather_ragged
    from torch_ddp.evaluation.reduce import mean_over_ranks as mean_over_ranks
    from torch_ddp.evaluation.reduce import reduce_tensor as reduce_tensor
    from torch_ddp.evaluation.statistics import broadcast_statistics as broadcast_statistics
    from torch_ddp.facts import describe_variables as describe_variables
    from torch_ddp.facts import facts as facts
    from torch_ddp.facts import make_repeatable as make_repeatable
    from torch_ddp.gather import gather as gather
    from torch_ddp.gather import gather_everywhere as gather_everywhere
    from torch_ddp.gather import ranks_agree as ranks_agree
    from torch_ddp.gradients import GradientReduction as GradientReduction
    from torch_ddp.gradients import unreduced as unreduced
    from torch_ddp.group import Rank as Rank
    from torch_ddp.group import device_of as device_of
    from torch_ddp.group import leave_process_group as leave_process_group
    from torch_ddp.group import process_group as process_group
    from torch_ddp.group import rank_from_environment as rank_from_environment
    from torch_ddp.group import spawn as spawn
    from torch_ddp.launch.options import add_launch_options as add_launch_options
    from torch_ddp.launch.options import launch as launch
    from torch_ddp.launch.options import under_torchrun as under_torchrun
    from torch_ddp.learning_rate import scaled_learning_rate as scaled_learning_rate
    from torch_ddp.learning_rate import warm_up as warm_up
    from torch_ddp.optimizer import hyper_parameters as hyper_parameters
    from torch_ddp.optimizer import make_optimizer as make_optimizer
    from torch_ddp.optimizer import named_counters as named_counters
    from torch_ddp.optimizer import named_slots as named_slots
    from torch_ddp.optimizer import round_hyper_parameters as round_hyper_parameters
    from torch_ddp.optimizer import set_counters as set_counters
    from torch_ddp.recording import Recording as Recording
    from torch_ddp.recording import recording as recording
    from torch_ddp.sampler import TrainingSampler as TrainingSampler
    from torch_ddp.schedule import make_schedule as make_schedule
    from torch_ddp.shard import shard as shard
    from torch_ddp.step import Stepper as Stepper
    from torch_ddp.update import Update as Update
    from torch_ddp.weights import load_weights as load_weights
    from torch_ddp.weights import named_statistics as named_statistics

# A test holds this table and the imports above together.
_HOMES = {
    "CheckpointError": "errors",
    "Checkpoints": "checkpoint.checkpoints",
    "ExactSampler": "evaluation.exact_sampler",
    "GradientReduction": "gradients",
    "MasterWeights": "checkpoint.masters",
    "Progress": "checkpoint.checkpoints",
    "Rank": "group",
    "Recording": "recording",
    "Stepper": "step",
    "TorchDdpError": "errors",
    "TrainingSampler": "sampler",
    "Update": "update",
    "add_launch_options": "launch.options",
    "broadcast_statistics": "evaluation.statistics",
    "describe_variables": "facts",
    "device_of": "group",
    "evaluate": "evaluation.evaluate",
    "facts": "facts",
    "gather": "gather",
    "gather_by_index": "evaluation.ragged",
    "gather_everywhere": "gather",
    "gather_ragged": "evaluation.ragged",
    "hyper_parameters": "optimizer",
    "launch": "launch.options",
    "leave_process_group": "group",
    "load_weights": "weights",
    "make_optimizer": "optimizer",
    "make_repeatable": "facts",
    "make_schedule": "schedule",
    "mean_over_ranks": "evaluation.reduce",
    "named_counters": "optimizer",
    "named_slots": "optimizer",
    "named_statistics": "weights",
    "newest_whole": "checkpoint.files",
    "process_group": "group",
    "random_state": "checkpoint.random_state",
    "rank_from_environment": "group",
    "ranks_agree": "gather",
    "read_whole": "checkpoint.files",
    "recording": "recording",
    "reduce_tensor": "evaluation.reduce",
    "round_hyper_parameters": "optimizer",
    "scaled_learning_rate": "learning_rate",
    "seed_all": "checkpoint.random_state",
    "set_counters": "optimizer",
    "set_random_state": "checkpoint.random_state",
    "shard": "shard",
    "spawn": "group",
    "under_torchrun": "launch.options",
    "unreduced": "gradients",
    "warm_up": "learning_rate",
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
