"""Every op of a graph and function of torch gives, computed by its name, what numpy gives when it is written out."""

import math

import numpy as np
import pytest

from parity.diagnose.ops.activations import FUNCTIONS, INVERSES, log_softmax, softmax
from parity.diagnose.ops.resize import resized
from parity.diagnose.ops.table import axes_of, computed, plain

RANDOM = np.random.default_rng(12)
X, Y = RANDOM.normal(size=(2, 3, 4)), RANDOM.normal(size=(2, 3, 4))
P, M, N = np.exp(X), RANDOM.normal(size=(3, 4)), RANDOM.normal(size=(4, 5))
MASK = RANDOM.random((2, 3, 4)) < 0.5
IMAGE = RANDOM.normal(size=(2, 3, 5, 4))  # channels first, or, of a graph, last
LABELS, SHARES = np.array([3, 0, 2]), np.array([[0.1, 0.2, 0.3, 0.4], [0, 1, 0, 0], [0.5, 0, 0, 0.5]])
FOUR, THREE, FIVE = (RANDOM.normal(size=count) for count in (4, 3, 5))
LOGS = M - np.log(np.exp(M).sum(-1, keepdims=True))
OWN = np.array([[0, 0, 0, 1], [1, 0, 0, 0], [0, 0, 1, 0]])
NAN = np.nan


def norm(x, axes, eps):
    mean = x.mean(axes, keepdims=True)
    return (x - mean) / (((x - mean) ** 2).mean(axes, keepdims=True) + eps) ** 0.5


def of_channels(vector):
    return np.asarray(vector)[:, None, None]


def chances(x):
    return 1 / (1 + np.exp(-x))


