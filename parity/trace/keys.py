"""The quantities of a training step, in the order in which a step computes them, and how tensors of a trace are named."""

import functools
import re
from typing import Any, Dict, Mapping, NamedTuple, Optional, Tuple, TypeVar, Union

from parity.trace.errors import TraceError

T = TypeVar("T")

# The order is the diagnosis: the first quantity that differs, in the first step that differs, is where the bug lives.
# So clipped gradients stand behind those that they are made of, slots before the weights that they move.
QUANTITIES = (
    "state",
    "feed",
    "noise",
    "act",
    "stat",
    "loss",
    "tower_grad",
    "tower_clip",
    "grad",
    "clip",
    "slot",
    "var",
    "ema",
    "metric",
    "eval",
)
EXECUTION_RANK = {quantity: rank for rank, quantity in enumerate(QUANTITIES)}
# A key is [section/SECTION/]QUANTITY[/TOWER][/SLOT]/NAME: which of the parts there are, the quantity alone decides, for
# a variable's name may hold slashes, digits and the words of quantities itself.
PER_TOWER = frozenset(["feed", "noise", "act", "loss", "tower_grad", "tower_clip"])
_OF_A_NAME_ALONE = frozenset(QUANTITIES) - PER_TOWER - {"slot"}
PER_VARIABLE = frozenset(["stat", "tower_grad", "tower_clip", "grad", "clip", "slot", "var", "ema"])

# What a step leaves behind, and what it changes. The counters (`state`) of a step are those before it.
STATE = frozenset(["var", "stat", "slot", "ema", "state"])
STATE_OF_A_STEP = STATE - frozenset(["state"])
UPDATED = frozenset(["var", "stat", "ema"])  # values that a step adds to; all else is a difference or a rate
OPTIMIZED = frozenset(["slot", "var", "ema"])  # moved by the update from gradients, as statistics are not
GRADIENTS = frozenset(["tower_grad", "tower_clip", "grad", "clip"])

# The rows of a sparse gradient are two tensors: what is added, and to which rows.
ROW_VALUES = ".values"
ROW_INDICES = ".indices"

Quantity = str
_SECTION = "section"


class TensorKey(NamedTuple):
    """The name of a tensor in a trace, taken apart; `str` puts it together again.

    Fields:
      section: the optimizer it belongs to where there are several, else "".
      quantity: one of `QUANTITIES`.
      tower: "0", "1", ... ("0.1" is micro-batch 1 of tower 0), or "" where the quantity has none.
      slot: the slot's name for quantity "slot", else "".
      name: the variable, input, layer or metric; "" for a tower's one loss.
    """

    section: str
    quantity: Quantity
    tower: str
    slot: str
    name: str

    def __str__(self) -> str:
        """Returns the name as a trace has it, e.g. "slot/m/conv1/kernel"; the inverse of `parse_key`."""
        section, quantity, tower, slot, name = self
        if name and not (section or tower or slot):
            return f"{quantity}/{name}"
        prefix = [_SECTION, section] if section else []
        return "/".join(prefix + [part for part in (quantity, tower, slot, name) if part])

    def of(self, quantity: Quantity) -> "TensorKey":
        """Returns the key of another quantity of the same variable: of a slot that of its weight, which has no section."""
        section = "" if quantity in UPDATED else self.section
        tower = self.tower if quantity in PER_TOWER else ""
        return TensorKey(section, quantity, tower, self.slot if quantity == "slot" else "", self.name)

    @property
    def variable(self) -> str:
        """The name without what tells the rows of a sparse gradient from their places: that of the weight."""
        for part in (ROW_VALUES, ROW_INDICES):
            if self.name.endswith(part):
                return self.name[: -len(part)]
        return self.name


def key_of(
    quantity: Quantity, name: str = "", *, tower: Union[int, str] = "", slot: str = "", section: str = ""
) -> TensorKey:
    """Returns the key of a tensor, e.g. ``key_of("slot", "conv1/kernel", slot="m")``."""
    return TensorKey(section, quantity, str(tower), slot, name)


def trace_name(
    quantity: Quantity, name: str = "", *, tower: Union[int, str] = "", slot: str = "", section: str = ""
) -> str:
    """Returns how a trace calls a tensor, e.g. ``trace_name("slot", "conv1/kernel", slot="m")``: "slot/m/conv1/kernel"."""
    return str(TensorKey(section, quantity, str(tower), slot, name))


# Every step of a comparison has the same names; the limit keeps a server of many cases from growing for ever.
@functools.lru_cache(maxsize=1 << 16)
def parse_key(text: str) -> TensorKey:
    """Takes a trace's name apart, e.g. "slot/m/conv1/kernel" or "tower_grad/0/conv1/kernel".

    Raises:
      TraceError: the name does not start with a quantity, or lacks its tower, slot or variable.
    """
    quantity, _, name = text.partition("/")
    if name and quantity in _OF_A_NAME_ALONE:  # most names; of 100,000 tensors each is taken apart several times
        return TensorKey("", quantity, "", "", name)
    parts = text.split("/")
    section = ""
    if parts[0] == _SECTION and len(parts) > 2:  # no quantity is called so
        section, parts = parts[1], parts[2:]
    quantity, rest = parts[0], parts[1:]
    if quantity not in EXECUTION_RANK:
        raise TraceError(
            "trace: expected a name that starts with one of {}, got {!r}. Record it again.".format(
                ", ".join(QUANTITIES), text
            )
        )
    tower = rest.pop(0) if quantity in PER_TOWER and rest else ""
    slot = rest.pop(0) if quantity == "slot" and rest else ""
    name = "/".join(rest)
    incomplete = (quantity in PER_TOWER and not tower) or (quantity == "slot" and not slot)
    if incomplete or (not name and quantity != "loss"):
        raise TraceError(
            f"trace: expected {text!r} to go on (quantity, then tower or slot, then name). Record it again."
        )
    return TensorKey(section, quantity, tower, slot, name)


