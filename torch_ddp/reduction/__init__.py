"""What happens to gradients and statistics between the ranks, under torch's own DistributedDataParallel."""

from torch_ddp.reduction.hooks import (
    HOOKS,
    ExampleCounts,
    Reduction,
    mean_hook,
    ordered_mean_hook,
    ordered_sum_hook,
    sum_hook,
    weighted_mean_hook,
)
from torch_ddp.reduction.local import (
    BufferPolicy,
    accumulate,
    clip_by_global_norm_,
    clip_by_norm_,
    prepare_buffers,
    settle_buffers,
)

__all__ = [
    "HOOKS",
    "BufferPolicy",
    "ExampleCounts",
    "Reduction",
    "accumulate",
    "clip_by_global_norm_",
    "clip_by_norm_",
    "mean_hook",
    "ordered_mean_hook",
    "ordered_sum_hook",
    "prepare_buffers",
    "settle_buffers",
    "sum_hook",
    "weighted_mean_hook",
]
