"""`torch_ddp.amp` under the names and in the modules of `apex.amp`."""

from torch_ddp.amp import (
    disable_casts,
    float_function,
    half_function,
    load_state_dict,
    promote_function,
    register_float_function,
    register_half_function,
    register_promote_function,
    scale_loss,
    state_dict,
    step_was_skipped,
)
from torch_ddp.apex.amp import scaler
from torch_ddp.apex.amp._amp_state import _amp_state, master_params
from torch_ddp.apex.amp.amp import init
from torch_ddp.apex.amp.frontend import initialize
from torch_ddp.apex.missing import names_of

__all__ = [
    "_amp_state",
    "disable_casts",
    "float_function",
    "half_function",
    "init",
    "initialize",
    "load_state_dict",
    "master_params",
    "promote_function",
    "register_float_function",
    "register_half_function",
    "register_promote_function",
    "scale_loss",
    "scaler",
    "state_dict",
    "step_was_skipped",
]

__getattr__ = names_of(__name__)
