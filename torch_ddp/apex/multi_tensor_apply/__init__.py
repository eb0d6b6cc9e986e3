"""Calls a function of `amp_C`, under the names of `apex.multi_tensor_apply`."""

from torch_ddp.apex.multi_tensor_apply.multi_tensor_apply import MultiTensorApply, multi_tensor_applier

__all__ = ["MultiTensorApply", "multi_tensor_applier"]
