"""What Apex 25.04 has and this has not, by name, and the line that an import of it raises."""

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from typing import Any

from torch_ddp.errors import TorchDdpError

PACKAGE = "torch_ddp.apex"
# By the name behind `apex.`: what to use in its place. docs/apex.md counts how often public code imports each.
MISSING = {
    "RNN": "Use torch.nn.LSTM, GRU or RNN, which O1 casts.",
    "_autocast_utils": "Use torch.is_autocast_enabled and Tensor.to.",
    "amp.compat": "Leave the import out: it is for torch before 0.4.",
    "amp.lists": "Use amp.register_half_function, register_float_function or register_promote_function.",
    "amp.rnn_compat": "Leave the import out: recurrent layers are cast by O1 itself.",
    "amp.utils": "Use Tensor.half and Tensor.float.",
    "amp.wrap": "Use amp.half_function, float_function or promote_function.",
    "contrib": "Use torch.nn.functional.cross_entropy(label_smoothing=…) for xentropy, "
    "scaled_dot_product_attention for fmha and multihead_attn, torch.nn.utils.clip_grad_norm_(foreach=True) for clip_grad, "
    "torch.nn.LayerNorm for layer_norm, "
    "torch.distributed.optim.ZeroRedundancyOptimizer for the distributed optimizers.",
    "amp_C.multi_tensor_lamb_mp": "Use apex.optimizers.FusedLAMB.",
    "amp_C.multi_tensor_lamb_stage1_cuda": "Use multi_tensor_lamb.",
    "amp_C.multi_tensor_lamb_stage2_cuda": "Use multi_tensor_lamb.",
    "fused_dense": "Use torch.nn.Linear, and torch.compile to fuse it with what follows.",
    "mlp": "Use torch.nn.Sequential of torch.nn.Linear and torch.nn.ReLU.",
    "optimizers.FusedMixedPrecisionLamb": "Use FusedLAMB with amp.initialize(opt_level='O2').",
    "optimizers.fused_mixed_precision_lamb": "Use FusedLAMB with amp.initialize(opt_level='O2').",
    "parallel.optimized_sync_batchnorm_kernel": "Use apex.parallel.SyncBatchNorm.",
    "parallel.sync_batchnorm_kernel": "Use apex.parallel.SyncBatchNorm.",
    "pyprof": "Use torch.profiler.",
    "reparameterization": "Use torch.nn.utils.parametrizations.weight_norm.",
    "transformer": "Use torch.distributed.tensor.parallel, or Megatron Core.",
}


class MissingFromApexError(TorchDdpError, ModuleNotFoundError):
    """Says that a part of Apex is not here; a ModuleNotFoundError too, so that scripts which try and do without go on."""


def missing(name: str) -> MissingFromApexError:
    """Returns the error for a part that is missing.

    Args:
        name: a key of `MISSING`.
    """
    return MissingFromApexError(
        f"torch_ddp.apex: expected a part of Apex that is here, got apex.{name}. {MISSING[name]}"
    )


def names_of(module: str) -> Callable[[str], Any]:
    """Returns the module-level `__getattr__` of a package, which says of missing names that they are.

    Args:
        module: the `__name__` of the package.
    """
    prefix = f"{module}.".removeprefix(f"{PACKAGE}.")

    def __getattr__(name: str) -> Any:
        if prefix + name in MISSING:
            raise missing(prefix + name)
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return __getattr__


class MissingModules:
    """A finder of `sys.meta_path` that finds nothing, and says so of the missing modules."""

    @staticmethod
    def find_spec(fullname: str, path: Sequence[str] | None = None, target: object = None) -> ModuleSpec | None:
        """Raises for a missing part of Apex; returns None for all else."""
        name = fullname.removeprefix(f"{PACKAGE}.")
        if name == fullname:
            if getattr(sys.modules.get("apex"), "__name__", None) != PACKAGE:
                return None
            name = fullname.removeprefix("apex.")
        if name != fullname and name in MISSING:
            raise missing(name)
        return None


def watch_imports() -> None:
    """Makes imports of missing parts say so; a second call does nothing."""
    if MissingModules not in sys.meta_path:
        sys.meta_path.insert(0, MissingModules)
