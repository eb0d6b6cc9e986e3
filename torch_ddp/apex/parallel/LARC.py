"""The module that scripts import LARC from."""

from torch_ddp.parallel.LARC import LARC

__all__ = ["LARC"]
