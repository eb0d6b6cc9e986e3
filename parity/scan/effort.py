"""How much work a port is: what `parity port` takes as it is, by its own tables, and what it does not."""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from parity.scan.inventory.facts import optimizers
from parity.scan.inventory.program import Code, Program, Use
from parity.scan.model.places import place_of
from parity.scan.model.repository import source_of
from parity.scan.result import Effort, Fact, Finding, Severity

# The ops that a function of several makes; of all others the op is called as the function is.
OPS_OF_CALLS: dict[str, tuple[str, ...]] = {
    "dropout": ("RandomUniform", "Mul"),
    "moments": ("Mean", "SquaredDifference"),
    "batch_normalization": ("FusedBatchNormV3",),
    "batch_norm": ("FusedBatchNormV3",),
    "fused_batch_norm": ("FusedBatchNormV3",),
    "batch_norm_with_global_normalization": ("Rsqrt", "Mul"),
    "conv2d": ("Conv2D",),
    "convolution2d": ("Conv2D",),
    "convolution": ("Conv2D",),
    "conv1d": ("Conv2D", "ExpandDims"),
    "conv3d": ("Conv3D",),
    "conv2d_transpose": ("Conv2DBackpropInput",),
    "depthwise_conv2d": ("DepthwiseConv2dNative",),
    "separable_conv2d": ("DepthwiseConv2dNative", "Conv2D"),
    "separable_convolution2d": ("DepthwiseConv2dNative", "Conv2D"),
    "atrous_conv2d": ("Conv2D", "SpaceToBatchND"),
    "max_pool2d": ("MaxPool",),
    "avg_pool2d": ("AvgPool",),
    "max_pooling2d": ("MaxPool",),
    "average_pooling2d": ("AvgPool",),
    "max_pooling1d": ("MaxPool",),
    "dense": ("MatMul", "BiasAdd"),
    "fully_connected": ("MatMul", "BiasAdd"),
    "xw_plus_b": ("MatMul", "BiasAdd"),
    "tensordot": ("MatMul",),
    "embedding_lookup": ("GatherV2",),
    "flatten": ("Reshape",),
    "local_response_normalization": ("LRN",),
    "sparse_softmax_cross_entropy": ("SparseSoftmaxCrossEntropyWithLogits",),
    "softmax_cross_entropy": ("SoftmaxCrossEntropyWithLogits",),
    "softmax_cross_entropy_with_logits_v2": ("SoftmaxCrossEntropyWithLogits",),
    "sigmoid_cross_entropy_with_logits": ("Log1p", "Exp", "Select"),
    "sigmoid_cross_entropy": ("Log1p", "Exp", "Select"),
    "weighted_cross_entropy_with_logits": ("Log1p", "Exp"),
    "mean_squared_error": ("SquaredDifference", "Mean"),
    "absolute_difference": ("Abs", "Mean"),
    "l2_normalize": ("Rsqrt", "Sum", "Mul"),
    "crelu": ("Relu", "ConcatV2"),
    "swish": ("Sigmoid", "Mul"),
    "log_softmax": ("LogSoftmax",),
    "zero_fraction": (),
    "in_top_k": (),
    "in_top_kv2": (),
    "dynamic_rnn": ("DynamicRnn",),
    "static_rnn": ("MatMul",),
    "bidirectional_dynamic_rnn": ("DynamicRnn",),
    "BasicLSTMCell": ("MatMul",),
    "LSTMCell": ("MatMul",),
    "GRUCell": ("MatMul",),
    "BasicRNNCell": ("MatMul",),
    "MultiRNNCell": ("MatMul",),
    "DropoutWrapper": ("RandomUniform",),
    "LSTMStateTuple": (),
    "sampled_softmax_loss": ("MatMul", "ComputeAccidentalHits"),
    "raw_rnn": ("While",),
    "layer_norm": ("Rsqrt",),
    "top_k": ("TopKV2",),
    "space_to_depth": ("SpaceToDepth",),
    "elu": ("Elu",),
}
# Names behind tf.nn. and tf.layers. that make no op of a tower.
NO_OPS = frozenset(
    [
        "arg_scope",
        "add_arg_scope",
        "l2_regularizer",
        "l1_regularizer",
        "xavier_initializer",
        "variance_scaling_initializer",
        "xavier_initializer_conv2d",
        "get_variables",
        "model_variable",
        "variable",
        "variable_scope",
        "repeat",
        "stack",
        "utils",
        "one_hot_encoding",
        "summarize_activation",
        "optimize_loss",
        "get_regularization_losses",
        "rnn_cell",
        "static_state_saving_rnn",
        "nce_loss",
    ]
) - {"nce_loss"}
LAYER_NAMESPACES = (
    "tf.nn.",
    "tf.layers.",
    "slim.",
    "tf.contrib.layers.",
    "tf.contrib.rnn.",
    "tf.nn.rnn_cell.",
    "keras.layers.",
)
CONTRIB_TAKEN = ("tf.contrib.layers", "tf.contrib.rnn", "tf.contrib.slim", "tf.contrib.framework", "tf.contrib.opt")
MOST_REASONS_SHOWN = 12
MOST_SMALL_REASONS = 2


