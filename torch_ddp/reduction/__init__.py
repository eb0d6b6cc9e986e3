"""What happens to gradients and statistics between the ranks, under torch's own DistributedDataParallel."""

from torch_ddp.reduction.accumulation import (
    accumulate,
)
from torch_ddp.reduction.buffers import (
    BufferPolicy,
    prepare_buffers,
    settle_buffers,
)
from torch_ddp.reduction.clipping import (
    clip_by_global_norm_,
    clip_by_norm_,
)
from torch_ddp.reduction.hooks import (
    HOOKS,
    Reduction,
    mean_hook,
    ordered_mean_hook,
    ordered_sum_hook,
    sum_hook,
)
from torch_ddp.reduction.weighted import (
    ExampleCounts,
    weighted_mean_hook,
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
