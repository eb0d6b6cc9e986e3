"""Layouts that no shape shows: the order in which a map is flattened in front of a dense layer, or made of its outputs."""

import math
from collections.abc import Sequence

from parity.mapping.variable import Variable

DENSE = ("Linear",)
OF_MAPS = ("Conv", "BatchNorm2d", "BatchNorm3d", "InstanceNorm", "GroupNorm", "Embedding")  # of no flat vectors
NEAREST = 6


def layouts_of(reference: Sequence[Variable], at: int, use: str, plain: Sequence[str]) -> list[str]:
    """Returns the transforms that may make one of the reference's variables what a module has, likeliest first.

    Beside those that shapes and uses allow these are the ones that a flattened map may need: TensorFlow's maps have channels
    last, torch's first. The channels are those of the convolutions in front of a dense kernel ``[h * w * c, out]``, and
    those of the ones behind it where its outputs ``[in, h * w * c]`` become a map.

    Args:
      reference: one side's variables, in its order.
      at: place of the variable among them.
      use: the class of the candidate's module, or "".
      plain: what shapes and uses allow.
    """
    variable = reference[at]
    if (use not in DENSE and len(variable.shape) != 1) or use.startswith(OF_MAPS):
        return list(plain)
    if variable.kind != "weight":  # statistics come behind all weights: they go by the place of their layer
        scope = variable.name.rpartition("/")[0]
        at = next(place for place, each in enumerate(reference) if each.name.rpartition("/")[0] == scope)
    if len(variable.shape) == 2 and "transpose" in plain and use in DENSE:
        rest = [text for text in plain if text != "transpose"]
        before = [_outputs(each) for each in reversed(reference[:at])]
        flat = [_text("flatten_hwc", variable.shape[0], channels) for channels in _channels(before, variable.shape[0])]
        made = _behind(reference, at, variable.shape[1])
        if _follows_a_map(reference, at):
            return [*flat, "transpose", *made, *rest]
        return [*made, "transpose", *flat, *rest] if _makes_a_map(reference, at) else ["transpose", *made, *flat, *rest]
    if len(variable.shape) == 1 and "identity" in plain:
        made = _behind(reference, at, variable.shape[0])
        return [*made, *plain] if _makes_a_map(reference, at) else [*plain, *made]
    if len(plain) > 1 and use == "Linear":
        return sorted(plain, key=lambda text: text != "transpose")
    return list(plain)


def _behind(reference: Sequence[Variable], at: int, size: int) -> list[str]:
    channels = _channels([_inputs(each) for each in reference[at + 1 :]], size)
    return [_text("unflatten_hwc", size, each) for each in channels]


def _follows_a_map(reference: Sequence[Variable], at: int) -> bool:
    # The kernel next in front is a convolution's with fewer outputs than this one has inputs.
    size = reference[at].shape[0]
    kernel = next((each for each in reversed(reference[:at]) if len(each.shape) > 1), None)
    channels = _outputs(kernel) if kernel else 0
    return bool(channels) and size > channels and size % channels == 0


def _makes_a_map(reference: Sequence[Variable], at: int) -> bool:
    # The kernel next behind is a convolution's with fewer inputs than this one has outputs.
    size = reference[at].shape[-1]
    kernel = next((each for each in reference[at + 1 :] if len(each.shape) > 1 and each.kind == "weight"), None)
    channels = _inputs(kernel) if kernel else 0
    return bool(channels) and size > channels and size % channels == 0


def _channels(found: Sequence[int], size: int) -> list[int]:
    fitting = [channels for channels in found if channels > 1 and size > channels and size % channels == 0]
    return [*dict.fromkeys(fitting)][:NEAREST]


def _text(name: str, size: int, channels: int) -> str:
    places = size // channels
    side = math.isqrt(places)
    height, width = (
        (side, side) if side * side == places else (places, 1)
    )  # height and width count as their product only
    return f"{name}({height}, {width}, {channels})"


def _outputs(variable: Variable) -> int:
    use, shape = variable.use or "", variable.shape
    if len(shape) < 3:
        return 0
    if "BackpropInput" in use:
        return shape[-2]
    if "DepthwiseConv2dNative" in use:
        return shape[-1] * shape[-2]
    return shape[-1] if "Conv" in use else 0


def _inputs(variable: Variable) -> int:
    use, shape = variable.use or "", variable.shape
    if len(shape) < 3 or "Conv" not in use:
        return 0
    return shape[-1] if "BackpropInput" in use else shape[-2]