OPS = [
    ("Relu", [X], {}, X * (X > 0)),
    ("relu6", [9 * X], {}, np.minimum(9 * X * (X > 0), 6)),
    ("Sigmoid", [X], {}, 1 / (1 + np.exp(-X))),
    ("tanh_", [X], {}, (np.exp(2 * X) - 1) / (np.exp(2 * X) + 1)),
    ("Softplus", [X], {}, np.log(1 + np.exp(X))),
    ("Elu", [X], {}, np.where(X > 0, X, np.exp(X) - 1)),
    ("silu", [X], {}, X / (1 + np.exp(-X))),
    ("Exp", [np.log(P)], {}, P),
    ("Log", [P], {}, X),
    ("Log1p", [P - 1], {}, X),
    ("Expm1", [X], {}, P - 1),
    ("Neg", [X], {}, 0 - X),
    ("absolute", [X], {}, np.sqrt(X * X)),
    ("Square", [X], {}, X * X),
    ("Sqrt", [P * P], {}, P),
    ("Rsqrt", [P * P], {}, 1 / P),
    ("Reciprocal", [P], {}, np.exp(-X)),
    ("Sign", [X], {}, np.where(X > 0, 1, -1)),
    ("sin", [X], {}, np.imag(np.exp(1j * X))),
    ("cos", [X], {}, np.real(np.exp(1j * X))),
    ("Erf", [np.array([0.5, -1.0])], {}, [math.erf(0.5), math.erf(-1.0)]),
    ("gelu", [np.array([1.0, -2.0])], {}, [0.841344746068543, -0.045500263896358]),
    ("gelu", [np.array([1.0, -2.0])], {"approximate": "tanh"}, [0.841191990608276, -0.045402305912010]),
    ("LeakyRelu", [X], {"alpha": 0.2}, np.where(X > 0, X, 0.2 * X)),
    ("leaky_relu", [X], {}, np.where(X > 0, X, 0.01 * X)),
    ("leaky_relu", [X], {"1": 0.3}, np.where(X > 0, X, 0.3 * X)),
    ("leaky_relu", [X], {"negative_slope": 0.1}, np.where(X > 0, X, 0.1 * X)),
    ("AddV2", [X, Y], {}, X + Y),
    ("__radd__", [X, 2.0], {}, X + 2),
    ("sub", [X, Y], {}, X - Y),
    ("rsub", [X, 2.0], {}, 2 - X),
    ("multiply", [X, Y], {}, X * Y),
    ("RealDiv", [X, P], {}, X / P),
    ("__rtruediv__", [P, 3.0], {}, 3 / P),
    ("Maximum", [X, Y], {}, np.where(X > Y, X, Y)),
    ("Minimum", [X, Y], {}, np.where(X < Y, X, Y)),
    ("max", [X, Y], {}, np.where(X > Y, X, Y)),
    ("min", [X, Y], {}, np.where(X < Y, X, Y)),
    ("Pow", [P, 3.0], {}, P * P * P),
    ("SquaredDifference", [X, Y], {}, X * X - 2 * X * Y + Y * Y),
    ("add", [X, Y], {"alpha": 2}, None),
    ("MatMul", [M, N], {}, np.einsum("ij,jk->ik", M, N)),
    ("MatMul", [M.T, N], {"transpose_a": True}, M @ N),
    ("MatMul", [M, N.T], {"transpose_b": True, "transpose_a": False}, M @ N),
    ("BatchMatMulV2", [X, Y], {"adj_x": True}, np.einsum("nij,nik->njk", X, Y)),
    ("BatchMatMulV2", [X, Y], {"adj_y": True}, np.einsum("nij,nkj->nik", X, Y)),
    ("bmm", [X, Y.swapaxes(1, 2)], {}, np.einsum("nij,nkj->nik", X, Y)),
    ("Sum", [X, np.array([1])], {}, X[:, 0] + X[:, 1] + X[:, 2]),
    ("Sum", [X, np.array([0, 1])], {"keep_dims": True}, X.sum((0, 1))[None, None]),
    ("Mean", [X, np.array([-1])], {}, X.sum(2) / 4),
    ("mean", [X, 1], {"keepdim": True}, X.sum(1, keepdims=True) / 3),
    ("mean", [X], {"dim": [0, 2]}, X.sum((0, 2)) / 8),
    ("Sum", [X], {"axis": 0}, X[0] + X[1]),
    ("mean", [X], {}, X.sum() / 24),
    ("amax", [X, 2], {}, np.sort(X, 2)[..., -1]),
    ("Min", [X, np.array([2])], {}, np.sort(X, 2)[..., 0]),
    ("Prod", [X, np.array([0])], {}, X[0] * X[1]),
    ("Softmax", [X], {}, P / P.sum(2, keepdims=True)),
    ("softmax", [X], {"1": 1, "dim": 1}, P / P.sum(1, keepdims=True)),
    ("log_softmax", [X, 0], {}, X - np.log(P.sum(0))),
    ("LogSoftmax", [X], {}, X - np.log(P.sum(2, keepdims=True))),
    ("ConcatV2", [X, Y, np.int32(1)], {}, np.stack([X, Y], 1).reshape(2, 6, 4)),
    ("cat", [[X, Y], 1], {}, np.stack([X, Y], 1).reshape(2, 6, 4)),
    ("cat", [[X, Y]], {}, np.concatenate([X, Y])),
    ("cat", [[X, Y]], {"dim": 2}, np.stack([X, Y], 2).reshape(2, 3, 8)),
    ("Pack", [X, Y], {}, np.array([X, Y])),
    ("Pack", [X, Y], {"axis": 1}, np.array([X, Y]).transpose(1, 0, 2, 3)),
    ("stack", [[X, Y], 3], {}, np.array([X, Y]).transpose(1, 2, 3, 0)),
    ("stack", [[X, Y]], {}, np.array([X, Y])),
    ("stack", [[X, Y]], {"dim": 1}, np.array([X, Y]).transpose(1, 0, 2, 3)),
    ("AddN", [X, Y, P], {}, X + Y + P),
    ("L2Loss", [X], {}, sum(each * each / 2 for each in X.reshape(-1))),
    ("Cumsum", [X, np.int32(1)], {}, np.stack([X[:, 0], X[:, 0] + X[:, 1], X.sum(1)], 1)),
    ("Cumsum", [X, np.int32(1)], {"exclusive": True}, np.stack([0 * X[:, 0], X[:, 0], X[:, 0] + X[:, 1]], 1)),
    ("Cumsum", [X, np.int32(0)], {"reverse": True}, np.stack([X[0] + X[1], X[1]])),
    ("cumsum", [X], {"dim": 0}, np.stack([X[0], X[0] + X[1]])),
    ("logsumexp", [X, -1], {}, np.log(P.sum(2))),
    ("logsumexp", [X], {"dim": 1, "keepdim": True}, np.log(P.sum(1, keepdims=True))),
    ("norm", [X], {"dim": -1}, (X * X).sum(2) ** 0.5),
    ("norm", [X, 2, 1, True], {}, (X * X).sum(1, keepdims=True) ** 0.5),
    ("norm", [X], {}, (X * X).sum() ** 0.5),
    ("norm", [X], {"p": 1, "dim": -1}, None),
    ("Softsign", [X], {}, np.where(X > 0, X / (1 + X), X / (1 - X))),
    ("logsigmoid", [X], {}, np.log(1 / (1 + np.exp(-X)))),
    ("tril", [N], {}, N * (np.arange(4)[:, None] >= np.arange(5))),
    ("triu", [N, 1], {}, N * (np.arange(4)[:, None] < np.arange(5))),
    ("MatrixBandPart", [N, np.int64(-1), np.int64(0)], {}, N * (np.arange(4)[:, None] >= np.arange(5))),
    ("MatrixBandPart", [N, np.int64(1), np.int64(-1)], {}, N * (np.arange(4)[:, None] <= np.arange(5) + 1)),
    ("SelectV2", [MASK, X, Y], {}, X * MASK + Y * ~MASK),
    ("where", [MASK.astype(float), X, -np.inf], {}, X + np.where(MASK, 0, -np.inf)),
    ("Select", [np.array([True, False]), X, Y], {}, np.array([X[0], Y[1]])),
    ("masked_fill", [X, MASK, -7.0], {}, X * ~MASK - 7 * MASK),
    ("masked_fill", [X, MASK], {"value": 2}, X * ~MASK + 2 * MASK),
    ("ClipByValue", [X, -0.5, 0.25], {}, np.minimum(np.maximum(X, -0.5), 0.25)),
    ("clamp", [X, 0.1], {}, np.maximum(X, 0.1)),
    ("clamp", [X], {"max": 0.1}, np.minimum(X, 0.1)),
    ("clamp", [X, None, 0.1], {"min": -0.1}, np.minimum(np.maximum(X, -0.1), 0.1)),
    ("GatherV2", [N, np.array([[2, 0]]), np.int32(0)], {}, N[[2, 0]][None]),
    ("GatherV2", [N, np.array([4, 1]), np.int32(1)], {"batch_dims": 0}, np.stack([N[:, 4], N[:, 1]], 1)),
    ("ResourceGather", [N, np.array([1.0])], {}, N[1][None]),
    ("GatherV2", [X, np.array([[0], [1]]), np.int32(1)], {"batch_dims": 1}, None),
    ("embedding", [N, np.array([[3, 3], [0, 1]])], {}, np.array([[N[3], N[3]], [N[0], N[1]]])),
    ("gather", [N, 1, np.array([[2, 0], [4, 4]])], {}, np.array([[N[0, 2], N[0, 0]], [N[1, 4], N[1, 4]]])),
    ("gather", [N, None, np.array([[3, 1, 0]])], {"dim": -2}, np.array([[N[3, 0], N[1, 1], N[0, 2]]])),
    ("one_hot", [LABELS], {"num_classes": 4}, OWN),
    ("OneHot", [LABELS, np.int32(4), 0.9, 0.1], {}, 0.1 + 0.8 * OWN),
    ("Cast", [MASK], {}, MASK),
    ("StopGradient", [X], {}, X),
    ("LogicalAnd", [MASK, X > 0], {}, MASK * (X > 0)),
    ("or", [MASK, X > 0], {}, MASK + (X > 0)),
    ("LogicalNot", [MASK], {}, 1 - MASK),
    ("Equal", [LABELS, np.array([3, 1, 2])], {}, [True, False, True]),
    ("ne", [LABELS, np.array([3, 1, 2])], {}, [False, True, False]),
    ("Greater", [LABELS, 2], {}, [True, False, False]),
    ("ge", [LABELS, 2], {}, [True, False, True]),
    ("Less", [LABELS, 2], {}, [False, True, False]),
    ("le", [LABELS, 2], {}, [False, True, True]),
    ("scores", [X, Y], {}, np.einsum("nij,nkj->nik", X, Y)),
    ("scaled_dot_product_attention", [X, N], {}, np.einsum("nij,jk->nik", X, N)),
    ("linear", [X, N.T, FIVE], {}, np.einsum("nij,jk->nik", X, N) + FIVE),
    ("linear", [X @ N, FIVE], {}, X @ N + FIVE),
    ("linear without bias", [X, N.T], {}, X @ N),
    ("einsum", ["ij, jk -> ik", M, N], {}, M @ N),
    ("Einsum", [M, N], {"equation": "ij,jk->ki"}, (M @ N).T),
    ("Tile", [M, np.array([2, 1])], {}, np.concatenate([M, M])),
    ("layer_norm", [X], {"1": [4]}, norm(X, 2, 1e-5)),
    ("layer_norm", [X, [3, 4]], {"eps": 0.1}, norm(X, (1, 2), 0.1)),
    ("layer_norm", [X, 4, FOUR, FOUR + 1, 0.2], {}, norm(X, 2, 0.2) * FOUR + FOUR + 1),
    ("batch_norm", [IMAGE], {"5": True, "training": True}, norm(IMAGE, (0, 2, 3), 1e-5)),
    (
        "batch_norm",
        [IMAGE, None, None, THREE, THREE + 1, True, 0.1, 0.2],
        {},
        norm(IMAGE, (0, 2, 3), 0.2) * of_channels(THREE) + of_channels(THREE + 1),
    ),
    (
        "batch_norm",
        [IMAGE, THREE, THREE**2],
        {"eps": 0.1},
        (IMAGE - of_channels(THREE)) / np.sqrt(of_channels(THREE) ** 2 + 0.1),
    ),
    ("FusedBatchNormV3", [IMAGE, FOUR, FOUR + 1], {"epsilon": 0.1}, norm(IMAGE, (0, 1, 2), 0.1) * FOUR + FOUR + 1),
    ("FusedBatchNorm", [IMAGE, FOUR, FOUR + 1], {}, norm(IMAGE, (0, 1, 2), 1e-3) * FOUR + FOUR + 1),
    (
        "FusedBatchNormV2",
        [IMAGE, FOUR, FOUR + 1, FOUR + 2, FOUR**2],
        {"epsilon": 0.1, "is_training": False},
        (IMAGE - FOUR - 2) / np.sqrt(FOUR**2 + 0.1) * FOUR + FOUR + 1,
    ),
    ("masked scores", [X], {}, np.where(np.arange(3)[:, None] >= np.arange(4), X, -np.inf)),
    ("masked scores", [X, MASK], {}, np.where(MASK, X, -np.inf)),
    ("masked scores", [X, Y], {}, X + Y),
    ("SparseSoftmaxCrossEntropyWithLogits", [M, LABELS], {}, [-LOGS[0, 3], -LOGS[1, 0], -LOGS[2, 2]]),
    ("SoftmaxCrossEntropyWithLogits", [M, SHARES], {}, -(LOGS * SHARES).sum(1)),
    ("mse_loss of each", [X, Y], {}, X * X - 2 * X * Y + Y * Y),
    ("l1_loss of each", [X, Y], {}, np.sqrt((X - Y) ** 2)),
    ("smooth_l1_loss of each", [np.array([0.5, -3.0]), 0.0], {}, [0.125, 2.5]),
    ("smooth_l1_loss of each", [np.array([0.5, -3.0]), 0.0], {"beta": 2.0}, [0.0625, 2.0]),
    ("huber_loss of each", [np.array([0.5, -3.0]), 0.0], {}, [0.125, 2.5]),
    ("huber_loss of each", [np.array([0.5, -3.0]), 0.0], {"delta": 2.0}, [0.125, 4.0]),
    (
        "binary_cross_entropy_with_logits of each",
        [M, SHARES],
        {},
        -SHARES * np.log(chances(M)) - (1 - SHARES) * np.log(chances(-M)),
    ),
    *((f"{name}_loss", [X], {"2": 1}, X.mean()) for name in ("mse", "l1", "smooth_l1", "huber")),
    ("mse_loss", [X], {}, X.mean()),
    ("mse_loss", [X], {"reduction": "sum"}, X.sum()),
    ("l1_loss", [X], {"2": 2}, X.sum()),
    ("cross_entropy_loss", [X], {"3": 2}, X.sum()),
    ("cross_entropy_loss", [X], {}, X.mean()),
    ("mse_loss", [X], {"reduction": "batchmean"}, None),
    ("binary_cross_entropy_with_logits", [X], {"3": 2}, X.sum()),
    ("unheard of", [X], {}, None),
    ("MatMul", [M, M], {}, None),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "arguments", "attributes", "wanted"), OPS)