def quantity_of(text: str) -> Quantity:
    """Returns the quantity in a trace's name, whatever section it belongs to; unlike `parse_key` it checks nothing."""
    parts = text.split("/", 3)
    return parts[2] if parts[0] == _SECTION and len(parts) > 2 else parts[0]


def role_of(key: TensorKey) -> str:
    """Returns what a tensor is to its variable, e.g. "slot/m" or "section/head/slot/m": the key without the variable."""
    return str(key._replace(tower="", name=""))


def select(tensors: Mapping[str, T], *quantities: Quantity) -> Dict[str, T]:
    """Returns those of some quantities, of every section, out of a dict by trace name."""
    return {text: value for text, value in tensors.items() if quantity_of(text) in quantities}


# Sections: of several optimizers each has its slots and counters in one, and in a recorded script its feeds, losses and
# gradients too. Weights, statistics and averages belong to the model, and are in none.


def section_prefix(section: str) -> str:
    """Returns what a section's names start with; "" where there is one optimizer only."""
    return f"{_SECTION}/{section}/" if section else ""


def section_of(text: str) -> str:
    """Returns the section that a trace's name belongs to, or ""; unlike `parse_key` it checks nothing else."""
    parts = text.split("/", 2)
    return parts[1] if parts[0] == _SECTION and len(parts) > 2 else ""


# Counters with a meaning of their own.
GLOBAL_STEP = "state/global_step"
LEARNING_RATE = "state/learning_rate"
LOSS_SCALE = "state/loss_scale"
SKIPPED = "state/skipped"
_COMPUTED = frozenset(["learning_rate", "skipped"])


def is_computed(text: str) -> bool:
    """Tells whether a counter is recorded although no variable holds it: it is computed in the step."""
    return quantity_of(text) == "state" and parse_key(text).name in _COMPUTED


def is_learning_rate(text: str) -> bool:
    """Tells whether a counter is the learning rate, of whichever section."""
    return quantity_of(text) == "state" and parse_key(text).name == "learning_rate"


# A file of whole batches names its inputs without a tower.


def batch_name(name: str) -> str:
    """Returns how a file of batches calls an input: a whole batch belongs to no tower."""
    return f"feed/{name}"


def batch_input(text: str) -> str:
    """Returns the input that a file of batches calls so; the inverse of `batch_name`."""
    return text[len("feed/") :] if text.startswith("feed/") else text


# Greedy: of an input whose own name holds "feed/" only what is behind the last one is returned. It stays so, for by
# this name a recorded shadow has drawn by how much the input moves, see `tie_breaking`.
_INPUT = re.compile(r"(?:.*/)?feed/(?:[0-9.]+/)?(.+)")


def input_of(text: str) -> Optional[str]:
    """Returns the input that a name stands for, of a tower's shard and of a whole batch alike; None for all else."""
    found = _INPUT.match(text) if quantity_of(text) == "feed" else None
    return found.group(1) if found else None


def tower_order(tower: str) -> Tuple[int, ...]:
    """Returns a sort key that counts towers as numbers: "2" before "10", "0.1" after "0"."""
    return tuple(int(part) if part.isdecimal() else -1 for part in tower.split(".")) if tower else ()


# What an evaluation after training gives, named the same on both sides: ``eval/<output>`` and ``eval/loss`` with the
# weights as they are, ``eval/ema/<output>`` and ``eval/ema/loss`` with the moving averages in their place. An output
# whose own name would be taken for one of these is ``eval/outputs/<output>``.

EVALUATED_LOSS = "loss"
AVERAGES = "ema/"
OUTPUTS = "outputs/"


class Evaluated(NamedTuple):
    """The name of an evaluated tensor, taken apart.

    Fields:
      averages: whether moving averages stood in for the weights.
      output: the output's own name; None for the loss.
    """

    averages: bool
    output: Optional[str]


def evaluated(loss: Any, outputs: Mapping[str, Any], averages: bool = False) -> Dict[str, Any]:
    """Returns dict of trace name to value: the outputs in their order, then the loss.

    Args:
      loss: of the batch.
      outputs: dict of name to whatever else was computed.
      averages: whether moving averages stand in for the weights.
    """
    named = {format_evaluated(Evaluated(averages, name)): value for name, value in outputs.items()}
    named[format_evaluated(Evaluated(averages, None))] = loss
    return {"eval/" + name: value for name, value in named.items()}


def parse_evaluated(name: str) -> Evaluated:
    """Takes apart what stands behind "eval/"."""
    averages = name.startswith(AVERAGES)
    rest = name[len(AVERAGES) :] if averages else name
    if rest == EVALUATED_LOSS:
        return Evaluated(averages, None)
    return Evaluated(averages, rest[len(OUTPUTS) :] if rest.startswith(OUTPUTS) else rest)


def format_evaluated(parts: Evaluated) -> str:
    """Puts a name together again; the inverse of `parse_evaluated`."""
    own = EVALUATED_LOSS if parts.output is None else parts.output
    # `parse_evaluated` is its inverse for every name: one that begins as something else does is put behind "outputs/".
    ambiguous = parts.output is not None and (own == EVALUATED_LOSS or own.startswith((AVERAGES, OUTPUTS)))
    return (AVERAGES if parts.averages else "") + (OUTPUTS if ambiguous else "") + own
