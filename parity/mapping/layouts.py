"""Axis permutations and reshapes, and the order in which a map is flattened, which no shape shows."""

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence

from parity.mapping.transforms import Shape, Transform, misfit, register
from parity.mapping.variables import MappingError, Variable
from parity.trace.arrays import Array


def _one(array: Array, linear: bool) -> tuple[Array, ...]:
    return (array,)


@register("identity")
def identity() -> Transform:
    """Leaves an array as it is."""
    return Transform("identity", 1, False, _one, lambda arrays, shape, linear: arrays[0])


def permutation(text: str, axes: tuple[int, ...]) -> Transform:
    """Makes the transform whose result has axis ``axes[i]`` of the reference as its axis i; a view both ways."""
    inverse = tuple(axes.index(axis) for axis in range(len(axes)))

    def moved(array: Array, order: tuple[int, ...]) -> Array:
        if array.ndim != len(order):
            raise misfit(text, f"{len(order)} axes", array.shape)
        return array.transpose(order)

    return Transform(
        text,
        1,
        False,
        lambda array, linear: (moved(array, axes),),
        lambda arrays, shape, linear: moved(arrays[0], inverse),
    )


@register("transpose")
def transpose() -> Transform:
    """Turns a dense kernel ``[in, out]`` into ``torch.nn.Linear``'s ``[out, in]``."""
    return permutation("transpose", (1, 0))


@register("hwio_to_oihw")
def hwio_to_oihw() -> Transform:
    """Turns a 2-D convolution's kernel ``[h, w, in, out]`` into ``torch.nn.Conv2d``'s ``[out, in, h, w]``."""
    return permutation("hwio_to_oihw", (3, 2, 0, 1))


@register("hwoi_to_iohw")
def hwoi_to_iohw() -> Transform:
    """Turns a transposed convolution's kernel ``[h, w, out, in]`` into ``[in, out, h, w]``."""
    return permutation("hwoi_to_iohw", (3, 2, 0, 1))


@register("wio_to_oiw")
def wio_to_oiw() -> Transform:
    """Turns a 1-D convolution's kernel ``[w, in, out]`` into ``torch.nn.Conv1d``'s ``[out, in, w]``."""
    return permutation("wio_to_oiw", (2, 1, 0))


@register("dhwio_to_oidhw")
def dhwio_to_oidhw() -> Transform:
    """Turns a 3-D convolution's kernel ``[d, h, w, in, out]`` into ``torch.nn.Conv3d``'s ``[out, in, d, h, w]``."""
    return permutation("dhwio_to_oidhw", (4, 3, 0, 1, 2))


@register("nhwc_to_nchw")
def nhwc_to_nchw() -> Transform:
    """Turns images ``[n, h, w, c]`` into ``[n, c, h, w]``."""
    return permutation("nhwc_to_nchw", (0, 3, 1, 2))


@register("nchw_to_nhwc")
def nchw_to_nhwc() -> Transform:
    """Turns images ``[n, c, h, w]`` into ``[n, h, w, c]``."""
    return permutation("nchw_to_nhwc", (0, 2, 3, 1))


@register("ndhwc_to_ncdhw")
def ndhwc_to_ncdhw() -> Transform:
    """Turns volumes ``[n, d, h, w, c]`` into ``[n, c, d, h, w]``."""
    return permutation("ndhwc_to_ncdhw", (0, 4, 1, 2, 3))


@register("ntc_to_tnc")
def ntc_to_tnc() -> Transform:
    """Turns sequences ``[n, time, c]`` into time-major ``[time, n, c]``, and those back."""
    return permutation("ntc_to_tnc", (1, 0, 2))


@register("nlc_to_ncl")
def nlc_to_ncl() -> Transform:
    """Turns sequences ``[n, length, c]`` into ``[n, c, length]``."""
    return permutation("nlc_to_ncl", (0, 2, 1))