def test_an_op_gives_what_is_written_out(kind, arguments, attributes, wanted):
    made = computed(kind, arguments, attributes)
    if wanted is None:
        assert made is None
    else:
        assert made.shape == np.shape(wanted)
        np.testing.assert_allclose(np.asarray(made, float), np.asarray(wanted, float), 1e-11, 1e-12)


def rounded(argument, kind):
    """An argument whose numbers are float32's, in another format."""
    if isinstance(argument, list):
        return [rounded(each, kind) for each in argument]
    floats = isinstance(argument, np.ndarray) and argument.dtype.kind == "f"
    return argument.astype(np.float32).astype(kind) if floats else argument


@pytest.mark.parametrize(("kind", "arguments", "attributes"), [op[:3] for op in OPS if op[3] is not None])
def test_what_was_recorded_in_float32_is_computed_in_float64(kind, arguments, attributes):
    short, long = (computed(kind, [rounded(each, of) for each in arguments], attributes) for of in ("f4", "f8"))
    np.testing.assert_array_equal(short, long)


def test_a_cross_entropy_smooths_labels_and_leaves_out_what_is_ignored():
    smooth = 0.9 * -LOGS[[0, 1, 2], LABELS] - 0.1 * LOGS.mean(1)
    each = computed("cross_entropy_loss of each", [M, LABELS], {"label_smoothing": 0.1})
    np.testing.assert_allclose(each, smooth)
    np.testing.assert_allclose(computed("cross_entropy_loss of each", [M, LABELS, None, None, None, 0.1], {}), smooth)
    for ignored, attributes in ((2, {"4": 2, "ignore_index": 2}), (-100, {})):
        labels = np.where(LABELS == 2, ignored, LABELS)
        each = computed("cross_entropy_loss of each", [M, labels], {**attributes, "label_smoothing": 0.1})
        np.testing.assert_allclose(each, [*smooth[:2], 0.0])
    mixed = computed("cross_entropy_loss of each", [M, SHARES], {"label_smoothing": 0.1})
    np.testing.assert_allclose(mixed, -0.9 * (LOGS * SHARES).sum(1) - 0.1 * LOGS.mean(1))
    images = computed("cross_entropy_loss of each", [X, np.array([[0, 1, 2, 1], [2, 2, 0, 1]])], {})
    np.testing.assert_allclose(images[1, 2], np.log(P[1, :, 2].sum()) - X[1, 0, 2])
    for none in ({"reduction": "none"}, {"reduction": 0}, {"3": 0}):
        np.testing.assert_allclose(computed("cross_entropy_loss", [M, LABELS], none), -LOGS[[0, 1, 2], LABELS])


