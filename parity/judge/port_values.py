"""What is written into the port beside weights that train: its own buffers and constants, judged before that."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from parity.judge import allowances
from parity.judge.judge import MeasuredPair, allow
from parity.judge.metrics import distance, norm
from parity.judge.result import Check
from parity.mapping import Mapping as VariableMapping
from parity.mapping import Pair, Variable
from parity.mapping.trace_map import Join
from parity.trace import key_of, parse_key, trace_name
from parity.trace.arrays import Array

MOST_NAMES = 4  # names of a kind
Values = Mapping[str, Sequence[float]]


class Written(NamedTuple):
    """A buffer or constant of the port that a run overwrites.

    Fields:
      key: its name in the reference's trace, e.g. "stat/pixel_mean".
      names: the port's own.
      what: what it is, for the report: "buffer", or "constant of lstm_bias(1.0)".
      expected: what the reference starts it at, in the reference's layout; None where that is drawn at random or not known.
      own: what the port itself starts it at, in the same layout; None where that is not known.
    """

    key: str
    names: tuple[str, ...]
    what: str
    expected: Array | None
    own: Array | None


def written_into(mapping: VariableMapping, join: Join, reference: Values, candidate: Values) -> list[Written]:
    """Returns what a run writes into the port beside weights that train.

    Args:
      mapping: of the variables.
      join: names and layouts.
      reference: trace name ("stat/<variable>") to the elements that the reference starts it at, in C order, without those
        that it draws at random.
      candidate: trace name ("stat/<buffer>", or "var/<parameter>" of one that is frozen) to the elements of its own.
    """
    found = []
    for pair in mapping.pairs:
        if not pair.candidate:
            continue
        # Weights have no such name on either side, and are passed over.
        key = key_of("stat", pair.reference)
        # What neither side trains it loads, as it does weights that train: what a port starts it at is not its own.
        names = () if pair.frozen else join.candidates(key)
        text, own = str(key), {name: np.array(candidate[name]) for name in names if name in candidate}
        # Listed also where only one side tells: the report names all that is written into the port.
        if own or text in reference:
            expected = _reshaped(reference.get(text), pair.shape)
            found.append(
                Written(
                    text,
                    pair.candidate,
                    "weight that is not trained" if pair.frozen else "buffer",
                    expected,
                    _read(pair, own),
                )
            )
        found += _constants(pair, candidate)
    return found


def _reshaped(values: Sequence[float] | None, shape: tuple[int, ...]) -> Array | None:
    # Elements travel as JSON lists, in C order.
    return None if values is None else np.array(values, np.float64).reshape(shape)


def _read(pair: Pair, own: Mapping[str, Array]) -> Array | None:
    shapes = pair.transform.shapes(pair.shape)
    # A transform needs all parts to go back: of some only nothing can be told.
    if len(own) != len(pair.candidate):
        return None
    parts = {
        name: own[trace_name("stat", name)].reshape(shape) for name, shape in zip(pair.candidate, shapes, strict=True)
    }
    return pair.transform.backward(*parts.values(), shape=pair.shape)


def _constants(pair: Pair, candidate: Values) -> list[Written]:
    # A part that is the same whatever the variable holds is the transform's own; frozen, it is a constant of the port.
    if len(pair.candidate) < 2:
        return []
    # Forward of zeros and of ones, (parts,): what is the same for both depends on no value of the reference's.
    parts = zip(
        pair.candidate, *(pair.transform.forward(fill(pair.shape)) for fill in (np.zeros, np.ones)), strict=True
    )
    return [
        Written(
            trace_name("var", pair.reference),
            (name,),
            f"constant of {pair.transform}",
            np.asarray(one, np.float64),
            np.array(candidate[trace_name("var", name)]).reshape(one.shape),
        )
        for name, one, other in parts
        if trace_name("var", name) in candidate and np.array_equal(one, other)
    ]


def judge_own_values(written: Iterable[Written]) -> list[Check]:
    """Judges what the port's buffers and constants are by themselves, which overwriting them would hide."""
    checks = []
    for each in written:
        if each.expected is None or each.own is None:
            continue
        # Initial values are float32 constants of the graph: 0.1 in a port's float64 is the same number.
        one, other = (np.asarray(value, np.float32) for value in (each.expected, each.own))
        at = int(np.argmax(np.abs(other - one))) if one.size else 0
        note = (
            f"the port's own {', '.join(each.names)} is {_shown(other, at)}, and {_shown(one, at)} is written into it"
        )
        size = norm(one)
        found = MeasuredPair(
            0, parse_key(each.key), each.key, size, distance(one, other), size, rounding=(norm(other),)
        )
        checks.append(allow("fresh", found, lambda pair, note=note: allowances.started(pair)._replace(note=note)))
    return checks


def written_notes(written: Sequence[Written], kept: Sequence[Variable]) -> list[str]:
    """Returns what the report says of them, and of the port's own buffers, which nothing was written into.

    Args:
      written: what was overwritten.
      kept: the port's buffers that the mapping does not cover.
    """
    notes = []
    alike: dict[str, list[str]] = {}
    for each in written:
        # Grouped by kind: a net has hundreds of running means, which are one line.
        alike.setdefault(f"{each.what}{_how(each)}", []).extend(each.names)
    told = [f"{_some(names)} ({what})" for what, names in alike.items()]
    if told:
        notes.append(f"written into the port besides its weights: {'; '.join(told)}")
    if kept:
        names = _some([variable.name for variable in kept])
        notes.append(f"the port's own, with no counterpart in the reference, and left as the port makes it: {names}")
    return notes


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more


def _how(each: Written) -> str:
    if each.expected is None:
        return ", whose start was not judged: it is drawn at random, loaded, or large"
    return ", its own start judged first" if each.own is not None else ", its own start not known"


def _shown(value: Array, at: int) -> str:
    # One number, up to three, or of more the one at a place.
    flat = np.asarray(value).ravel()
    # One number tells all of a constant buffer.
    if flat.size and (flat == flat[0]).all():
        return f"{float(flat[0]):.6g}"
    if flat.size > 3:
        return f"{float(flat[at]):.6g} at [{', '.join(map(str, np.unravel_index(at, value.shape)))}]"
    return "[" + ", ".join(f"{float(each):.6g}" for each in flat) + "]"
