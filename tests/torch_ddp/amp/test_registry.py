"""The user's own functions in O1."""

import types

import pytest
import torch
import torch.nn.functional as F

from torch_ddp import amp

HALF, FLOAT = torch.float16, torch.float32


def _dtypes(*args, **kwargs):
    return [arg.dtype for arg in [*args, *kwargs.values()]]


def _mixed():
    return torch.ones(1, dtype=HALF), torch.ones(1)


@pytest.mark.parametrize(
    ("decorator", "expected"),
    [
        (amp.half_function, [HALF, HALF]),
        (amp.float_function, [FLOAT, FLOAT]),
        (amp.promote_function, [FLOAT, FLOAT]),
    ],
)
def test_a_decorated_function_is_cast_while_o1_is_on(decorator, expected):
    function = decorator(_dtypes)
    half, single = _mixed()
    assert function(half, single) == [HALF, FLOAT]
    amp.initialize([], verbosity=0)
    assert function(half, other=single) == expected
    with amp.disable_casts():
        assert function(half, single) == [HALF, FLOAT]
    amp.initialize([], opt_level="O2", verbosity=0)
    assert function(half, single) == [HALF, FLOAT]
    assert function.__name__ == "_dtypes"


def test_promotion_among_equal_types_casts_nothing(casts):
    assert amp.promote_function(_dtypes)(torch.ones(1, dtype=HALF)) == [HALF]


@pytest.mark.parametrize(
    ("register", "expected"),
    [
        (amp.register_half_function, [HALF, HALF]),
        (amp.register_float_function, [FLOAT, FLOAT]),
        (amp.register_promote_function, [FLOAT, FLOAT]),
    ],
)
def test_a_registered_function_of_a_module_is_cast_until_deactivate(register, expected):
    module = types.ModuleType("module")
    module.function = _dtypes
    register(module, "function")
    assert module.function is _dtypes
    amp.initialize([], verbosity=0)
    assert module.function(*_mixed()) == expected
    amp.deactivate()
    assert module.function is _dtypes
    amp.initialize([], verbosity=0)
    assert module.function(*_mixed()) == expected


def test_registering_again_changes_the_rule():
    module = types.ModuleType("module")
    module.function = _dtypes
    amp.register_half_function(module, "function")
    amp.initialize([], verbosity=0)
    amp.register_float_function(module, "function")
    amp.initialize([], verbosity=0)
    assert module.function(*_mixed()) == [FLOAT, FLOAT]
    amp.deactivate()
    assert module.function is _dtypes


def test_a_registration_goes_before_the_lists():
    linear = F.linear
    amp.register_float_function(F, "linear")
    amp.register_half_function(torch, "exp")
    amp.initialize([], verbosity=0)
    assert linear(torch.ones(1, 2, dtype=HALF), torch.ones(1, 2)).dtype is FLOAT
    assert torch.exp(torch.ones(1)).dtype is HALF
    assert F.linear is linear


def test_a_function_of_torch_is_caught_however_it_is_reached():
    from torch import tanh

    amp.register_float_function(torch, "tanh")
    amp.initialize([], verbosity=0)
    assert tanh(torch.ones(1, dtype=HALF)).dtype is FLOAT
    assert torch.nn.Tanh()(torch.ones(1, dtype=HALF)).dtype is FLOAT


def test_an_unknown_name_is_refused():
    with pytest.raises(
        amp.AmpError, match=r"amp.register_half_function: expected a function 'tahn' in torch, got none"
    ):
        amp.register_half_function(torch, "tahn")