@pytest.mark.parametrize(
    ("begin", "end", "steps", "masks", "wanted"),
    [
        ([0, 1, 0], [2, 3, 4], [1, 1, 2], {}, X[0:2, 1:3, 0:4:2]),
        ([1, 1, 2], [1, 2, 3], [1, 1, 1], {"begin_mask": 1, "end_mask": 4}, X[:1, 1:2, 2:]),
        ([0, 2], [0, 0], [1, 1], {"begin_mask": 1, "end_mask": 1, "shrink_axis_mask": 2}, X[:, 2]),
        ([0, 0, 1], [0, 0, 3], [1, 1, 1], {"new_axis_mask": 2, "begin_mask": 1, "end_mask": 1}, X[:, None, 1:3]),
        ([0, 3], [0, 0], [1, -1], {"begin_mask": 1, "end_mask": 3}, X[:, ::-1]),
        ([0, 0], [1, 1], [1, 1], {"ellipsis_mask": 1}, None),
    ],
)
def test_a_strided_slice_reads_its_masks_bit_by_bit(begin, end, steps, masks, wanted):
    made = computed("StridedSlice", [X, np.array(begin), np.array(end), np.array(steps)], masks)
    assert made is None if wanted is None else np.array_equal(made, wanted)


def test_names_of_both_sides_are_one():
    assert {plain(kind) for kind in ("AddV2", "BiasAdd", "__radd__", "iadd_", "add")} == {"add"}
    assert {plain(kind) for kind in ("BatchMatMulV2", "bmm", "mm", "MatMul")} == {"matmul"}
    assert plain("Unheard_Of") == "unheard_of"


