"""The call with which amp begins, as Apex's module `frontend` has it."""

from typing import Any

from torch_ddp import amp
from torch_ddp.amp import load_state_dict, state_dict
from torch_ddp.amp.options import Properties
from torch_ddp.apex.amp._amp_state import _amp_state

__all__ = ["Properties", "initialize", "load_state_dict", "state_dict"]


def initialize(models: Any, optimizers: Any = None, *args: Any, **kwargs: Any) -> Any:
    """Calls `torch_ddp.amp.initialize`, and accepts weights of other dtypes where `_amp_state` says so.

    Args:
        models: a module, or a list or tuple of modules.
        optimizers: an optimizer, or a list or tuple of optimizers, or None.
        *args: in Apex's order.
        **kwargs: Apex's, and those that `torch_ddp.amp.initialize` adds.

    Returns:
        The models, or models and optimizers, in the form given.

    Raises:
        AmpError: an argument is refused.
    """
    kwargs.setdefault("allow_incoming_model_not_fp32", _amp_state.allow_incoming_model_not_fp32)
    return amp.initialize(models, optimizers, *args, **kwargs)
