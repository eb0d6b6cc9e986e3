"""What one of the reference's variables may become: one of the candidate's, several of them, or a block of one's rows."""

import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import permutations
from typing import NamedTuple

from parity.mapping.fits import PACKED, becomes, fits, fits_but_for_ones, fits_with, without_leading_ones
from parity.mapping.transforms import parse_transform
from parity.mapping.variables import Variable
from parity.trace.arrays import Array

QUERY_KEY_VALUE = ("query", "key", "value")
SEPARATE = {f"{what[0]}_proj_weight": what for what in QUERY_KEY_VALUE}
# 1.0 is the default of TensorFlow's cells, 0.0 what scripts write instead; a sum where the port trains both biases.
FORGET_BIASES = ("lstm_bias(1.0)", "lstm_bias(0.0)", "sum")
LSTM = frozenset(["LSTM", "LSTMCell"])
RECURRENT = LSTM | {"RNN", "RNNCell"}
GRU = frozenset(["GRU", "GRUCell"])
GRU_GATES = ("reset", "update", "new")
# Of a cell that is written by hand; torch's own order first.
GATES = tuple(f"gates({', '.join(map(str, order))})" for order in permutations(range(3)))
LAYERS_IN_ONE = (2, 3, 4, 6, 8)  # layers that ports compute as one


class Unit(NamedTuple):
    """Something of the candidate that one variable of the reference may become.

    Fields:
      label: a name that says what it is, e.g. "attention.query.weight" of a block of "attention.in_proj_weight".
      parts: the variables that it consists of.
      texts: transforms that may make it of a variable, beside those that shapes and uses allow.
      rows: index and count of the block of rows that it is, or None.
    """

    label: str
    parts: tuple[Variable, ...]
    texts: tuple[str, ...] = ()
    rows: tuple[int, int] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The candidate's names."""
        return tuple(part.name for part in self.parts)

    @property
    def kind(self) -> str:
        """The kind, "weight" or "statistic"."""
        return self.parts[0].kind

    @property
    def use(self) -> str:
        """The class of the module, or ""."""
        return self.parts[0].use or ""

    @property
    def size(self) -> int:
        """The number of elements of the reference's variable that it may be."""
        if self.rows is not None:
            return math.prod(self.parts[0].shape) // self.rows[1]
        return sum(math.prod(part.shape) for part in (self.parts[:1] if self.is_sum else self.parts))

    @property
    def is_sum(self) -> bool:
        """Whether its parts are added."""
        return any(parse_transform(text).is_sum for text in self.texts if text != "rows")

    @property
    def form(self) -> tuple[object, ...]:
        """All that decides which variables may become it, and how: all but the names."""
        return (*(part.form for part in self.parts), self.texts, self.rows)

    def block(self, whole: Array) -> Array:
        """Returns what it is of the candidate's array: a block of rows as a view, or all of it."""
        if self.rows is None:
            return whole
        index, count = self.rows
        size = whole.shape[0] // count
        return whole[index * size : (index + 1) * size]

    def transforms(self, reference: Variable, sizes: Collection[int] = ()) -> list[str]:
        """Returns every transform that may turn `reference` into it; of `sizes` see `join_certain`."""
        if reference.kind != self.kind or math.prod(reference.shape) != self.size:
            return []
        if not self.texts:
            (part,) = self.parts
            found = [*dict.fromkeys([*fits_with(sizes, reference, part), *_reshaped(reference, part)])]
            # Axes of length 1 only where nothing else fits: they would add a second layout to what is clear.
            return found or fits_but_for_ones(reference, part)
        size = len(reference.shape)
        if self.rows is None:
            return [*filter(None, (without_leading_ones(text, reference, *self.parts) for text in self.texts))]
        tail = f"rows({self.rows[0]}, {self.rows[1]})"
        width = self.parts[0].shape[0] // self.rows[1]
        # A query's kernel is [d, d], or [d, heads, d / heads]; its bias [d], or [heads, d / heads].
        heads = [f"reshape({reference.shape[0]}, {width}) | transpose | "] if size == 3 else []
        flat = [f"reshape({width}) | "] if size > 1 and len(self.parts[0].shape) == 1 else []
        plain = ["transpose | "] if size == 2 and not flat else [""] if size == 1 else []
        turned = [without_leading_ones(f"transpose | {tail}", reference, *self.parts)] if size > 2 else []
        starts = (start + tail for start in (*plain, *heads, *flat))
        return [*(text for text in starts if becomes(text, reference, *self.parts)), *filter(None, turned)]


