"""The casts are on from `initialize` to `deactivate`: outside models, within `disable_casts` not, under other modes."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch.nn.functional as F
from support.device import DEVICE
from torch import nn
from torch.overrides import TorchFunctionMode

from torch_ddp import amp
from torch_ddp.amp import mode_stack

HALF, FLOAT = torch.float16, torch.float32
TIMEOUT = 60


def _product(*_):
    return F.linear(torch.ones(2, 3), torch.ones(4, 3)).dtype


class _Spy(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.dtypes = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is F.linear:
            self.dtypes.append(args[0].dtype)
        return func(*args, **(kwargs or {}))


def test_a_loss_outside_the_model_is_cast(casts):
    model = nn.Linear(3, 2)
    output = model(torch.ones(4, 3))
    assert output.dtype is HALF
    assert F.cross_entropy(output, torch.zeros(4, dtype=torch.long)).dtype is FLOAT
    assert (output @ torch.ones(2, 2)).dtype is HALF


def test_they_end_with_deactivate(casts):
    assert _product() is HALF
    amp.deactivate()
    assert _product() is FLOAT
    assert not mode_stack.holds(casts.mode)
    amp.deactivate()


def test_a_new_session_ends_those_of_the_one_before(casts):
    amp.initialize([], opt_level="O0", verbosity=0)
    assert _product() is FLOAT
    assert not mode_stack.holds(casts.mode)


def test_patch_torch_functions_false_leaves_them_out():
    amp.initialize([], patch_torch_functions=False, verbosity=0)
    assert _product() is FLOAT


def test_disable_casts_is_a_block(casts):
    with amp.disable_casts():
        assert _product() is FLOAT
        with amp.disable_casts():
            assert _product() is FLOAT
        assert _product() is FLOAT
    assert _product() is HALF


def test_disable_casts_holds_for_models_and_threads_inside_it(casts):
    model, _ = amp.initialize([nn.Linear(3, 2)], [], verbosity=0)
    with amp.disable_casts():
        assert model[0](torch.ones(1, 3)).dtype is FLOAT
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(_product).result(TIMEOUT) is FLOAT


def test_disable_casts_switches_nothing_on_where_casts_were_off():
    def both():
        with amp.disable_casts():
            inside = _product()
        return inside, _product()

    with ThreadPoolExecutor(1) as pool:
        pool.submit(_product).result(TIMEOUT)
        amp.initialize([], verbosity=0)
        assert pool.submit(both).result(TIMEOUT) == (FLOAT, FLOAT)


def test_disable_casts_ends_with_an_error_too(casts):
    with pytest.raises(KeyError), amp.disable_casts():
        raise KeyError
    assert _product() is HALF


def test_disable_casts_without_a_session_does_nothing():
    with amp.disable_casts():
        assert _product() is FLOAT


def test_disable_casts_decorates_functions_that_call_themselves(casts):
    @amp.disable_casts()
    def products(depth):
        inside = products(depth - 1) if depth else []
        return [*inside, _product()]

    assert products(2) == [FLOAT] * 3
    assert _product() is HALF


def test_a_block_without_casts_leaves_other_modes_and_their_order(casts):
    outer, inner = _Spy(), _Spy()
    with outer, inner:
        with amp.disable_casts():
            assert not mode_stack.holds(casts.mode)
            assert mode_stack.top() is inner
        assert mode_stack.top() is inner
        assert _product() is HALF
    assert outer.dtypes == inner.dtypes == [FLOAT]
    assert mode_stack.top() is casts.mode


def test_torch_gets_its_own_functions_back_unless_somebody_wrapped_ours(monkeypatch):
    owners = ((F, "handle_torch_function"), (torch.autograd, "_engine_run_backward"), (nn.RNNBase, "check_input"))
    before = [getattr(owner, name) for owner, name in owners]
    amp.initialize([], verbosity=0)
    assert all(getattr(owner, name) is not old for (owner, name), old in zip(owners, before, strict=True))
    amp.deactivate()
    assert [getattr(owner, name) for owner, name in owners] == before
    amp.initialize([], verbosity=0)
    ours = F.handle_torch_function
    monkeypatch.setattr(F, "handle_torch_function", lambda *args, **kwargs: ours(*args, **kwargs))
    theirs = F.handle_torch_function
    amp.deactivate()
    assert F.handle_torch_function is theirs
    with _Spy() as spy:
        F.linear(F.relu(torch.ones(2, 3)), torch.ones(4, 3))
    assert spy.dtypes == [FLOAT]


def test_a_device_context_around_initialize_leaves_the_casts_on():
    with torch.device("cpu"):
        amp.initialize([], verbosity=0)
        assert _product() is HALF
    assert _product() is HALF


def test_a_device_context_later_works_beside_the_casts(casts):
    with torch.device("meta"):
        x = torch.ones(2, 3)
        assert x.device.type == "meta"
        assert F.linear(x, torch.ones(4, 3)).dtype is HALF
    assert _product() is HALF
    assert torch.ones(1).device.type == DEVICE


@pytest.mark.parametrize("first", ["default device", "casts"])
def test_a_default_device_works_beside_the_casts(first):
    try:
        for what in ("default device", "casts") if first == "default device" else ("casts", "default device"):
            if what == "casts":
                amp.initialize([], verbosity=0)
            else:
                torch.set_default_device("meta")
        assert torch.ones(1).device.type == "meta"
        assert _product() is HALF
    finally:
        torch.set_default_device(None)
    assert torch.ones(1).device.type == DEVICE
    assert _product() is HALF


def test_a_mode_entered_before_or_after_sees_calls_as_written_and_leaves_as_it_came():
    with _Spy() as outer:
        amp.initialize([], verbosity=0)
        assert _product() is HALF
        with _Spy() as inner:
            assert _product() is HALF
    assert outer.dtypes == [FLOAT, FLOAT]
    assert inner.dtypes == [FLOAT]
    assert _product() is HALF
    assert torch._C._len_torch_function_stack() == 1


def test_an_error_inside_a_call_leaves_the_casts_on(casts):
    with pytest.raises(RuntimeError):
        F.linear(torch.ones(2, 3), torch.ones(4, 5))
    with pytest.raises(AssertionError):
        nn.MultiheadAttention(4, 2)(torch.ones(1, 1, 4), torch.ones(1, 1, 4), torch.ones(2, 2, 4))
    assert _product() is HALF
    assert torch._C._len_torch_function_stack() == 1
