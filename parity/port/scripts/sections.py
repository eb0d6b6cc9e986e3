"""What a training program is written from: one optimizer of the script or several, what it feeds, and who trains when."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from parity.experiment.replay.script import DRAW, Part
from parity.port.scripts.initial import Initial
from parity.port.training.optimizer import Training
from parity.port.training.rates import RATE_ARGUMENT
from parity.trace import parse_key


class Section(NamedTuple):
    """One optimizer of a training program.

    Fields:
      suffix: what names of its functions and parts end with, "" where the script has one optimizer.
      part: what was recorded of it.
      training: what stands between its gradients and its weights.
      defined: which of "optimizer", "schedule" and "averages" the port has of it.
    """

    suffix: str
    part: Part
    training: Training
    defined: frozenset[str]

    @property
    def schedule(self) -> str:
        """The function that gives its learning rate, "" where that does not change."""
        if self.training.fed:
            return RATE_ARGUMENT + self.suffix
        return f"schedule{self.suffix}" if "schedule" in self.defined else ""

    @property
    def turn(self) -> str:
        """What the program calls it."""
        return self.suffix.removeprefix("_")


class Program(NamedTuple):
    """What a training program is written from.

    Fields:
      script: name of the recorded script.
      sections: its optimizers.
      initial: the first values.
      statistics: whether the model has moving statistics.
      turns: in which order several optimizers make updates, None where there is none or but one optimizer.
      inputs: by recorded name of an input, what the port calls it, where that is another name.
    """

    script: str
    sections: Sequence[Section]
    initial: Initial
    statistics: bool
    turns: "Turns | None" = None
    inputs: Mapping[str, str] = MappingProxyType({})

    @property
    def towers(self) -> int:
        """The number of towers."""
        return self.sections[0].part.towers

    @property
    def combine(self) -> str:
        """How gradients are combined: "mean" or "sum"."""
        return str(self.sections[0].part.facts["combine"])


class Input(NamedTuple):
    """What a rank is fed.

    Fields:
      name: of the input.
      dtype: of it.
      shape: on one rank, with "batch" for a length that changes from step to step.
    """

    name: str
    dtype: str
    shape: tuple[object, ...]


def inputs_of(part: Part) -> list[Input]:
    """Returns what each rank is fed in the steps of one optimizer, as it was recorded."""
    found: dict[str, Input] = {}
    for number in part.steps:
        file = part.trace.step(number)
        for text in file.names("feed"):
            own = part.own(text)
            key = parse_key(own) if own else None
            if key is None or key.tower != "0" or DRAW in key.name or not file.shape(text):
                continue
            shape: tuple[object, ...] = tuple(file.shape(text))
            known = found.get(key.name)
            if known is not None and len(known.shape) == len(shape):
                shape = tuple(one if one == other else "batch" for one, other in zip(known.shape, shape, strict=True))
            found[key.name] = Input(key.name, file.dtype(text), shape)
    return list(found.values())


class Turns(NamedTuple):
    """In which order several optimizers make updates.

    Fields:
      order: of each update which one, by its place; the order begins anew behind its end.
      seen_twice: whether the recorded steps hold it twice or more.
    """

    order: list[int]
    seen_twice: bool


def turns_of(parts: Sequence[Part]) -> Turns | None:
    """Returns the shortest order whose repetition the recorded steps are; None where several train in one step."""
    recorded = sorted((number, place) for place, part in enumerate(parts) for number in part.steps)
    places = [place for _, place in recorded]
    if len({number for number, _ in recorded}) < len(recorded):
        return None
    # The steps may end in the middle of a repetition.
    shortest = next(
        length
        for length in range(1, len(places) + 1)
        if all(place == places[index % length] for index, place in enumerate(places))
    )
    return Turns(places[:shortest], len(places) >= 2 * shortest)