def units_of(candidate: Sequence[Variable], reference: Sequence[Variable]) -> list[Unit]:
    """Returns what the reference's variables may become; each of the candidate's is in one kind of unit only.

    Args:
      candidate: the variables that are free.
      reference: the variables that are left: what they are cut into decides how the candidate's packed arrays are.
    """
    counts, one = Counter(variable.form for variable in reference), {variable.form: variable for variable in reference}
    forms = {one[form]: count for form, count in counts.items()}
    units: list[Unit] = []
    taken: set[str] = set()
    # Each kind takes variables that no other takes, by the class of the module; the rest are units by themselves.
    for unit in (
        *_recurrent(candidate, forms),
        *_gated(candidate, forms),
        *_of_attention(candidate, forms),
        *_side_by_side(candidate, forms),
        *_fused(candidate, forms),
    ):
        units.append(unit)
        taken.update(unit.names)
    units += [Unit(variable.name, (variable,)) for variable in candidate if variable.name not in taken]
    place = {variable.name: number for number, variable in enumerate(candidate)}
    return sorted(units, key=lambda unit: (place[unit.names[0]], unit.rows or (0, 0)))


Forms = Mapping[Variable, int]  # a variable of each form that the reference has, and of how many it is the form


def _recurrent(candidate: Sequence[Variable], reference: Forms) -> Iterator[Unit]:
    by_name = {variable.name: variable for variable in candidate}
    for variable in candidate:
        if variable.use not in RECURRENT or "_ih" not in variable.name:
            continue
        partner = by_name.get(variable.name.replace("_ih", "_hh"))
        projection = by_name.get(variable.name.replace("weight_ih", "weight_hr"))
        whole = "lstm_gates" if variable.use in LSTM else "rnn_kernel"
        if projection is not None and projection is not variable:
            whole = f"lstm_projected({projection.shape[0]})"
            yield Unit(projection.name.replace("weight_hr", "projection.kernel"), (projection,), ("transpose",))
        # Keras keeps the kernels of inputs and of the state apart, the cells of tf.nn.rnn_cell in one.
        separate = [text for text in ("transpose", "lstm_rows", "identity") if _any(text, reference, variable)]
        if variable.name.rpartition(".")[2].startswith("weight"):
            if partner and _any(whole, reference, variable, partner):
                yield Unit(variable.name.replace("weight_ih", "kernel"), (variable, partner), (whole,))
            elif separate:
                for each, role in ((variable, "kernel"), (partner, "recurrent_kernel")):
                    if each is not None:
                        label = re.sub("weight_[ih]h", role, each.name)
                        yield Unit(label, (each,), ("lstm_rows", "transpose"))
        elif partner is not None:
            texts = FORGET_BIASES if variable.use in LSTM else ("sum",)
            yield Unit(variable.name.replace("bias_ih", "bias"), (variable, partner), texts)


def _gated(candidate: Sequence[Variable], reference: Forms) -> Iterator[Unit]:
    """A GRU's kernels and biases, whole where the reference packs the gates too, in some order, else gate by gate."""
    for variable in candidate:
        if variable.use not in GRU:
            continue
        where, _, name = variable.name.rpartition(".")
        name = name.replace("weight_ih", "kernel").replace("weight_hh", "recurrent_kernel")
        if _is_spare(GATES[0], reference, variable, candidate):
            yield Unit(f"{where}.{name}", (variable,), GATES)
            continue
        for index, gate in enumerate(GRU_GATES):
            yield Unit(f"{where}.{gate}.{name}", (variable,), ("rows",), (index, 3))


