"""How layers are made and called, and poolings and other ops of images."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from parity.port.source.code import ATOM, Code, call, infix, number
from parity.port.source.parameters import BUFFERS
from parity.port.source.plain import ROUNDED_DECAY, SAME, UNBIASED, UNDEBIASED
from parity.port.source.writer import Writer, writes
from parity.port.tower.layers import (
    BATCH_NORM,
    DROPOUT,
    EMBEDDING,
    LAYER_NORM,
    LINEAR,
    TRANSPOSED_CONVOLUTION,
    UNMOVED,
    settings,
)
from parity.port.tower.ops import Op
from parity.trace.as_written import as_written

OWN_OF_NORMS = {"weight": ("weight", "identity"), "bias": ("bias", "identity")}
OWN_STATISTICS = {"mean": ("running_mean", "identity"), "variance": ("running_var", "identity")}
OF_LRN = {"bias": 1.0, "alpha": 1.0, "beta": 0.5}  # what TensorFlow takes where nothing is said
LEAST_RAISED_EPSILON = 1.001e-5  # like_tf raises a smaller epsilon to it, as fused_batch_norm of TensorFlow 1.15 does


def _layer(
    writer: Writer, op: Op, made: str, parameters: dict[str, tuple[str, str]], x: Code, general: Sequence[str] = ()
) -> Code:
    """The call of a layer, which the module gets where it has none yet."""
    # By the script's variables: a layer that is called twice, with other inputs, is the one that is there.
    mapped = {op.attributes[name]: own for name, own in parameters.items() if op.attributes.get(name)}
    scope = writer.parameters.scope_of(next(iter(mapped), op.name))
    layer = writer.parameters.layer(settings(op), scope, made, mapped, writer.frames(op), general)
    return call(f"{writer.owner}.{layer.attribute}", x)


@writes(LINEAR)
def _linear(writer: Writer, op: Op) -> Code:
    x, after = op.inputs[0], op.output()
    if op.attributes.get("borrowed"):
        weight = writer.parameters.plain(op.attributes["weight"], writer.owner)
        turned = weight.text if op.attributes["turned"] else f"{weight.text}.T"
        bias = op.attributes.get("bias")
        return call(
            "F.linear", writer.code(x), turned, *([writer.parameters.plain(bias, writer.owner)] if bias else [])
        )
    made = call("nn.Linear", str(x.shape[-1]), str(after.shape[-1]), bias=None if op.attributes["bias"] else False)
    transform = "identity" if op.attributes["turned"] else "transpose"
    own = {"weight": ("weight", transform), "bias": ("bias", "identity")}
    return _layer(writer, op, made.text, own, writer.code(x))


@writes(EMBEDDING)
def _embedding(writer: Writer, op: Op) -> Code:
    rows, width = writer.parameters.shapes[op.attributes["weight"]]
    if op.attributes.get("borrowed"):
        weight = writer.parameters.plain(op.attributes["weight"], writer.owner)
        return Code(f"{weight.text}[{writer.code(op.inputs[0]).text}.long()]")
    made = f"nn.Embedding({rows}, {width})"
    return _layer(writer, op, made, {"weight": ("weight", "identity")}, writer.code(op.inputs[0]))


def space(op: Op, name: str) -> tuple[int, ...]:
    """Returns an attribute by axis, of the axes of space only."""
    found = tuple(int(each) for each in op.attributes.get(name) or ())
    if not found:
        return (1,) * (len(op.inputs[0].shape) - 2)
    ends = 2 if name == "explicit_paddings" else 1  # numbers of an axis
    return found[2 * ends :] if is_channels_first(op) else found[ends:-ends]


def is_channels_first(op: Op) -> bool:
    """Whether the script itself has channels behind the examples."""
    return str(op.attributes.get("data_format", "NHWC")).startswith("NC")


def image(writer: Writer, op: Op, place: int = 0) -> Code:
    """Returns what an op of images takes, with channels first; what it gives has them there too.

    Args:
      writer: of the function.
      op: the op.
      place: of the images among what it takes.
    """
    if is_channels_first(op):
        return writer.code(op.inputs[place])
    writer.channels_first.add(op.output())
    return writer.code(op.inputs[place], True)


def short(lengths: Sequence[int]) -> str:
    """Returns lengths as one number where they are equal."""
    return str(lengths[0]) if len(set(lengths)) == 1 else str(tuple(lengths))


def unless(lengths: Sequence[int], usual: int) -> str | None:
    """Returns lengths, None where all are what is usual."""
    return None if set(lengths) == {usual} else short(lengths)


@writes("Conv2d", "DepthwiseConv2d", "Conv3d")
def _convolution(writer: Writer, op: Op) -> Code | None:
    if op.attributes.get("borrowed"):
        return None
    shape = writer.parameters.shapes[op.attributes["weight"]]
    kernel, (before, after) = shape[:-2], shape[-2:]
    groups = None
    if op.kind == "DepthwiseConv2d":
        groups, after = before, before * after
    dimensions = len(kernel)
    strides, dilations = space(op, "strides"), space(op, "dilations")
    named: dict[str, Any] = {
        "stride": unless(strides, 1),
        "padding": None,
        "dilation": unless(dilations, 1),
        "groups": groups,
        "bias": None if op.attributes["bias"] else False,
    }
    package = "nn"
    margins_in_front: tuple[int, ...] = ()
    if op.attributes["padding"] == "SAME":
        widths = [(length - 1) * dilation for length, dilation in zip(kernel, dilations, strict=True)]
        # TensorFlow's SAME at stride 1 pads (kernel - 1) / 2 on both sides, as a number does; an even kernel has one
        # more behind.
        if set(strides) == {1} and not any(width % 2 for width in widths):
            named["padding"] = unless([width // 2 for width in widths], 0)
        elif writer.parameters.in_plain_torch is not None:
            writer.parameters.in_plain_torch.differs(SAME)
            margins = same_margins(op, kernel, strides, dilations)
            if margins[::2] == margins[1::2]:
                named["padding"] = unless(margins[::2], 0)
            else:
                margins_in_front = margins
        else:
            package, named["padding"] = "like_tf", '"same"'
    # nn.Conv2d takes one width for both sides of an axis; others are padded by an op in front.
    elif op.attributes["padding"] == "EXPLICIT":
        margins = space(op, "explicit_paddings")
        if margins[::2] != margins[1::2]:
            return None
        named["padding"] = unless(margins[::2], 0)
    elif op.attributes["padding"] != "VALID":
        return None
    made = call(f"{package}.Conv{dimensions}d", str(before), str(after), short(kernel), **named)
    sizes = str(before), str(after), short(kernel)
    general = _general_convolutions(op, made, named, sizes, writer.parameters.in_plain_torch is None)
    # TensorFlow's kernels end in the channels that go in and out, torch's begin with those that go out.
    transform = {"Conv2d": "hwio_to_oihw", "DepthwiseConv2d": "hwcm_to_depthwise", "Conv3d": "dhwio_to_oidhw"}[op.kind]
    own = {"weight": ("weight", transform), "bias": ("bias", "identity")}
    taken = padded(image(writer, op), margins_in_front) if margins_in_front else image(writer, op)
    return _layer(writer, op, made.text, own, taken, general)


def same_margins(
    op: Op, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int] | None = None
) -> tuple[int, ...]:
    """Returns what TensorFlow's SAME puts before and behind each axis of space, in the recorded sizes."""
    shape = op.inputs[0].shape
    sizes = shape[2:] if is_channels_first(op) else shape[1:-1]
    found: list[int] = []
    for size, length, stride, dilation in zip(sizes, kernel, strides, dilations or [1] * len(sizes), strict=True):
        width = _padding(size, (length - 1) * dilation + 1, stride)
        found += [width // 2, width - width // 2]
    return tuple(found)


def padded(code: Code, margins: Sequence[int], value: str | None = None) -> Code:
    """Returns a tensor with margins, given axis by axis, around its axes of space."""
    pairs = [margins[place : place + 2] for place in range(0, len(margins), 2)]
    flat = tuple(width for pair in reversed(pairs) for width in pair)  # torch begins with the last axis
    return call("F.pad", code, str(flat), value=value)


def _general_convolutions(
    op: Op, made: Code, named: Mapping[str, Any], sizes: Sequence[str], with_like_tf: bool
) -> list[str]:
    """What a convolution has in common with others that move in other strides, or are padded by other widths."""
    kind, strides = made.text.partition("(")[0].rpartition(".")[2], short(space(op, "strides"))
    found = []
    if op.attributes["padding"] != "EXPLICIT" and with_like_tf:
        same = '"same"' if op.attributes["padding"] == "SAME" else None
        found.append(call(f"like_tf.{kind}", *sizes, **{**named, "stride": strides, "padding": same}).text)
    if made.text.startswith("nn."):
        found.append(
            call(f"nn.{kind}", *sizes, **{**named, "stride": strides, "padding": named["padding"] or "0"}).text
        )
    return found


@writes(TRANSPOSED_CONVOLUTION)
def _transposed(writer: Writer, op: Op) -> Code | None:
    if op.attributes.get("borrowed"):
        return None
    height, width, after, before = writer.parameters.shapes[op.attributes["weight"]]
    strides = space(op, "strides")
    x, given = op.inputs[0], op.output()
    places = (2, 3) if is_channels_first(op) else (1, 2)
    padding = str(op.attributes["padding"])
    sizes = [given.shape[place] for place in places]
    # The length that TensorFlow's shape function gives; a script may ask for another one that fits, and that is
    # refused.
    usual = [
        x.shape[place] * stride if padding == "SAME" else x.shape[place] * stride + max(kernel - stride, 0)
        for place, stride, kernel in zip(places, strides, (height, width), strict=True)
    ]
    if sizes != usual:
        return None
    made = call(
        "like_tf.ConvTranspose2d",
        str(before),
        str(after),
        short((height, width)),
        stride=unless(strides, 1),
        padding=None if padding == "SAME" else '"VALID"',
        bias=None if op.attributes["bias"] else False,
    )
    own = {"weight": ("weight", "hwoi_to_iohw"), "bias": ("bias", "identity")}
    return _layer(writer, op, made.text, own, image(writer, op))


@writes(BATCH_NORM)
def _batch_norm(writer: Writer, op: Op) -> Code:
    x, known = op.inputs[0], op.attributes
    channels = x.shape[1] if is_channels_first(op) else x.shape[-1]
    images = len(x.shape) == 4
    taken = image(writer, op) if len(x.shape) > 2 else writer.code(x)
    # Without moving statistics a norm takes its batch's in evaluation too: track_running_stats=False does so.
    if not known.get("mean") and _has_trained_weights(writer, op) and len(x.shape) in (2, 3, 4):
        name = f"nn.BatchNorm{2 if images else 1}d"
        made = call(name, str(channels), eps=repr(known["eps"]), track_running_stats=False)
        return _layer(writer, op, made.text, OWN_OF_NORMS, taken)
    if not known.get("mean") or known.get("borrowed"):
        weights = [
            writer.parameters.plain(known[name], writer.owner).text if known.get(name) else "None"
            for name in ("weight", "bias")
        ]
        return call("F.batch_norm", taken, "None", "None", *weights, training=True, eps=repr(known["eps"]))
    made = call(
        f"like_tf.BatchNorm{2 if images else 1}d",
        str(channels),
        eps=repr(known["eps"]),
        # 1 - 0.1 in float64 is 0.9 but for its last bit: a reader wants 0.9, and like_tf rounds it to float32 as the
        # graph has it.
        momentum=repr(round(known["decay"], 12)),
        fused=known["fused"] if known["fused"] != images else None,
        scale=_scale(writer, known.get("weight")),
        center=None if known.get("bias") else False,
        # The graph holds the epsilon that is used: TensorFlow 1.15 has raised a small one, TensorFlow 2 raises none.
        fused_epsilon_floor="0.0" if known["fused"] and known["eps"] < LEAST_RAISED_EPSILON else None,
        zero_debias=_zero_debias(known),
    )
    plain = writer.parameters.in_plain_torch
    if known["decay"] == UNMOVED and _has_trained_weights(writer, op):
        # Whichever variance the others keep, this one keeps none.
        made = call(f"nn.BatchNorm{2 if images else 1}d", str(channels), eps=repr(known["eps"]), momentum="0.0")
        return _layer(writer, op, made.text, {**OWN_OF_NORMS, **OWN_STATISTICS}, taken)
    if plain is not None and _has_trained_weights(writer, op):
        plain.differs(ROUNDED_DECAY)
        if not known["fused"]:
            plain.differs(UNBIASED)
        if known.get("mean_biased"):
            plain.differs(UNDEBIASED)
        # torch's momentum is the weight of the new value, TensorFlow's decay that of the old one.
        name, momentum = f"nn.BatchNorm{2 if images else 1}d", repr(round(1 - known["decay"], 12))
        made = call(name, str(channels), eps=repr(known["eps"]), momentum=momentum)
        return _layer(writer, op, made.text, {**OWN_OF_NORMS, **OWN_STATISTICS}, taken)
    own = {
        **OWN_OF_NORMS,
        **OWN_STATISTICS,
        "mean_biased": ("running_mean_biased", "identity"),
        "mean_step": ("running_mean_local_step", "identity"),
        "variance_biased": ("running_var_biased", "identity"),
        "variance_step": ("running_var_local_step", "identity"),
    }
    return _layer(writer, op, made.text, own, taken)


def _has_trained_weights(writer: Writer, op: Op) -> bool:
    """Whether a norm has gamma and beta of its own that are trained both, as a layer of torch's has."""
    names = [op.attributes.get(name) for name in OWN_OF_NORMS]
    kinds = writer.parameters.kinds
    return not op.attributes.get("borrowed") and all(name and kinds.get(name) not in BUFFERS for name in names)


def _scale(writer: Writer, weight: str | None) -> str | None:
    """The argument of a batch norm that says whether there is a gamma; None for one that is trained."""
    if not weight:
        return "False"
    return '"fixed"' if writer.parameters.kinds.get(weight) in BUFFERS else None


def _zero_debias(known: Mapping[str, Any]) -> str | None:
    if not known.get("mean_biased"):
        return None
    return "True" if known.get("variance_biased") else '"mean"'


@writes(LAYER_NORM)
def _layer_norm(writer: Writer, op: Op) -> Code:
    known, width = op.attributes, op.inputs[0].shape[-1]
    if _has_trained_weights(writer, op):
        made = call("nn.LayerNorm", str(width), eps=repr(known["eps"]))
        return _layer(writer, op, made.text, OWN_OF_NORMS, writer.code(op.inputs[0]))
    given = [
        writer.parameters.plain(known[name], writer.owner).text if known.get(name) else "None"
        for name in ("weight", "bias")
    ]
    return call("F.layer_norm", writer.code(op.inputs[0]), f"({width},)", *given, repr(known["eps"]))


@writes(DROPOUT)
def _dropout(writer: Writer, op: Op) -> Code:
    x = op.inputs[0]
    first = x in writer.channels_first
    shape = op.attributes["noise_shape"]
    # A noise shape names axes in the script's order, channels last.
    if shape and first and len(shape) == len(x.shape):
        shape = (shape[0], shape[-1], *shape[1:-1])
    if first:
        writer.channels_first.add(op.output())
    rate = repr(round(op.attributes["rate"], 12))
    if shape:
        # Lengths that are those of what is dropped: another batch has others. like_tf.dropout drops in eval() too.
        writer.assign([x])
        taken = writer.code(x, first)
        ahead = len(x.shape) - len(shape)  # axes that a draw of fewer has not
        lengths = [
            "1" if length == 1 else f"{taken.within(ATOM)}.shape[{ahead + axis}]" for axis, length in enumerate(shape)
        ]
        noise_shape = f"({', '.join(lengths)}{',' if len(lengths) == 1 else ''})"
        dropped = call("like_tf.dropout", taken, rate, noise_shape=noise_shape)
        return Code(f"{dropped.text} if {writer.owner}.training else {taken.text}", -1)
    return call("F.dropout", writer.code(x, first), rate, f"{writer.owner}.training")


@writes("MaxPool", "AvgPool")
def _pool(writer: Writer, op: Op) -> Code:
    kernel, strides = space(op, "ksize"), space(op, "strides")
    x = op.inputs[0]
    sizes = x.shape[2:] if is_channels_first(op) else x.shape[1:-1]
    name = "max_pool" if op.kind == "MaxPool" else "avg_pool"
    if writer.parameters.in_plain_torch is not None and op.attributes["padding"] == "SAME":
        writer.assign([x])  # what is padded takes room of its own
    code = image(writer, op)
    if op.attributes["padding"] == "SAME" and any(_padding(*each) for each in zip(sizes, kernel, strides, strict=True)):
        if writer.parameters.in_plain_torch is not None:
            return _plainly_pooled(writer, op, name, (code, kernel, strides))
        stride = None if strides == kernel else short(strides)
        return call(f"like_tf.{name}", code, short(kernel), stride=stride, padding='"SAME"')
    # A pooling of torch moves by its window where nothing else is said.
    arguments = [short(kernel)] + ([] if strides == kernel else [short(strides)])
    return call(f"F.{name}2d", code, *arguments)


def _plainly_pooled(writer: Writer, op: Op, name: str, window: tuple[Code, tuple[int, ...], tuple[int, ...]]) -> Code:
    """A pooling of what is padded by numbers; an average does not count what it is padded with."""
    assert writer.parameters.in_plain_torch is not None
    writer.parameters.in_plain_torch.differs(SAME)
    code, kernel, strides = window
    margins = same_margins(op, kernel, strides)
    sizes = [short(kernel), short(strides)]
    if margins[::2] == margins[1::2]:
        counted = False if name == "avg_pool" else None
        return call(f"F.{name}2d", code, *sizes, padding=short(margins[::2]), count_include_pad=counted)
    if name == "max_pool":
        return call("F.max_pool2d", padded(code, margins, 'float("-inf")'), *sizes)
    counts = call("F.avg_pool2d", padded(call("torch.ones_like", code), margins), *sizes)
    return infix(call("F.avg_pool2d", padded(code, margins), *sizes), "/", counts)


def _padding(size: int, kernel: int, stride: int) -> int:
    """How many elements TensorFlow's SAME adds on an axis."""
    # ceil(size / stride) windows, the last of which may reach over the end.
    return max((-(-size // stride) - 1) * stride + kernel - size, 0)


@writes("LRN")
def _local_response_norm(writer: Writer, op: Op) -> Code:
    named = {
        name: number(float(as_written(np.float32(op.attributes[name])))).text
        for name in ("bias", "alpha", "beta")
        if name in op.attributes
    }
    radius = int(op.attributes.get("depth_radius", 5))
    if writer.parameters.in_plain_torch is not None:
        width = 2 * radius + 1  # by which torch divides alpha
        known = {name: float(as_written(np.float32(op.attributes.get(name, usual)))) for name, usual in OF_LRN.items()}
        arguments = {"alpha": repr(known["alpha"] * width), "beta": repr(known["beta"]), "k": repr(known["bias"])}
        return call("F.local_response_norm", image(writer, op), str(width), **arguments)
    return call("like_tf.local_response_normalization", image(writer, op), depth_radius=radius, **named)


@writes("ResizeBilinear", "ResizeNearestNeighbor")
def _resized(writer: Writer, op: Op) -> Code:
    name = "resize_bilinear" if op.kind == "ResizeBilinear" else "resize_nearest_neighbor"
    named = {flag: True for flag in ("align_corners", "half_pixel_centers") if op.attributes.get(flag)}
    size = op.output().shape[1:3]
    return call(f"like_tf.{name}", image(writer, op), str(tuple(size)), **named)
