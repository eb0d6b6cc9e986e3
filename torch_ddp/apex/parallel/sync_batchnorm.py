"""A module that scripts import SyncBatchNorm from."""

from torch_ddp.parallel.sync_batchnorm import SyncBatchNorm

__all__ = ["SyncBatchNorm"]
