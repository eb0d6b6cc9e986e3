import inspect

import pytest

from torch_ddp import fp16_utils

NAMES = [
    "BN_convert_float",
    "DynamicLossScaler",
    "FP16Model",
    "FP16_Optimizer",
    "Fp16Error",
    "LossScaler",
    "clip_grad_norm",
    "convert_module",
    "convert_network",
    "master_params_to_model_params",
    "model_grads_to_master_grads",
    "network_to_half",
    "prep_param_lists",
    "to_python_float",
    "tofp16",
]


def test_the_public_names_are_these():
    assert fp16_utils.__all__ == NAMES
    assert all(hasattr(fp16_utils, name) for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_says_what_it_does(name):
    doc = inspect.getdoc(getattr(fp16_utils, name))
    assert doc
    assert doc.splitlines()[0].endswith(".")