@register("axes")
def axes(*order: int) -> Transform:
    """Puts the axes of an array into another order: axis ``order[i]`` of the reference is axis ``i`` of the candidate."""
    text = f"axes({', '.join(str(axis) for axis in order)})"
    if sorted(order) != [*range(len(order))] or not order:
        raise MappingError(f"{text}: expected each axis from 0 once, got {order}. Write all axes in the port's order.")
    return permutation(text, tuple(order))


@register("hwcm_to_depthwise")
def hwcm_to_depthwise() -> Transform:
    """Turns a depthwise kernel ``[h, w, c, m]`` into ``torch.nn.Conv2d(groups=c)``'s ``[c * m, 1, h, w]``.

    Backward needs the reference's shape: c and m do not show in their product.
    """
    text = "hwcm_to_depthwise"

    def forward(array: Array, linear: bool) -> tuple[Array, ...]:
        if array.ndim != 4:
            raise misfit(text, "[h, w, c, m]", array.shape)
        h, w, c, m = array.shape
        # torch's output channel c * m + j is multiplier j of input channel c, in TensorFlow as well.
        return (array.transpose(2, 3, 0, 1).reshape(c * m, 1, h, w),)

    def backward(arrays: tuple[Array, ...], shape: Shape | None, linear: bool) -> Array:
        (array,) = arrays
        if shape is None or len(shape) != 4:
            raise MappingError(f"{text}: expected the reference's shape [h, w, c, m], got {shape}. Pass it as shape.")
        h, w, c, m = shape
        if array.shape != (c * m, 1, h, w):
            raise misfit(text, f"[{c * m}, 1, {h}, {w}]", array.shape)
        return array.reshape(c, m, h, w).transpose(2, 3, 0, 1)

    return Transform(text, 1, False, forward, backward)


@register("flatten_hwc")
def flatten_hwc(height: int, width: int, channels: int) -> Transform:
    """Turns the kernel of a dense layer behind a flatten, ``[h * w * c, out]``, into ``[out, c * h * w]``.

    TensorFlow flattens with channels last, torch with channels first: the same shape, another order of the inputs.
    """
    text = f"flatten_hwc({height}, {width}, {channels})"
    sizes = _sizes(text, (height, width, channels))
    inputs = math.prod(sizes)

    def forward(array: Array, linear: bool) -> tuple[Array, ...]:
        if array.ndim != 2 or array.shape[0] != inputs:
            raise misfit(text, f"[{inputs}, out]", array.shape)
        outputs = array.shape[1]
        # (h, w, c, out) to (out, c, h, w): row (y * w + x) * c + k of the reference is column (k * h + y) * w + x.
        return (array.reshape(height, width, channels, outputs).transpose(3, 2, 0, 1).reshape(outputs, inputs),)

    def backward(arrays: tuple[Array, ...], shape: Shape | None, linear: bool) -> Array:
        (array,) = arrays
        if array.ndim != 2 or array.shape[1] != inputs:
            raise misfit(text, f"[out, {inputs}]", array.shape)
        outputs = array.shape[0]
        return array.reshape(outputs, channels, height, width).transpose(2, 3, 1, 0).reshape(inputs, outputs)

    return Transform(text, 1, False, forward, backward)


@register("reshape")
def reshape(*sizes: int) -> Transform:
    """Gives an array of as many elements the shape ``[d0, d1, ...]``; backward needs the reference's shape."""
    text = f"reshape({', '.join(str(size) for size in sizes)})"
    wanted = _sizes(text, sizes)

    def forward(array: Array, linear: bool) -> tuple[Array, ...]:
        if array.size != math.prod(wanted):
            raise misfit(text, f"{math.prod(wanted)} elements", array.shape)
        return (array.reshape(wanted),)

    def backward(arrays: tuple[Array, ...], shape: Shape | None, linear: bool) -> Array:
        (array,) = arrays
        if shape is None:
            raise MappingError(f"{text}: expected the reference's shape, got none. Pass it as shape.")
        if array.shape != wanted or array.size != math.prod(shape):
            raise misfit(text, f"{wanted}, and {math.prod(shape)} elements", array.shape)
        return array.reshape(shape)

    return Transform(text, 1, False, forward, backward)


