import inspect

import pytest

from torch_ddp import amp

NAMES = [
    "AmpError",
    "BannedFunctionError",
    "deactivate",
    "disable_casts",
    "float_function",
    "half_function",
    "initialize",
    "load_state_dict",
    "master_params",
    "promote_function",
    "register_float_function",
    "register_half_function",
    "register_promote_function",
    "scale_loss",
    "state_dict",
    "step_was_skipped",
]


def test_the_public_names_are_these():
    assert amp.__all__ == NAMES
    assert all(hasattr(amp, name) for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_says_what_it_does(name):
    doc = inspect.getdoc(getattr(amp, name))
    assert doc
    assert doc.splitlines()[0].endswith(".")


APEX_INITIALIZE = """
    models optimizers enabled opt_level cast_model_type patch_torch_functions keep_batchnorm_fp32 master_weights
    loss_scale cast_model_outputs num_losses verbosity min_loss_scale max_loss_scale
"""
APEX_SCALE_LOSS = "loss optimizers loss_id model delay_unscale delay_overflow_check"


def test_positional_arguments_come_in_the_order_of_apex():
    assert list(inspect.signature(amp.initialize).parameters)[:14] == APEX_INITIALIZE.split()
    assert list(inspect.signature(amp.scale_loss).parameters) == APEX_SCALE_LOSS.split()
