"""`torch_ddp.parallel` under the names and in the modules of `apex.parallel`."""

from torch.distributed import ReduceOp

from torch_ddp.apex.missing import names_of
from torch_ddp.apex.parallel import LARC, distributed
from torch_ddp.apex.parallel.distributed import DistributedDataParallel, Reducer
from torch_ddp.apex.parallel.sync_batchnorm import SyncBatchNorm
from torch_ddp.parallel import convert_syncbn_model, create_syncbn_process_group

__all__ = [
    "LARC",
    "DistributedDataParallel",
    "ReduceOp",
    "Reducer",
    "SyncBatchNorm",
    "convert_syncbn_model",
    "create_syncbn_process_group",
    "distributed",
]

__getattr__ = names_of(__name__)