def efforts_of(code: Code, findings: Sequence[Finding]) -> list[Effort]:
    """Returns the effort of each file that builds towers, by its name."""
    by_path: dict[str, list[Program]] = {}
    for program in code.programs:
        by_path.setdefault(program.loop.module.path.as_posix(), []).append(program)
    return [_effort(path, programs, findings) for path, programs in sorted(by_path.items())]


def _effort(path: str, programs: Sequence[Program], findings: Sequence[Finding]) -> Effort:
    hard = list(_each_named_once(fact for program in programs for fact in _hard(program)))
    some = list(_each_named_once(fact for program in programs for fact in _some(program)))
    for each in findings:
        if each.severity == Severity.ERROR and each.place.path == path:
            some.append(Fact("what the script does is no mean over shards", f"{each.rule}: {each.message}", each.place))
    size = "L" if hard else "M" if len(some) > MOST_SMALL_REASONS else "S"
    taken = sorted({name for program in programs for name in _layers(program, True)})
    return Effort(path, size, tuple([*hard, *some][:MOST_REASONS_SHOWN]), tuple(taken))


def _each_named_once(facts: Iterable[Fact]) -> Iterator[Fact]:
    seen: set[tuple[str, str]] = set()
    for fact in facts:
        if fact[:2] not in seen:
            seen.add(fact[:2])
            yield fact


def _hard(program: Program) -> Iterator[Fact]:
    for use in program.uses:
        if use.last in ("load_op_library", "load_library"):
            yield Fact("ops of its own", source_of(use.call), place_of(use.call, use.module))
        elif use.last in ("py_func", "py_function") and program.is_in_towers(use.call):
            yield Fact("a Python function in a tower", source_of(use.call), place_of(use.call, use.module))
        elif use.last in ("gradient_override_map", "RegisterGradient"):
            yield Fact("a gradient of its own", source_of(use.call), place_of(use.call, use.module))
        elif use.name.startswith("tf.contrib.") and program.is_in_towers(use.call):
            contrib = ".".join(use.name.split(".")[:3])
            if contrib not in CONTRIB_TAKEN:
                yield Fact("a contrib module", contrib, place_of(use.call, use.module))
    for name, use in _unwritten(program).items():
        yield Fact("an op that is written by hand", name, place_of(use.call, use.module))


def _some(program: Program) -> Iterator[Fact]:
    made = [use for use in optimizers(program) if use.module is program.loop.module]
    if len({use.last for use in made}) > 1:
        yield Fact(
            "several optimizers", ", ".join(sorted({use.last for use in made})), place_of(made[0].call, made[0].module)
        )
    for use in program.uses:
        if (
            use.last in ("while_loop", "raw_rnn", "cond", "case")
            and use.name.startswith("tf.")
            and program.is_in_towers(use.call)
        ):
            yield Fact("loops or branches in the graph", use.name, place_of(use.call, use.module))
        elif use.name.startswith("keras.") and program.is_in_towers(use.call):
            yield Fact("layers of Keras", "keras", place_of(use.call, use.module))
    if program.combiner is None or not program.combiner.kind:
        yield Fact("how towers are combined", "is not decided from the source")


def _layers(program: Program, written: bool) -> Iterator[str]:
    for use in program.uses:
        ops = ops_of_call(use)
        if ops is not None and program.is_in_towers(use.call) and all(is_written(op) for op in ops) == written:
            yield use.name


def _unwritten(program: Program) -> dict[str, Use]:
    return {
        use.name: use
        for use in reversed(program.uses)
        if program.is_in_towers(use.call)
        and (ops := ops_of_call(use)) is not None
        and not all(is_written(op) for op in ops)
    }


def ops_of_call(use: Use) -> tuple[str, ...] | None:
    """Returns the types of ops that a call of TensorFlow's layers makes, None of what is none of them."""
    if use.last in NO_OPS or use.last.startswith(("assert", "static_", "with_")):
        return None
    if use.name.startswith(LAYER_NAMESPACES):
        return OPS_OF_CALLS.get(use.last, (use.last,))
    return None


def is_written(op: str) -> bool:
    """Whether `parity port` writes an op, by its type or by the name of its function."""
    return _plain(op) in _written_ops()


@lru_cache(maxsize=1)
def _written_ops() -> frozenset[str]:
    # Here, for the port's tables import numpy and take a while; all of its rules are in by this import.
    import parity.port.source.program  # noqa: F401
    from parity.port.source.writer import STATEMENTS, WRITERS

    return frozenset(_plain(name) for name in (*WRITERS, *STATEMENTS))


def _plain(name: str) -> str:
    """A type or a function's name, as both are written: `ConcatV2` and `concat`, `Mean` and `reduce_mean`."""
    return re.sub(r"v\d$", "", name.replace("_", "").lower()).removeprefix("reduce")
