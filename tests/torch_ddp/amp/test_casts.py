"""Which dtype each listed function runs in: the behaviour Apex tested for its cast lists, and the lists themselves."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from torch_ddp import amp
from torch_ddp.amp import cast_lists
from torch_ddp.amp.cast_lists import Rule

HALF, FLOAT = torch.float16, torch.float32
BOTH = pytest.mark.parametrize("dtype", [HALF, FLOAT])

# Listed by Apex for other versions of torch, or not methods of Tensor.
ABSENT = {
    "functional": set(),
    "torch": set(),
    "Tensor": {"conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "conv_tbc"}
    | {"bilinear", "cat", "stack", "__div__", "__rtruediv__"},
}


def _ones(*shape, dtype=FLOAT):
    return torch.full(shape, 0.5, dtype=dtype)


WHITE = {
    "linear": lambda d: F.linear(_ones(2, 3, dtype=d), _ones(4, 3), _ones(4)),
    "conv1d": lambda d: F.conv1d(_ones(1, 2, 5, dtype=d), _ones(3, 2, 2)),
    "conv2d": lambda d: F.conv2d(_ones(1, 2, 5, 5, dtype=d), _ones(3, 2, 2, 2)),
    "conv3d": lambda d: F.conv3d(_ones(1, 2, 3, 3, 3, dtype=d), _ones(3, 2, 2, 2, 2)),
    "conv_transpose1d": lambda d: F.conv_transpose1d(_ones(1, 2, 5, dtype=d), _ones(2, 3, 2)),
    "conv_transpose2d": lambda d: F.conv_transpose2d(_ones(1, 2, 5, 5, dtype=d), _ones(2, 3, 2, 2)),
    "conv_transpose3d": lambda d: F.conv_transpose3d(_ones(1, 2, 3, 3, 3, dtype=d), _ones(2, 3, 2, 2, 2)),
    "conv_tbc": lambda d: torch.conv_tbc(_ones(5, 1, 2, dtype=d), _ones(2, 2, 3), _ones(3)),
    "prelu": lambda d: torch.prelu(_ones(2, 3, dtype=d), _ones(1)),
    "matmul": lambda d: torch.matmul(_ones(2, 3, dtype=d), _ones(3, 2)),
    "matmul method": lambda d: _ones(2, 3, dtype=d).matmul(_ones(3, 2)),
    "matmul operator": lambda d: _ones(2, 3, dtype=d) @ _ones(3, 2),
    "mm": lambda d: torch.mm(_ones(2, 3, dtype=d), _ones(3, 2)),
    "mv": lambda d: _ones(2, 3, dtype=d).mv(_ones(3)),
    "addmm": lambda d: torch.addmm(_ones(2, 2), _ones(2, 3, dtype=d), _ones(3, 2)),
    "addmv": lambda d: torch.addmv(_ones(2), _ones(2, 3, dtype=d), _ones(3)),
    "addr": lambda d: torch.addr(_ones(2, 3), _ones(2, dtype=d), _ones(3)),
    "bmm": lambda d: torch.bmm(_ones(1, 2, 3, dtype=d), _ones(1, 3, 2)),
    "addbmm": lambda d: torch.addbmm(_ones(2, 2), _ones(1, 2, 3, dtype=d), _ones(1, 3, 2)),
    "baddbmm": lambda d: torch.baddbmm(_ones(1, 2, 2), _ones(1, 2, 3, dtype=d), _ones(1, 3, 2)),
    "einsum": lambda d: torch.einsum("ij,jk->ik", _ones(2, 3, dtype=d), _ones(3, 2)),
    "scaled_dot_product_attention": lambda d: F.scaled_dot_product_attention(
        _ones(1, 2, 4, dtype=d), _ones(1, 2, 4), _ones(1, 2, 4)
    ),
}
BLACK = {
    "softmax": lambda x: F.softmax(x, -1),
    "log_softmax": lambda x: F.log_softmax(x, -1),
    "softmin": lambda x: F.softmin(x, -1),
    "softplus": F.softplus,
    "gelu": F.gelu,
    "layer_norm": lambda x: F.layer_norm(x, (4,)),
    "group_norm": lambda x: F.group_norm(x, 2),
    "local_response_norm": lambda x: F.local_response_norm(x[None], 2),
    "normalize": F.normalize,
    "cosine_similarity": lambda x: F.cosine_similarity(x, x),
    "interpolate": lambda x: F.interpolate(x[None], 8),
    "grid_sample": lambda x: F.grid_sample(x[None, None], torch.zeros(1, 2, 2, 2), align_corners=False),
    "mse_loss": lambda x: F.mse_loss(x, x),
    "l1_loss": lambda x: F.l1_loss(x, x),
    "smooth_l1_loss": lambda x: F.smooth_l1_loss(x, x),
    "cross_entropy": lambda x: F.cross_entropy(x, torch.zeros(4, dtype=torch.long)),
    "nll_loss": lambda x: F.nll_loss(x, torch.zeros(4, dtype=torch.long)),
    "kl_div": lambda x: F.kl_div(x, x, reduction="sum"),
    "binary_cross_entropy_with_logits": lambda x: F.binary_cross_entropy_with_logits(x, x),
    "exp": torch.exp,
    "exp method": lambda x: x.exp(),
    "log": torch.log,
    "pow": lambda x: torch.pow(x, 2),
    "pow method": lambda x: x.pow(2.0),
    "pow operator": lambda x: x**2.0,
    "reflected pow": lambda x: 2.0**x,
    "sum": torch.sum,
    "sum method": lambda x: x.sum(),
    "prod": torch.prod,
    "cumsum": lambda x: x.cumsum(0),
    "cumprod": lambda x: torch.cumprod(x, 0),
    "norm": torch.norm,
    "norm method": lambda x: x.norm(),
    "dist": lambda x: torch.dist(x, x),
    "renorm": lambda x: x.renorm(2, 0, 1.0),
    "std": torch.std,
    "var": lambda x: x.var(),
    "rsqrt": torch.rsqrt,
    "reciprocal": torch.reciprocal,
    "cpu": lambda x: x.cpu(),
}
UNLISTED = {
    "relu": F.relu,
    "max_pool2d": lambda x: F.max_pool2d(x[None, None], 2),
    "dropout": lambda x: F.dropout(x, 0.5),
    "mean": torch.mean,
    "tanh": torch.tanh,
    "torch.softmax": lambda x: torch.softmax(x, -1),
    "batch_norm": lambda x: F.batch_norm(x, torch.zeros(4), torch.ones(4)),
}


@BOTH
@pytest.mark.parametrize("name", WHITE)
def test_a_listed_product_runs_in_half(casts, name, dtype):
    assert WHITE[name](dtype).dtype is HALF


@BOTH
@pytest.mark.parametrize("name", BLACK)
def test_a_sensitive_function_runs_in_float32_and_its_gradient_has_the_type_of_its_input(casts, name, dtype):
    leaf = (torch.rand(4, 4) + 0.1).to(dtype).requires_grad_()
    result = BLACK[name](leaf)
    assert result.dtype is FLOAT
    with amp.disable_casts():
        result.sum().backward()
    assert leaf.grad.dtype is dtype


@BOTH
@pytest.mark.parametrize("name", UNLISTED)
def test_a_function_on_no_list_keeps_the_type_of_its_input(casts, name, dtype):
    assert UNLISTED[name](_ones(4, 4, dtype=dtype)).dtype is dtype


def test_bfloat16_takes_the_place_of_float16():
    amp.initialize([], half_dtype=torch.bfloat16, verbosity=0)
    assert F.linear(_ones(2, 3), _ones(4, 3)).dtype is torch.bfloat16
    assert F.linear(_ones(2, 3, dtype=HALF), _ones(4, 3)).dtype is torch.bfloat16
    assert F.softmax(_ones(2, 3, dtype=torch.bfloat16), -1).dtype is FLOAT


def test_float64_is_left_alone(casts):
    double = _ones(2, 2, dtype=torch.float64)
    assert (double @ double).dtype is torch.float64
    assert F.softmax(double, -1).dtype is torch.float64


def test_a_call_that_writes_into_out_is_left_alone(casts):
    out = torch.zeros(2, 2)
    torch.mm(_ones(2, 2), _ones(2, 2), out=out)
    assert torch.equal(out, torch.full((2, 2), 0.5))


@pytest.mark.parametrize("loss", [F.binary_cross_entropy, nn.BCELoss()])
def test_binary_cross_entropy_of_half_is_banned_with_a_remedy(casts, loss):
    with pytest.raises(NotImplementedError, match=r"expected float32 arguments.*BCEWithLogitsLoss.*allow_banned=True"):
        loss(_ones(2, dtype=HALF), _ones(2))
    assert loss(_ones(2), _ones(2)).dtype is FLOAT


def test_a_banned_function_runs_in_float32_where_that_is_allowed():
    amp.initialize([], allow_banned=True, verbosity=0)
    assert F.binary_cross_entropy(_ones(2, dtype=HALF), _ones(2)).dtype is FLOAT


def test_a_sigmoid_registered_for_float32_makes_binary_cross_entropy_possible():
    amp.register_float_function(torch, "sigmoid")
    amp.initialize([], verbosity=0)
    model = nn.Sequential(nn.Linear(3, 1), nn.Sigmoid())
    output = model(_ones(2, 3))
    assert output.dtype is FLOAT
    assert nn.BCELoss()(output, _ones(2, 1)).dtype is FLOAT


@pytest.mark.parametrize(
    ("where", "names"),
    [
        ("functional", [*cast_lists.FUNCTIONAL_HALF, *cast_lists.FUNCTIONAL_FLOAT, *cast_lists.BANNED]),
        ("torch", [*cast_lists.TORCH_HALF, *cast_lists.RECURRENT_HALF, *cast_lists.TORCH_FLOAT]),
        ("torch", cast_lists.TORCH_WIDEST),
        ("Tensor", [*cast_lists.TORCH_HALF, *cast_lists.TENSOR_FLOAT, *cast_lists.TENSOR_WIDEST]),
    ],
)
def test_every_listed_name_exists_in_this_torch(where, names):
    namespace = {"functional": F, "torch": torch, "Tensor": torch.Tensor}[where]
    assert {name for name in names if not hasattr(namespace, name)} <= ABSENT[where]


def test_no_function_is_on_two_lists():
    seen = {}
    for namespace, names, rule in cast_lists._lists():
        for name in names:
            function = getattr(namespace, name, None)
            if function is not None:
                assert seen.setdefault(function, rule) is rule, (name, rule)
    assert seen == cast_lists.rules()


def test_the_lists_are_not_empty():
    counts = {rule: list(cast_lists.rules().values()).count(rule) for rule in Rule}
    assert min(counts.values()) >= 1
    assert sum(counts.values()) > 200