def _sizes(text: str, sizes: tuple[int, ...]) -> Shape:
    if any(type(size) is not int or size < 1 for size in sizes):
        raise MappingError(f"{text}: expected whole numbers of at least 1, got {sizes}. Write the sizes of the axes.")
    return tuple(sizes)


DENSE = ("Linear",)
OF_MAPS = ("Conv", "BatchNorm2d", "BatchNorm3d", "InstanceNorm", "GroupNorm", "Embedding")  # of no flat vectors
# Numbers of channels that are tried, the nearest convolution's first, which is the likeliest. The tests of mapping need
# no more than one; each further one is an option of every dense kernel, to be ruled out by numbers.
MOST_LAYOUTS = 6


class Maps:
    """The convolutions among the variables of one side, by place: what maps there are in front of a weight, and behind it.

    Args:
      variables: one side's, in its order.
    """

    def __init__(self, variables: Sequence[Variable]) -> None:
        self.variables = variables
        found = [(place, each) for place, each in enumerate(variables) if len(each.shape) > 2]
        # Both ascend by place, which bisect needs: each dense kernel asks, and a scan would be quadratic.
        self._outputs = [(place, channels) for place, each in found if (channels := _outputs(each))]
        self._inputs = [(place, channels) for place, each in found if (channels := _inputs(each))]
        self._kernels = [place for place, each in enumerate(variables) if len(each.shape) > 1]
        self._weights = [place for place in self._kernels if variables[place].kind == "weight"]
        self._first: dict[str, int] = {}
        for place, each in enumerate(variables):
            self._first.setdefault(each.name.rpartition("/")[0], place)

    def first_of_scope(self, place: int) -> int:
        """Returns the place of the first variable in the scope of another."""
        return self._first[self.variables[place].name.rpartition("/")[0]]

    def before(self, place: int, size: int) -> list[int]:
        """Returns the numbers of channels, nearest first, of which maps in front of a place may make `size` numbers."""
        known = self._outputs[: bisect_left(self._outputs, (place, 0))]  # (place, 0) is before any pair of this place
        return _channels((channels for _, channels in reversed(known)), size)

    def behind(self, place: int, size: int) -> list[int]:
        """Returns the numbers of channels, nearest first, that maps behind a place may take `size` numbers as."""
        return _channels((channels for _, channels in self._inputs[bisect_left(self._inputs, (place + 1, 0)) :]), size)

    def makes(self, place: int, size: int) -> list[int]:
        """Returns the numbers of channels, likeliest first, of maps that `size` outputs may become, or be multiplied by."""
        return [*dict.fromkeys([*self.behind(place, size), *self.multiplied_with(place, size)])]

    def follows_one(self, place: int) -> bool:
        """Whether the kernel next in front is a convolution's with fewer outputs than this one has inputs."""
        at = bisect_left(self._kernels, place) - 1
        channels = _outputs(self.variables[self._kernels[at]]) if at >= 0 else 0
        return _divides(channels, self.variables[place].shape[0])

    def multiplied_with(self, place: int, size: int) -> list[int]:
        """Returns the numbers of channels, nearest first, of flattened maps that `size` outputs may be multiplied by.

        As an embedding of what is asked about a picture is: the dense kernel next behind a convolution reads something else
        than its map, and the next one reads as many numbers as it makes.
        """
        at = bisect_left(self._kernels, place + 1) - 1  # the kernel itself, or that in front of a bias
        if at < 1 or (own := self.variables[self._kernels[at]]).shape[-1] != size or len(own.shape) != 2:
            return []
        reader = bisect_left(self._weights, self._kernels[at] + 1)
        reads = reader < len(self._weights) and self.variables[self._weights[reader]].shape[:-1] == (size,)
        channels = _outputs(self.variables[self._kernels[at - 1]])
        return self.before(place, size) if reads and channels and not _divides(channels, own.shape[0]) else []

    def makes_one(self, place: int) -> bool:
        """Whether the kernel next behind is a convolution's with fewer inputs than this one has outputs."""
        at = bisect_left(self._weights, place + 1)
        channels = _inputs(self.variables[self._weights[at]]) if at < len(self._weights) else 0
        return _divides(channels, self.variables[place].shape[-1])


