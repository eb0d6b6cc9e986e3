"""What a program's launches left, as a side answers: in the names, sections and quantities that the recording has."""

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from parity.record.combination import given_as_clipped
from parity.trace import ROW_INDICES, ROW_VALUES, Trace, parse_key, quantity_of, select
from parity.trace.arrays import Tensors
from parity.worker.failures import SideFailed

TORCH_SIDE = "torch"  # in messages


class Recorded(NamedTuple):
    """The recording that a program is to train on.

    Fields:
      first: number of its first step.
      towers: how many there are.
      clipped: whether its gradients were clipped after they were combined.
      rates: dict of step to its learning rate.
      sections: of several optimizers dict of name to the shapes of what it trains, in order.
      fed: of several optimizers dict of input to the numbers of the steps that are fed it.
    """

    first: int
    towers: int
    clipped: bool
    rates: Mapping[str, float]
    sections: Mapping[str, Sequence[Sequence[int]]] = MappingProxyType({})
    fed: Mapping[str, Sequence[int]] = MappingProxyType({})


def prepared_as(described: Mapping[str, Any], recorded: Recorded, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what a side answers to `prepare`.

    Args:
      described: of the program, by one of its launches.
      recorded: what it trains on.
      arguments: of the request.
    """
    asked = {
        "precision": arguments["precision"],
        "rounded": bool(arguments.get("round_hyper_parameters")),
        "moved_statistics": dict(arguments.get("case", {}).get("moved_statistics") or {}),
        "rates": dict(recorded.rates),
    }
    if recorded.sections:
        steps = {name: [number - recorded.first for number in numbers] for name, numbers in recorded.fed.items()}
        asked.update(sections=described["sections"], fed=steps)
    return {
        "facts": {**described["facts"], "precision": arguments["precision"], "slots": described["slots"]},
        "variables": dict(described["variables"]),
        "prepared": json.dumps(asked, sort_keys=True),
        "initial_slots": described["initial_slots"],
        "own_values": described["own_values"],
    }


def named_sections(recorded: Mapping[str, Sequence[Sequence[int]]], described: Mapping[str, Any]) -> dict[str, str]:
    """Returns dict of a program's optimizer to the recorded one that it stands for: by name, else by what it alone trains.

    Args:
      recorded: as of `Recorded.sections`.
      described: of the program, as `torch_ddp.record.described` leaves it.

    Raises:
      SideFailed: several were recorded, and which is which cannot be told.
    """
    variables = dict(described["variables"])
    own = {name: sorted(variables[each]["shape"] for each in names) for name, names in described["sections"].items()}
    found = {name: name for name in recorded if name in own}
    for name, shapes in recorded.items():
        wanted = sorted(map(list, shapes))
        fitting = [each for each, held in own.items() if each not in found and held == wanted]
        if name not in found.values() and len(fitting) == 1:
            found[fitting[0]] = name
    if len(recorded) != len(found):
        raise SideFailed(
            TORCH_SIDE,
            f"expected optimizers like the recorded {', '.join(recorded)}, by their variables' names or the shapes of what "
            f"they train, got {', '.join(own)}. Give them the recorded names.",
        )
    return found


def in_sections(tensors: Mapping[str, Any], section: str) -> Tensors:
    """Returns tensors with the one optimizer's name that has trained: where it was the only one, they are without."""
    if not section:
        return dict(tensors)
    shared = {"var", "stat", "ema", "feed"}
    return {
        str(key._replace(section=section) if key.quantity not in shared else key): value
        for key, value in ((parse_key(text), value) for text, value in tensors.items())
    }


def joined_towers(tensors: Mapping[str, Any]) -> Tensors:
    """Returns tensors with a rank's micro-batches added up, as its gradients are: towers "0.0" and "0.1" as "0".

    A program divides each of their losses by their number, where the loss is a mean.
    """
    found: Tensors = {}
    for text, value in tensors.items():
        key = parse_key(text)
        name = str(key._replace(tower=key.tower.partition(".")[0]))
        if name not in found:
            found[name] = value
        elif name.endswith((ROW_INDICES, ROW_VALUES)):
            # Rows behind each other: those that are there twice add up.
            found[name] = np.concatenate([found[name], value])
        else:
            found[name] = found[name] + value
    return found


def where_clipped(trace: Trace) -> str:
    """How clipping was seen: "clip" by a function of torch's, or "unseen"."""
    # In any step: where no norm was above the limit, a step of a program that clips by hand shows nothing.
    seen = any(trace.step(number).names("clip") for number in trace.step_numbers)
    return "clip" if seen else "unseen"


def with_clipped(tensors: Tensors, combined: str) -> Tensors:
    """Returns a step's tensors with what the optimizer was given as clipped gradients, whoever clipped them."""
    whole = given_as_clipped(tensors)
    # Clipped by the program's own hands, somewhere between the backward pass and the update.
    return {text: value for text, value in whole.items() if combined != "unseen" or quantity_of(text) != "grad"}


def without_clipped(tensors: Tensors) -> Tensors:
    """Returns a step's tensors with what the optimizer was given as combined gradients.

    The reference does nothing to what it combines: whatever a program does there is part of how it combines.
    """
    given = {str(parse_key(text)._replace(quantity="grad")): value for text, value in select(tensors, "clip").items()}
    left = {text: value for text, value in tensors.items() if quantity_of(text) not in ("clip", "tower_clip")}
    return {**left, **given}
