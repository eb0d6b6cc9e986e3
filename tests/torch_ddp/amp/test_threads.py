"""Casts on every thread: of a backward pass, started later, running before, and in forked processes."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from torch_ddp import amp

HALF, FLOAT = torch.float16, torch.float32
TIMEOUT = 60


def _product(*_):
    return F.linear(torch.ones(2, 3), torch.ones(4, 3)).dtype


class _Backward(torch.autograd.Function):
    """Records, in its backward pass, the dtype of a product and the thread; goes `depth` backward passes deep."""

    @staticmethod
    def forward(ctx, x, depth, seen):
        ctx.depth, ctx.seen = depth, seen
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        ctx.seen.append((threading.get_ident(), _product()))
        if ctx.depth:
            with torch.enable_grad():
                leaf = torch.ones(1, requires_grad=True)
                _Backward.apply(leaf, ctx.depth - 1, ctx.seen).backward()
        return grad, None, None


@pytest.mark.parametrize("call", ["method", "function", "grad"])
def test_a_backward_pass_casts_on_its_threads_too(casts, call):
    # From 60 nested backward passes on, autograd goes on in threads of its own, as it does for each GPU.
    seen = []
    leaf = torch.ones(1, requires_grad=True)
    output = _Backward.apply(leaf, 70, seen)
    if call == "method":
        output.backward()
    elif call == "function":
        torch.autograd.backward(output)
    else:
        torch.autograd.grad(output, [leaf])
    assert len(seen) == 71
    assert len({thread for thread, _ in seen}) > 1
    assert {dtype for _, dtype in seen} == {HALF}


def test_a_backward_pass_that_breaks_off_leaves_the_casts_on(casts):
    class Breaks(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            raise KeyError(_product())

    leaf = torch.ones(1, requires_grad=True)
    with pytest.raises(KeyError, match="float16"):
        Breaks.apply(leaf).backward()
    assert _product() is HALF
    # One that never starts either: two elements have no implicit gradient.
    with pytest.raises(RuntimeError, match="scalar outputs"):
        (leaf * torch.ones(2)).backward()
    assert _product() is HALF
    with amp.disable_casts():
        seen = []
        _Backward.apply(leaf, 0, seen).backward()
    assert [dtype for _, dtype in seen] == [FLOAT]


def test_backward_threads_do_not_cast_where_casts_are_off(casts):
    amp.deactivate()
    seen = []
    _Backward.apply(torch.ones(1, requires_grad=True), 70, seen).backward()
    assert {dtype for _, dtype in seen} == {FLOAT}


def test_a_hook_on_a_gradient_is_cast(casts):
    seen = []
    x = torch.ones(1, requires_grad=True)
    y = x * 2
    y.register_hook(lambda grad: seen.append(_product()))
    y.backward()
    assert seen == [HALF]


def test_threads_started_later_cast(casts):
    class Own(threading.Thread):
        def run(self):
            self.dtype = _product()

    results = []
    plain = threading.Thread(target=lambda: results.append(_product()))
    own = Own()
    for thread in (plain, own):
        thread.start()
        thread.join(TIMEOUT)
    with ThreadPoolExecutor(2) as pool:
        results += pool.map(_product, range(4), timeout=TIMEOUT)
    assert results == [HALF] * 5
    assert own.dtype is HALF


def test_a_thread_whose_run_was_replaced_keeps_its_own(casts):
    results = []
    thread = threading.Thread()
    thread.run = own = lambda: results.append(_product())
    thread.start()
    thread.join(TIMEOUT)
    assert results == [HALF]
    assert thread.run is own


def test_a_thread_that_ran_before_casts_from_its_first_call_of_a_model():
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(_product).result(TIMEOUT) is FLOAT
        model = amp.initialize(nn.Linear(3, 2), verbosity=0)
        assert pool.submit(_product).result(TIMEOUT) is FLOAT
        assert pool.submit(lambda: model(torch.ones(1, 3)).dtype).result(TIMEOUT) is HALF
        assert pool.submit(_product).result(TIMEOUT) is HALF
        amp.deactivate()
        assert pool.submit(_product).result(TIMEOUT) is FLOAT


def test_starting_threads_is_as_before_after_deactivate():
    before = threading.Thread.start
    amp.initialize([], verbosity=0)
    assert threading.Thread.start is not before
    amp.deactivate()
    assert threading.Thread.start is before


def test_a_wrapper_of_thread_start_by_others_survives(monkeypatch):
    before = threading.Thread.start
    amp.initialize([], verbosity=0)
    ours = threading.Thread.start
    monkeypatch.setattr(threading.Thread, "start", lambda thread: ours(thread))
    amp.deactivate()
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(_product).result(TIMEOUT) is FLOAT
    monkeypatch.undo()
    monkeypatch.setattr(threading.Thread, "start", before)


class _Products(torch.utils.data.Dataset):
    def __len__(self):
        return 2

    def __getitem__(self, index):
        return _product() is HALF


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.on_cpu("a process that has a GPU cannot be forked")
def test_forked_workers_of_a_data_loader_cast(casts):
    loader = torch.utils.data.DataLoader(
        _Products(), batch_size=1, num_workers=1, multiprocessing_context="fork", timeout=TIMEOUT
    )
    assert [bool(flag) for flag in loader] == [True, True]