def test_axes_are_named_or_follow_the_array_or_are_all():
    assert axes_of([X, 2], {"dim": 1}) == (1,) and axes_of([X, np.array([2, 0])], {}) == (2, 0)
    assert axes_of([X], {"axis": [0, -1]}) == (0, -1)
    assert axes_of([X], {}) is None and axes_of([X, Y], {}) is None and axes_of([X, None], {}) is None


def test_a_softmax_of_huge_numbers_does_not_overflow_and_goes_over_several_axes_together():
    huge = np.array([[1e4, 1e4 - 1.0], [-1e4, 0.0]])
    share = 1 / (1 + np.exp(-1))
    np.testing.assert_allclose(softmax(huge, 1), [[share, 1 - share], [0, 1]])
    np.testing.assert_allclose(log_softmax(huge, 1)[0], np.log([share, 1 - share]))
    np.testing.assert_allclose(softmax(X, (1, 2)), P / P.sum((1, 2), keepdims=True))
    assert np.isnan(softmax(np.full(3, -np.inf), 0)).all(), "as in both frameworks where all is masked"


def test_what_was_before_a_function_is_told_where_it_can_be():
    x = np.array([-30.0, -2.0, 0.0, 0.5, 3.0, 30.0])
    told = {name: INVERSES[name](FUNCTIONS[name](x)) for name in INVERSES}
    np.testing.assert_allclose(told["no activation"], x)
    np.testing.assert_allclose(told["ReLU"], [NAN, NAN, NAN, 0.5, 3.0, 30.0])
    np.testing.assert_allclose(told["tanh"], [NAN, -2.0, 0.0, 0.5, 3.0, NAN], 1e-9)
    np.testing.assert_allclose(told["sigmoid"], [NAN, -2.0, 0.0, 0.5, 3.0, NAN], 1e-9, 1e-15)
    for name, one, near in (("tanh", 1.0, 2e-6), ("sigmoid", 1.0, 2e-6), ("sigmoid", 0.0, -2e-6)):
        ends = INVERSES[name](np.array([one - near, one - near / 4]))
        assert np.isfinite(ends[0]) and np.isnan(ends[1]), (
            "nearer to its limit rounding tells more than what was before"
        )