def layouts_of(maps: Maps, at: int, use: str, plain: Sequence[str]) -> list[str]:
    """Returns the transforms that may make one of the reference's variables what a module has, likeliest first.

    Beside those that shapes and uses allow these are the ones that a flattened map may need: TensorFlow's maps have channels
    last, torch's first. The channels are those of the convolutions in front of a dense kernel ``[h * w * c, out]``, and
    those of the ones behind it where its outputs ``[in, h * w * c]`` become a map, or are multiplied by a flattened one.

    Args:
      maps: of the reference's variables.
      at: place of the variable among them.
      use: the class of the candidate's module, or "".
      plain: what shapes and uses allow.
    """
    variable = maps.variables[at]
    dense = _is_dense(variable, use)
    if (not dense and len(variable.shape) != 1) or use.startswith(OF_MAPS):
        return list(plain)
    if variable.kind != "weight":  # statistics come behind all weights: they go by the place of their layer
        at = maps.first_of_scope(at)
    if len(variable.shape) == 2 and "transpose" in plain and dense:
        size, made = variable.shape
        rest = [text for text in plain if text != "transpose"]
        flat = [_text("flatten_hwc", size, channels) for channels in maps.before(at, size)]
        behind = [_text("unflatten_hwc", made, channels) for channels in maps.makes(at, made)]
        # Likeliest first: the first of equal cost is taken where no numbers decide.
        if maps.follows_one(at):
            return [*flat, "transpose", *behind, *rest]
        return [*behind, "transpose", *flat, *rest] if maps.makes_one(at) else ["transpose", *behind, *flat, *rest]
    if len(variable.shape) == 1 and "identity" in plain:
        behind = [_text("unflatten_hwc", variable.shape[0], each) for each in maps.makes(at, variable.shape[0])]
        return [*behind, *plain] if maps.makes_one(at) else [*plain, *behind]
    if len(plain) > 1 and use == "Linear":  # a square kernel: `tf.layers.dense` and torch hold it turned
        return sorted(plain, key=lambda text: text != "transpose")
    return list(plain)


def _is_dense(variable: Variable, use: str) -> bool:
    """Whether a kernel multiplies flat vectors: of torch's layer, or of a module of the port's own."""
    return use in DENSE or (not use and "MatMul" in (variable.use or ""))


def _divides(channels: int, size: int) -> bool:
    return bool(channels) and size > channels and size % channels == 0


def _channels(found: Iterable[int], size: int) -> list[int]:
    fitting: dict[int, None] = {}
    for channels in found:
        if channels > 1 and _divides(channels, size):
            fitting.setdefault(channels)
        if len(fitting) == MOST_LAYOUTS:
            break
    return [*fitting]


def _text(name: str, size: int, channels: int) -> str:
    # (y, x) is numbered y * w + x on both sides, so height and width count as their product only.
    places = size // channels
    side = math.isqrt(places)
    height, width = (side, side) if side * side == places else (places, 1)
    return f"{name}({height}, {width}, {channels})"


def _outputs(variable: Variable) -> int:
    use, shape = variable.use or "", variable.shape
    if len(shape) < 3:
        return 0
    if "BackpropInput" in use:  # a transposed convolution's kernel is [h, w, out, in]
        return shape[-2]
    if "DepthwiseConv2dNative" in use:  # [h, w, c, m] has c * m outputs
        return shape[-1] * shape[-2]
    return shape[-1] if "Conv" in use else 0


def _inputs(variable: Variable) -> int:
    use, shape = variable.use or "", variable.shape
    if len(shape) < 3 or "Conv" not in use:
        return 0
    return shape[-1] if "BackpropInput" in use else shape[-2]
