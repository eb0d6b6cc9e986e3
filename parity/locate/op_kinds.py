"""Tells whether an op of a graph and a function of torch do the same kind of thing."""

from parity.trace import ForwardOp

# Names in lower case, without what only says how it is done.
POOLING = (
    {"maxpool", "maxpoolv2", "max_pool2d", "max_pool2d_with_indices", "max_pool1d", "max_pool3d"},
    {"avgpool", "avg_pool2d", "avg_pool1d", "adaptive_avg_pool2d"},
)
OP_FAMILIES = (
    *POOLING,
    {
        "matmul",
        "batchmatmul",
        "batchmatmulv2",
        "linear",
        "bmm",
        "mm",
        "addmm",
        "baddbmm",
        "einsum",
        "scores",
        "tensordot",
    },
    {"conv1d", "conv2d", "conv3d", "depthwiseconv2dnative"},
    {"conv2dbackpropinput", "conv_transpose2d", "conv_transpose1d", "conv_transpose3d"},
    {"add", "addv2", "biasadd", "sub", "masked scores", "masked_fill", "addn"},
    {"mul", "realdiv", "div", "truediv", "divide", "multiply", "scaled scores"},
    {"logsoftmax", "log_softmax"},
    {"leakyrelu", "leaky_relu"},
    {"gatherv2", "resourcegather", "gather", "embedding"},
)


REDUCING = frozenset(
    ["mean", "sum", "max", "min", "prod", "var_mean", "var", "std_mean", "std", "norm", "argmax", "argmin"]
)

# What may be done in any order, with what turns one of it round: sums and differences, products and quotients.
ANY_ORDER = (
    frozenset(["add", "addn", "addv2", "sub", "rsub", "neg"]),
    frozenset(["mul", "div", "realdiv", "truediv", "rdiv", "multiply", "divide"]),
)

PICKING = frozenset(
    [
        "chunk",
        "gather",
        "gathernd",
        "gatherv2",
        "getitem",
        "index_select",
        "narrow",
        "select",
        "slice",
        "split",
        "split_with_sizes",
        "splitv",
        "stridedslice",
        "unbind",
        "unpack",
        "unstack",
    ]
)
JOINING = frozenset(["cat", "concat", "concatenate", "concatv2", "hstack", "pack", "stack", "vstack"])


def joins(op: ForwardOp) -> bool:
    """Whether an op only puts together what it takes."""
    return _plain(op.kind) in JOINING


def picks(op: ForwardOp) -> bool:
    """Whether an op hands on a part of what it takes: it may be the same though the rest is not."""
    return _plain(op.kind) in PICKING


def any_order(op: ForwardOp) -> int | None:
    """Returns which of the kinds an op is that may be done in any order, 0 of sums and 1 of products; None for others."""
    return next((number for number, kinds in enumerate(ANY_ORDER) if _plain(op.kind) in kinds), None)


def reduces(op: ForwardOp) -> bool:
    """Whether an op makes few numbers of many by a rule of its own: they may be the same though the many are not."""
    return _plain(op.kind) in REDUCING


def same_kind(reference: ForwardOp, candidate: ForwardOp) -> bool:
    """Whether two ops are of one kind; where nothing is known of them, by their names."""
    return same(reference.kind, candidate.kind)


def same(reference: str, candidate: str) -> bool:
    """Whether two names of ops are of one kind."""
    one, other = _plain(reference), _plain(candidate)
    return one == other or any(one in family and other in family for family in OP_FAMILIES)


def _plain(kind: str) -> str:
    return kind.lower().removesuffix(" without bias").strip("_")