def test_activations_where_their_pieces_meet():
    at = np.array([-9.0, -3.0, -1.0, 0.0, 1.0, 3.0, 9.0])
    np.testing.assert_allclose(FUNCTIONS["hard sigmoid"](at), [0, 0, 1 / 3, 0.5, 2 / 3, 1, 1])
    np.testing.assert_allclose(FUNCTIONS["ReLU6"](at), [0, 0, 0, 0, 1, 3, 6])
    np.testing.assert_allclose(FUNCTIONS["ELU"](at)[[0, 2, 3, 6]], [np.exp(-9) - 1, np.exp(-1) - 1, 0, 9])
    np.testing.assert_allclose(FUNCTIONS["softplus"](1e4 * at)[[0, 3, 6]], [0, np.log(2), 9e4])
    np.testing.assert_allclose(FUNCTIONS["sigmoid"](1e4 * at)[[0, 3, 6]], [0, 0.5, 1])


def test_the_ways_of_resizing_lay_new_pixels_among_the_old_ones():
    """A row of 0, 10, 20, 30 made six wide, and two high of one."""
    row = np.array([0.0, 10.0, 20.0, 30.0]).reshape(1, 1, 4, 1)
    made = {words: each[0, :, :, 0] for words, each in resized(row, (2, 6))}
    third = 20.0 / 3
    wanted = {
        "bilinear from the first corner on": [third * at for at in range(5)] + [30.0],
        "bilinear between the centres of pixels": [0.0, 5.0, 35 / 3, 55 / 3, 25.0, 30.0],
        "bilinear with aligned corners": [6.0 * at for at in range(6)],
        "one pixel each from the first corner on, rounded down": [0, 0, 10, 20, 20, 30],
        "one pixel each from the first corner on, to the nearest": [0, 10, 10, 20, 30, 30],
        "one pixel each between the centres of pixels, rounded down": [0, 0, 10, 10, 20, 30],
        "one pixel each between the centres of pixels, to the nearest": [0, 10, 10, 20, 30, 30],
        "one pixel each with aligned corners, rounded down": [0, 0, 10, 10, 20, 30],
        "one pixel each with aligned corners, to the nearest": [0, 10, 10, 20, 20, 30],
    }
    assert list(made) != [] and set(made) == set(wanted)
    for words, values in wanted.items():
        np.testing.assert_allclose(made[words], [values] * 2, 1e-12, 1e-9, err_msg=words)
    for words, each in resized(np.moveaxis(row, 2, 1), (6, 2)):
        np.testing.assert_allclose(each[0, :, :, 0].T, [wanted[words]] * 2, 1e-12, 1e-9, err_msg=words)
    single = dict(resized(row, (1, 1)))
    assert float(single["bilinear with aligned corners"].item()) == 0.0
    assert float(single["bilinear between the centres of pixels"].item()) == 15.0


