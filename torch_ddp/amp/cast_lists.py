"""Which torch functions run in half precision, which in float32, and which in the widest type among their arguments.

The names are those of `apex/amp/lists/` (tag 25.04); the batched products, which Apex listed from CUDA 9.1 on, are
always listed here. `ADDED_HALF` holds what Apex never knew, as CUDA autocast treats it.
"""

from collections.abc import Callable, Iterator
from enum import Enum, auto
from typing import Any

import torch


def _words(text: str) -> list[str]:
    return text.split()


class Rule(Enum):
    """Says what happens to the floating point arguments of a function; float64 is never cast, except to promote."""

    HALF = auto()
    FLOAT = auto()
    WIDEST = auto()
    LIKE_FIRST = auto()
    NO_HALF = auto()
    BANNED = auto()


# Products and convolutions: sums of many terms, which tensor cores take in half and add up in float32.
CONVOLUTION_NAMES = _words("conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d conv_tbc")
FUNCTIONAL_HALF = [*CONVOLUTION_NAMES, "linear"]
TORCH_HALF = [*CONVOLUTION_NAMES, *_words("prelu addmm addmv addr matmul mm mv addbmm baddbmm bmm")]
# The functions behind LSTM, GRU and their cells, which Apex wraps one by one.
RECURRENT_HALF = _words("lstm gru rnn_tanh rnn_relu lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell")
# Left alone they would run in float32 between half products, or fail for arguments of two dtypes, as under Apex
# itself.
ADDED_HALF = {"functional": ["scaled_dot_product_attention"], "torch": ["einsum"]}

# What has exponentials, logarithms or long sums, whose results leave the range of float16 (6e-8 to 65504) or its 11
# bits. CPU autocast runs many of these in float16 where CUDA and Apex do not: exp, pow, sum, softmax, layer_norm.
FUNCTIONAL_FLOAT = _words(
    "interpolate grid_sample softplus softmin log_softmax softmax gelu layer_norm group_norm local_response_norm "
    "normalize cosine_similarity poisson_nll_loss cosine_embedding_loss cross_entropy hinge_embedding_loss kl_div "
    "l1_loss mse_loss margin_ranking_loss multilabel_margin_loss multilabel_soft_margin_loss multi_margin_loss "
    "nll_loss binary_cross_entropy_with_logits smooth_l1_loss soft_margin_loss triplet_margin_loss ctc_loss"
)
TORCH_FLOAT = _words(
    "acos asin cosh erfinv exp expm1 log log10 log2 reciprocal rsqrt sinh tan pow cumprod cumsum dist norm prod std "
    "sum var renorm"
)
TENSOR_FLOAT = [*TORCH_FLOAT, "__ipow__", "__pow__", "__rpow__", "cpu"]

# Functions of several arguments, which get one dtype; Apex lists cat and stack apart, as their arguments are
# sequences.
TORCH_WIDEST = _words("addcdiv addcmul atan2 cross bilinear dot add div mul eq equal ge gt le lt ne cat stack")
# x - y arrives as Tensor.sub and 1 - x as Tensor.__rsub__: Apex lists the operators, not torch.sub.
OPERATORS = _words(
    "__add__ __div__ __eq__ __ge__ __gt__ __le__ __lt__ __mul__ __ne__ __radd__ __rdiv__ __rmul__ __rsub__ "
    "__rtruediv__ __sub__ __truediv__ sub"
)
TENSOR_WIDEST = [*TORCH_WIDEST, *OPERATORS]
# x -= y and x /= y arrive as these methods.
IN_PLACE = _words("sub_ div_ __iadd__ __idiv__ __imul__ __isub__ __itruediv__")

# Its gradient, 1 / p, overflows float16 for p below 1.5e-5, and a loss scale only makes it larger.
BANNED = {
    "binary_cross_entropy": "Use torch.nn.BCEWithLogitsLoss in place of a sigmoid and BCELoss, or call "
    "amp.register_float_function(torch, 'sigmoid') before amp.initialize, or pass allow_banned=True to compute it in "
    "float32.",
}


def rules() -> dict[Callable[..., Any], Rule]:
    """Returns the rule of every listed function that this torch has, by the object a function mode gets to see."""
    table: dict[Callable[..., Any], Rule] = {}
    for namespace, names, rule in _lists():
        for name in names:
            function = getattr(namespace, name, None)
            if callable(function):
                # By the function object: the same one reached by another name, torch.nn.functional.linear and
                # torch._C._nn.linear, is found too. Names that this torch lacks are passed over.
                table[function] = rule
    return table


def _lists() -> Iterator[tuple[object, list[str], Rule]]:
    functional = torch.nn.functional
    # In-place forms first: a later entry for the same function takes precedence.
    for namespace in (torch, torch.Tensor):
        yield namespace, [f"{name}_" for name in [*TORCH_HALF, *TORCH_WIDEST]], Rule.LIKE_FIRST
        yield namespace, [f"{name}_" for name in TORCH_FLOAT], Rule.NO_HALF
    yield torch.Tensor, IN_PLACE, Rule.LIKE_FIRST
    yield functional, [*FUNCTIONAL_HALF, *ADDED_HALF["functional"]], Rule.HALF
    yield torch, [*TORCH_HALF, *RECURRENT_HALF, *ADDED_HALF["torch"]], Rule.HALF
    yield torch.Tensor, [*TORCH_HALF, "__matmul__"], Rule.HALF
    yield functional, FUNCTIONAL_FLOAT, Rule.FLOAT
    yield torch, TORCH_FLOAT, Rule.FLOAT
    yield torch.Tensor, TENSOR_FLOAT, Rule.FLOAT
    yield torch, TORCH_WIDEST, Rule.WIDEST
    yield torch.Tensor, TENSOR_WIDEST, Rule.WIDEST
    yield functional, list(BANNED), Rule.BANNED
