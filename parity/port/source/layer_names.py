"""What the layers and blocks of a module are called: by the script's scopes, by its variables, by what they are."""

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from parity.port.source.citations import common
from parity.port.source.code import identifier
from parity.port.source.parameters import Parameters
from parity.port.tower.layers import (
    BATCH_NORM,
    EMBEDDING,
    LAYER_NORM,
    LAYERS,
    LINEAR,
    RECURRENT_KINDS,
    TRANSPOSED_CONVOLUTION,
)
from parity.port.tower.ops import Op
from parity.port.tower.regions import CALLED_BLOCK, Frame, Frames, unrolled, variables_of

# Scopes that layers get where the script names none: of tf.layers and Keras, and of slim.
AUTOMATIC = re.compile(
    r"(conv[123]d(_transpose)?|separable_conv2d|depthwise_conv2d|dense|batch_normalization(_v1)?|layer_normalization"
    r"|rnn|(basic_|)lstm_cell|gru_cell|gates|multi_rnn_cell|embedding|fully_connected|Conv(2d_transpose)?|SeparableConv2d|BatchNorm|LayerNorm)(_\d+)?"
)
CALLED_A_WEIGHT = re.compile(
    r"(w|weights?|kernels?|filters?|var|variable|gamma|beta|biases|bias|embeddings?)_?(\d*)", re.IGNORECASE
)
WEIGHT_OF = re.compile(r"(w|weights?|kernel|filter)s?_(?=[a-z])", re.IGNORECASE)
NAMED_AFTER_NOTHING = {
    "x",
    "y",
    "h",
    "net",
    "inputs",
    "out",
    "output",
    "outputs",
    "result",
    "tensor",
    "layer",
    "ret",
    "z",
}
MADE_BY_OWN_CALL = re.compile(r"([A-Za-z_]\w*)\s*=\s*(?:[\w.]*\.)?(\w+)\((\w*)")
MADE_BY_CALL = re.compile(r"([A-Za-z_]\w*)\s*=\s*[\w.]*\b(layers|slim|keras|contrib)\.\w+\((\w*)")


def name_layers(items: Sequence[Op], parameters: Parameters, frames: Frames) -> None:
    """Plans the attributes of a module's layers and blocks, before any of them is written.

    Args:
      items: the ops of the module, with one for each block.
      parameters: of the module; `planned` of it grows.
      frames: the lines of the script that an op was made in.
    """
    wished: dict[object, str] = {}
    inside = [*unrolled(items)]
    # What all layers have in common says nothing of one of them.
    depth = len(common(frames(op) for op in inside if op.kind in LAYERS))
    for op in inside:
        if op.kind == CALLED_BLOCK:
            region = op.attributes["region"]
            known = parameters.blocks.get(region.variables)
            if known is None and region.variables not in [getattr(each, "variables", None) for each in wished]:
                wished[region] = _of_block(op, parameters)
        elif op.kind in LAYERS and (variable := next(variables_of(op), "")) and variable not in parameters.planned:
            named = _of_layer(op, variable, parameters, frames(op)[max(depth - 1, 0) :])
            if named == "norm":
                named = _of_norm(wished.get(next(variables_of(op.inputs[0].op), ""), ""), False)
            wished.setdefault(variable, named)
    counts = Counter(wished.values())
    numbers: Counter[str] = Counter()
    for key, name in wished.items():
        if counts[name] > 1:
            numbers[name] += 1
            # conv1, conv2; of res2: res2_1, res2_2.
            name = f"{name}{'_' if name[-1].isdigit() else ''}{numbers[name]}"
        parameters.planned[key] = parameters.name(name, whole=True)


def _of_block(op: Op, parameters: Parameters) -> str:
    region = op.attributes["region"]
    if region.scope:
        return identifier(region.scope.rpartition("/")[2], "block")
    return identifier(region.frame.function.strip("_"), "block") if region.frame else "block"


def _of_layer(op: Op, variable: str, parameters: Parameters, stack: Sequence[Frame]) -> str:
    *scopes, leaf = parameters.short(variable).split("/")
    named = "_".join(identifier(each, "") for each in scopes if not AUTOMATIC.fullmatch(each)).strip("_")
    if op.kind in (BATCH_NORM, LAYER_NORM):
        # In a scope with another layer's weights it is the norm of that layer.
        has_own_scope = bool(scopes) and not parameters.weights_in(variable.rpartition("/")[0])
        return _of_norm(named, has_own_scope and not AUTOMATIC.fullmatch(scopes[-1]))
    if not scopes or parameters.weights_in(variable.rpartition("/")[0]) > 1:
        own = _of_variable(leaf)
        named = "_".join(each for each in (named, own) if each)
    return named or _said(stack) or noun_of(op)


def _of_norm(named: str, is_its_own: bool) -> str:
    if not named or named in ("conv", "fc"):
        return "norm"
    if is_its_own:
        return named
    return re.sub(r"conv(?=[\d_]|$)", "norm", named) if re.search(r"conv(?=[\d_]|$)", named) else f"{named}_norm"


def _of_variable(leaf: str) -> str:
    """What a layer may be called after its weight; "" where that is called a weight and no more."""
    # "weights_conv1" is the weight of conv1; "W2" is a weight and no more.
    return "" if CALLED_A_WEIGHT.fullmatch(leaf) else identifier(WEIGHT_OF.sub("", leaf), "")


def _said(stack: Sequence[Frame]) -> str:
    """The Python variable that the script gives what a layer makes, where it says more than that it is a tensor.

    That of the function that calls a function of the script's own for it comes first: of several layers it tells more.

    Args:
      stack: the lines of the script that it is made in, from the function on in which the module's layers differ.
    """
    calls = [(frame, inner.function) for frame, inner in pairwise(stack)]
    for frame, function in [*calls, *((frame, "") for frame in stack[-1:])]:
        found = (MADE_BY_OWN_CALL if function else MADE_BY_CALL).match(frame.text)
        # net = conv(net) passes one tensor on, whatever it is called.
        if found is None or found.group(1) == found.group(3) or (function and found.group(2) != function):
            continue
        if found.group(1).lower() not in NAMED_AFTER_NOTHING:
            return identifier(found.group(1), "")
    return ""


def noun_of(op: Op) -> str:
    """Returns what a layer is."""
    nouns = {
        LINEAR: "fc",
        EMBEDDING: "embedding",
        TRANSPOSED_CONVOLUTION: "deconv",
        BATCH_NORM: "norm",
        LAYER_NORM: "norm",
        **dict.fromkeys(RECURRENT_KINDS, "cell"),
    }
    return nouns.get(op.kind, "conv")
