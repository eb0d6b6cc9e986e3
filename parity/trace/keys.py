"""The quantities of a training step, in the order in which a step computes them, and how tensors of a trace are named."""

import functools
from typing import Any, Dict, Mapping, NamedTuple, Optional, Tuple

# The quantities of a training step, in the order in which a step computes them. The order is the diagnosis: the
# first quantity that differs, in the first step that differs, is where the bug lives.

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
RANK_OF = {quantity: rank for rank, quantity in enumerate(QUANTITIES)}
OF_A_TOWER = frozenset(["feed", "noise", "act", "loss", "tower_grad", "tower_clip"])
OF_A_VARIABLE = frozenset(["stat", "tower_grad", "tower_clip", "grad", "clip", "slot", "var", "ema"])


class Key(NamedTuple):
    """One name in a trace, taken apart.

    Fields:
      section: the optimizer it belongs to where there are several, else "".
      quantity: one of `QUANTITIES`.
      tower: "0", "1", ... ("0.1" is micro-batch 1 of tower 0), or "" where the quantity has none.
      slot: the slot's name for quantity "slot", else "".
      name: the variable, input, layer or metric; "" for a tower's one loss.
    """

    section: str
    quantity: str
    tower: str
    slot: str
    name: str


@functools.lru_cache(maxsize=1 << 16)
def parse_key(text: str) -> Key:
    """Takes a trace's name apart, e.g. "slot/m/conv1/kernel" or "tower_grad/0/conv1/kernel".

    Raises:
      ValueError: the name does not start with a quantity, or lacks its tower, slot or variable.
    """
    parts = text.split("/")
    section = ""
    if parts[0] == "section" and len(parts) > 2:
        section, parts = parts[1], parts[2:]
    quantity, rest = parts[0], parts[1:]
    if quantity not in RANK_OF:
        raise ValueError(
            "trace: expected a name that starts with one of {}, got {!r}.".format(", ".join(QUANTITIES), text)
        )
    tower = rest.pop(0) if quantity in OF_A_TOWER and rest else ""
    slot = rest.pop(0) if quantity == "slot" and rest else ""
    name = "/".join(rest)
    incomplete = (quantity in OF_A_TOWER and not tower) or (quantity == "slot" and not slot)
    if incomplete or (not name and quantity != "loss"):
        raise ValueError(
            f"trace: expected {text!r} to go on (quantity, then tower or slot, then name). Record it again."
        )
    return Key(section, quantity, tower, slot, name)


def quantity_of(text: str) -> str:
    """Returns the quantity in a trace's name, whatever section it belongs to; unlike `parse_key` it checks nothing."""
    parts = text.split("/", 3)
    return parts[2] if parts[0] == "section" and len(parts) > 2 else parts[0]


def format_key(key: Key) -> str:
    """Puts a `Key` together again; the inverse of `parse_key`."""
    prefix = ["section", key.section] if key.section else []
    return "/".join(prefix + [part for part in (key.quantity, key.tower, key.slot, key.name) if part])


def tower_order(tower: str) -> Tuple[int, ...]:
    """Returns a sort key that counts towers as numbers: "2" before "10", "0.1" after "0"."""
    return tuple(int(part) if part.isdigit() else -1 for part in tower.split(".")) if tower else ()


# Names what an evaluation after training gives, the same on both sides (Python 3.7 and up). ``eval/<output>`` and
# ``eval/loss`` with the weights as they are, ``eval/ema/<output>`` and ``eval/ema/loss`` with the moving averages
# in their place. An output whose own name would be taken for one of these is ``eval/outputs/<output>``.

LOSS = "loss"
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
    if rest == LOSS:
        return Evaluated(averages, None)
    return Evaluated(averages, rest[len(OUTPUTS) :] if rest.startswith(OUTPUTS) else rest)


def format_evaluated(parts: Evaluated) -> str:
    """Puts a name together again; the inverse of `parse_evaluated`."""
    own = LOSS if parts.output is None else parts.output
    ambiguous = parts.output is not None and (own == LOSS or own.startswith((AVERAGES, OUTPUTS)))
    return (AVERAGES if parts.averages else "") + (OUTPUTS if ambiguous else "") + own
