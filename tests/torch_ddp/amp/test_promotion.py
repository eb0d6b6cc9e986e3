"""Functions of several tensors run in the widest type among them; in-place methods keep the type of their tensor."""

import pytest
import torch

from torch_ddp import amp

HALF, FLOAT = torch.float16, torch.float32


def _pair(first, second, *shape):
    return torch.full(shape or (3,), 0.5, dtype=first), torch.full(shape or (3,), 0.25, dtype=second)


BINARY = {
    "torch.add": torch.add,
    "method add": lambda x, y: x.add(y),
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "*": lambda x, y: x * y,
    "/": lambda x, y: x / y,
    "div": torch.div,
    "mul": torch.mul,
    "atan2": torch.atan2,
    "dot": torch.dot,
    "cross": lambda x, y: torch.cross(x, y, dim=0),
    "cat": lambda x, y: torch.cat([x, y]),
    "stack": lambda x, y: torch.stack((x, y)),
    "addcmul": lambda x, y: torch.addcmul(x, y, y),
    "addcdiv": lambda x, y: torch.addcdiv(x, y, y),
}


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (HALF, HALF, HALF),
        (FLOAT, FLOAT, FLOAT),
        (HALF, FLOAT, FLOAT),
        (FLOAT, HALF, FLOAT),
        (HALF, torch.bfloat16, FLOAT),
        (FLOAT, torch.float64, torch.float64),
    ],
)
def test_the_widest_type_wins(casts, name, first, second, expected):
    assert BINARY[name](*_pair(first, second)).dtype is expected


def test_a_tensor_without_axes_counts_too(casts):
    assert (torch.ones(3, dtype=HALF) * torch.tensor(2.0)).dtype is FLOAT
    with amp.disable_casts():
        assert (torch.ones(3, dtype=HALF) * torch.tensor(2.0)).dtype is HALF


def test_numbers_and_integers_do_not_count(casts):
    half = torch.ones(3, dtype=HALF)
    assert (half * 2.5).dtype is HALF
    assert (1 - half).dtype is HALF
    assert (half + torch.ones(3, dtype=torch.long)).dtype is HALF


EQUAL = {"eq": torch.eq, "ge": torch.ge, "==": lambda x, y: x == y, ">=": lambda x, y: x >= y, "equal": torch.equal}


@pytest.mark.parametrize("name", EQUAL)
def test_comparisons_compare_in_the_widest_type(casts, name):
    third = torch.tensor([1 / 3])
    assert third.half().float().item() < third.item()
    assert not EQUAL[name](third.half(), third)
    assert EQUAL[name](third.half(), third.half())


def test_bilinear_promotes(casts):
    first, second = _pair(HALF, FLOAT, 2, 3)
    assert torch.nn.functional.bilinear(first, second, torch.ones(4, 3, 3)).dtype is FLOAT


@pytest.mark.parametrize("method", ["add_", "mul_", "div_", "sub_"])
def test_in_place_methods_keep_the_type_of_their_tensor(casts, method):
    for first, second in ((HALF, FLOAT), (FLOAT, HALF)):
        x, y = _pair(first, second)
        result = getattr(x, method)(y)
        assert result is x
        assert x.dtype is first


def test_in_place_operators_do_as_the_methods(casts):
    x, y = _pair(HALF, FLOAT)
    same = x
    x += y
    assert x is same
    assert x.dtype is HALF
    assert torch.equal(x, torch.full((3,), 0.75, dtype=HALF))


def test_in_place_products_cast_to_the_type_of_their_tensor(casts):
    out = torch.zeros(2, 2, dtype=HALF)
    out.addmm_(torch.ones(2, 3), torch.ones(3, 2))
    assert torch.equal(out, torch.full((2, 2), 3.0, dtype=HALF))


@pytest.mark.parametrize("method", ["exp_", "log_", "reciprocal_", "rsqrt_"])
def test_in_place_methods_that_need_float32_refuse_half(casts, method):
    torch_function = getattr(torch, method)
    with pytest.raises(NotImplementedError, match=rf"expected a float32 tensor for {method}.*Call {method[:-1]}, or"):
        getattr(torch.ones(2, dtype=HALF), method)()
    with pytest.raises(amp.BannedFunctionError):
        torch_function(torch.ones(2, dtype=HALF))
    assert getattr(torch.ones(2), method)().dtype is FLOAT