def _of_attention(candidate: Sequence[Variable], reference: Forms) -> Iterator[Unit]:
    for variable in candidate:
        where, _, name = variable.name.rpartition(".")
        if variable.use != "MultiheadAttention":
            continue
        if name in SEPARATE:  # where keys or values have other sizes
            yield Unit(f"{where}.{SEPARATE[name]}.weight", (variable,), ("rows",), (0, 1))
        if not name.startswith("in_proj_"):
            continue
        role = name.removeprefix("in_proj_")
        whole = "transpose" if role == "weight" else "identity"
        if _is_spare(whole, reference, variable, candidate):
            yield Unit(variable.name, (variable,), (whole,))
            continue
        for index, what in enumerate(QUERY_KEY_VALUE):
            yield Unit(f"{where}.{what}.{role}", (variable,), ("rows",), (index, 3))


def _side_by_side(candidate: Sequence[Variable], reference: Forms) -> Iterator[Unit]:
    """Three kernels of one parent's that the reference may hold in one: those of query, key and value; or key and value."""
    parents: dict[tuple[str, str, tuple[int, ...]], list[Variable]] = {}
    for variable in candidate:
        where, _, role = variable.name.rpartition(".")
        parent, _, module = where.rpartition(".")
        if variable.use == "Linear" and re.search(r"(^|_)(q|k|v|query|key|value)(_|\d|$)", _words(module)):
            parents.setdefault((parent, role, variable.shape), []).append(variable)
    same = Counter(variable.shape for variable in candidate if variable.use == "Linear")
    # Kernels before biases: whether a parent's biases are cut from one follows from its kernels.
    cut = set()
    for (parent, role, shape), found in sorted(parents.items(), key=lambda item: item[0][1] != "weight"):
        text = f"split({len(found)})"
        if len(found) not in (2, 3) or not _any(text, reference, *found):
            continue
        single = sum(count for variable, count in reference.items() if becomes("transpose", variable, found[0]))
        # Not where the reference has enough kernels that each become one: then nothing is packed, and 3 d is chance.
        if single < same[shape] if role == "weight" else parent in cut:
            cut.add(parent)
            yield Unit(f"{parent}.qkv.{role}", tuple(sorted(found, key=_of_query_key_value)), (text,))


def _fused(candidate: Sequence[Variable], reference: Forms) -> Iterator[Unit]:
    """Blocks of rows of a dense layer that is several of the reference's: both halves of a gate, all heads of a query."""
    by_name = {variable.name: variable for variable in candidate}
    dense = [variable for variable in candidate if variable.use == "Linear" and len(variable.shape) == 2]
    same = Counter(variable.shape for variable in dense)
    one_of_each = {variable.shape: variable for variable in dense}
    counts = {shape: _blocks_of(variable, same, reference) for shape, variable in one_of_each.items()}
    for kernel in dense:
        where, count = kernel.name.rpartition(".")[0], counts[kernel.shape]
        for part in filter(None, (kernel, by_name.get(f"{where}.bias"))):
            role = part.name.rpartition(".")[2]
            yield from (Unit(f"{where}.{at}.{role}", (part,), ("rows",), (at, count)) for at in range(count))