def test_blocks_of_pixels_are_channels_by_their_rows_then_their_columns():
    image = np.arange(2 * 4 * 6 * 3.0).reshape(2, 4, 6, 3)
    deep = computed("SpaceToDepth", [image], {"block_size": 2})
    assert deep.shape == (2, 2, 3, 12)
    for row, column, channel in ((0, 0, 0), (0, 1, 2), (1, 0, 1), (1, 1, 2)):
        assert (deep[..., (2 * row + column) * 3 + channel] == image[:, row::2, column::2, channel]).all()
    assert (computed("DepthToSpace", [deep], {"block_size": 2}) == image).all()


def test_what_takes_fewer_channels_than_its_kernel_reads_is_not_computed():
    """A change of a pass may leave out what is joined."""
    kernel = RANDOM.normal(size=(3, 3, 8, 2))
    attributes = {"strides": [1, 1, 1, 1], "padding": "SAME"}
    assert computed("Conv2D", [IMAGE, kernel], attributes) is None
    assert computed("Conv2D", [np.concatenate([IMAGE, IMAGE], -1), kernel], attributes) is not None


@pytest.mark.parametrize(
    ("name", "values"),
    [
        # Of torch.nn.functional, at -4, -1, 0, 1, 4.
        ("hard swish", [0.0, -0.3333333333333333, 0.0, 0.6666666666666666, 4.0]),
        ("Mish", [-0.07259174079202535, -0.30340146137410895, 0.0, 0.8650983882673103, 3.9974128069762385]),
        ("SELU", [-1.7258986281898945, -1.1113307378125625, 0.0, 1.0507009873554805, 4.202803949421922]),
    ],
)
def test_rarer_activations_are_what_torch_computes(name, values):
    np.testing.assert_allclose(FUNCTIONS[name](np.array([-4.0, -1.0, 0.0, 1.0, 4.0])), values, 1e-12, 1e-15)
