"""A drop-in for apex.parallel on CPU and GPU: data parallelism, synchronised batch norm, LARC."""

from torch.distributed import (
    ReduceOp,
)

from torch_ddp.parallel.distributed import (
    DistributedDataParallel,
    Reducer,
)
from torch_ddp.parallel.errors import (
    ParallelError,
)
from torch_ddp.parallel.LARC import (
    LARC,
)
from torch_ddp.parallel.sync_batchnorm import (
    SyncBatchNorm,
    convert_syncbn_model,
    create_syncbn_process_group,
)

__all__ = [
    "LARC",
    "DistributedDataParallel",
    "ParallelError",
    "ReduceOp",
    "Reducer",
    "SyncBatchNorm",
    "convert_syncbn_model",
    "create_syncbn_process_group",
]