def _blocks_of(kernel: Variable, same: Counter[tuple[int, ...]], reference: Forms) -> int:
    """In how many blocks a kernel's rows are kernels of the reference, 0 where one may be the whole or nothing fits."""
    if any(fits(v, kernel) or fits_but_for_ones(v, kernel) or any(_reshaped(v, kernel)) for v in reference):
        return 0
    for count in LAYERS_IN_ONE:
        block = (kernel.shape[0] // count, *kernel.shape[1:])
        known = sum(number for v, number in reference.items() if v.kind == "weight" and v.shape == block[::-1])
        # As many more than the port has layers of that size: what is left of those alone may be parts of others.
        if kernel.shape[0] % count == 0 and known - same[block] >= count * same[kernel.shape]:
            return count
    return 0


def _of_query_key_value(variable: Variable) -> int:
    return "qkv".index(re.findall(r"(?:^|_)([qkv])", _words(variable.name.split(".")[-2]))[0])


def _words(module: str) -> str:
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", module).lower().replace("w_", "").replace("to_", "")


def _any(text: str, reference: Forms, *parts: Variable) -> bool:
    return any(v.kind == parts[0].kind and without_leading_ones(text, v, *parts) for v in reference)


def _is_spare(text: str, reference: Forms, packed: Variable, candidate: Sequence[Variable]) -> bool:
    """Whether the reference has more variables that become a packed one than other modules of the candidate need.

    Where it has not, what is packed here has parts there, and that one of them is three times as wide is chance: a layer
    behind attention of width d may well have 3 d units.
    """
    whole = [v for v in reference if v.kind == packed.kind and without_leading_ones(text, v, packed)]
    # A layer of the port's may hold its kernel as a convolution over one place, or as the graph does.
    others = [
        v for v in candidate if v.use not in PACKED and any(fits(one, v) or fits_but_for_ones(one, v) for one in whole)
    ]
    return sum(reference[v] for v in whole) > len(others)


def _reshaped(reference: Variable, part: Variable) -> Iterator[str]:
    """Kernels that one side holds with axes of their own for heads, or for the one place that a window has."""
    one, other = reference.shape, part.shape
    use = part.use or ""
    if use in PACKED or (use and use == reference.use):
        return
    axes = (len(one), len(other))
    if axes[1] == 1 and use and "Conv" in (reference.use or ""):  # a kernel is no bias, were it of as many elements
        return
    if axes[1] == 1 and axes[0] != 1 and math.prod(one) == other[0]:
        yield f"reshape({other[0]})"
    elif axes[0] < 2 and axes[1] != axes[0] and math.prod(one) == math.prod(other) == max(other, default=1):
        yield f"reshape({', '.join(map(str, other))})"
    elif axes == (3, 2) and use.startswith("Embedding") and (one[0], one[1] * one[2]) == other:
        yield f"reshape({other[0]}, {other[1]})"  # a table of matrices, each as one row
    elif axes == (3, 2) and use in ("Linear", "NonDynamicallyQuantizableLinear"):
        for rows_, columns in dict.fromkeys(((one[0], one[1] * one[2]), (one[0] * one[1], one[2]))):
            if (columns, rows_) == other:
                yield f"reshape({rows_}, {columns}) | transpose"
            # An einsum may give the first axis, and sum over the two others: `nd,hnd->h`.
            if (rows_, columns) == other and "Einsum" in (reference.use or ""):
                yield f"reshape({rows_}, {columns})"
    elif axes == (4, 2) and use == "Linear" and (one[3], math.prod(one[:3])) == other:
        one_place = one[:2] == (1, 1)
        end = "transpose" if one_place else f"flatten_hwc({one[0]}, {one[1]}, {one[2]})"
        yield f"reshape({other[1]}, {other[0]}) | {end}"
    elif axes[0] == 2 and use.startswith("Conv") and other[:2] == one[::-1] and set(other[2:]) == {1}:
        yield f"transpose | reshape({', '.join(map(str, other))})"
    elif axes == (4, 3) and use in ("Conv1d", "ConvTranspose1d") and 1 in one[:2]:
        width = one[0] * one[1]
        if (one[3], one[2], width) == other and "DepthwiseConv2dNative" not in (reference.use or ""):
            yield f"reshape({width}, {one[2]}, {one[3]}) | wio_to_oiw"
    elif axes == (4, 3) and use == "Conv1d" and one[2] == 1:
        # Over words as over an image of one channel: all of one axis, whose places are what a `Conv1d` has for channels.
        shape = f"reshape({one[0]}, {one[1]}, {one[3]})"
        for end, made in (("wio_to_oiw", (one[3], one[1], one[0])), ("axes(2, 0, 1)", (one[3], one[0], one[1]))):
            if made == other:
                yield f"{shape} | {end}"
