"""Reads a recorded trace as one optimizer's training: a script with several has a section for each."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from parity.experiment.replay.required import number_of, require_facts
from parity.mapping import Mapping
from parity.record.combination import given_as_clipped
from parity.trace import (
    GLOBAL_STEP,
    LEARNING_RATE,
    ROW_INDICES,
    ROW_VALUES,
    STATE,
    TensorFile,
    Trace,
    TraceError,
    batch_name,
    break_ties,
    break_ties_of_inputs,
    parse_key,
    quantity_of,
    read_graph,
    section_of,
    section_prefix,
    select,
    trace_name,
)
from parity.trace.arrays import Array, Tensors, dense_rows

REPLAYED = frozenset(["state", "feed", "noise", "stat", "loss", "tower_grad", "grad", "clip", "slot", "var"])
REPLAYED_STATE = REPLAYED & STATE
AVERAGE_QUANTITIES = frozenset(["ema"])  # moved by a training program, not by a replayed step
RACING, RACING_AVERAGES = "unordered_statistics", "unordered_average"
DRAW = "recorded_draw_"


class ReplayError(ValueError):
    """A trace cannot be replayed; the message says who, what was expected, what came and what to do."""


@dataclass(frozen=True)
class Part:
    """One optimizer's part of a recorded trace.

    Attributes:
      name: the optimizer's section, "" where there is one only.
      trace: the recorded trace.
      facts: of this part.
      steps: numbers of the steps in which it trains.
      trained: names of the variables that it updates, or None for all.
      left: what is recorded and not replayed, in words; grows as files are read.
      aside: what is moved before every step, seeded with its number: nothing, "weights" by `break_ties`, or "inputs" too
        by `break_ties_of_inputs`.
      held: names of variables that are neither weights nor statistics, and that the port holds: what is on the way to a
        statistic, as a count is. They are loaded, and not judged.
      averaged: whether the moving averages of the weights are part of it.
      sections: names of the optimizers that it is of, each with its names in the trace; () where it is of one.
    """

    name: str
    trace: Trace
    facts: dict[str, Any]
    steps: list[int]
    trained: frozenset[str] | None
    left: set[str]
    aside: Literal["", "weights", "inputs"] = ""
    held: frozenset[str] = frozenset()
    averaged: bool = False
    sections: tuple[str, ...] = ()

    def averaging(self) -> "Part":
        """Returns the part with its moving averages, unless they race with the update and so are others in every run.

        A script with several optimizers says of no average which of them moves it.
        """
        races = any(hazard["name"] == RACING_AVERAGES for hazard in self.facts.get("hazards", []))
        return replace(self, averaged=not races and not self.name)

    def holding(self, names: Collection[str]) -> "Part":
        """Returns the part with a port that holds those of some names that are recorded as neither weight nor statistic."""
        recorded = self.trace.step(self.steps[0]).keys("state")
        known = {key.name for key in recorded if not key.section} - {*self.trace.variables}
        held = frozenset(known.intersection(names))
        left = self.left | {f"the state {name}, which is loaded and not judged" for name in held}
        return replace(self, held=held, left=left)

    @property
    def held_keys(self) -> list[str]:
        """The names in a state of what the port holds beside weights and statistics."""
        return [trace_name("stat", name) for name in sorted(self.held)]

    @property
    def variables(self) -> dict[str, dict[str, Any]]:
        """What the trace says of its variables, and what it would say of those that the port holds beside them."""
        first = self.trace.step(self.steps[0])
        shapes = {name: list(first.shape(trace_name("state", name))) for name in sorted(self.held)}
        return {
            **self.trace.variables,
            **{name: {"shape": shape, "dtype": "float32", "kind": "statistic"} for name, shape in shapes.items()},
        }

    @property
    def prefix(self) -> str:
        """What its names start with in the trace."""
        return section_prefix(self.name)

    @property
    def racing(self) -> bool:
        """Whether the moving statistics are another number in every run."""
        return any(hazard["name"] == RACING for hazard in self.facts.get("hazards", []))

    @property
    def has_tower_gradients(self) -> bool:
        """Whether each tower's gradients are recorded: not where the towers' losses are joined and differentiated once."""
        return any(self.own(text) is not None for text in self.trace.step(self.steps[0]).names("tower_grad"))

    @property
    def by_hand(self) -> bool:
        """Whether the script writes the updates itself, so that its numbers are its own constants, no optimizer's.

        In an optimizer of a class of its own too, which traces of before do not tell.
        """
        return bool(self.facts["optimizer"].get("name") == "HandWritten" or self.facts.get("by_hand"))

    @property
    def of_torch(self) -> bool:
        """Whether it is a recorded PyTorch program, whose hyper-parameters no graph has rounded."""
        return str(self.trace.producer.get("package", "")).startswith("torch_ddp")

    @property
    def applies_rows(self) -> bool:
        """Whether the script's optimizer is given rows for some variable, so that it leaves the others alone."""
        owned = (text for text in self.trace.step(self.steps[0]).names("grad") if self.own(text) is not None)
        return any(text.endswith(ROW_INDICES) for text in owned)

    @property
    def towers(self) -> int:
        """The number of towers."""
        return int(self.facts["towers"])

    @property
    def begins(self) -> bool:
        """Whether the recording starts with the training, so that slots and counters are what an optimizer begins with.

        No optimizer of TensorFlow's fills a slot with different numbers: such come from a checkpoint.
        """
        start = self.before(self.steps[0])
        counts = [value for text, value in start.items() if _without_section(text) == GLOBAL_STEP]
        if self.facts.get("skipped_steps") or any(number_of(count, GLOBAL_STEP, self.trace) for count in counts):
            return False
        # One number throughout: what an initialiser of a slot writes.
        filled = [value for value in select(start, "slot").values() if value.size]
        return all(value.min() == value.max() for value in filled) and (self.steps[0] == 0 or bool(self.name))

    def tensors(self, number: int, file: TensorFile) -> Tensors:
        """Returns what a port can repeat of a step, of the trace's own file or of its shadow's."""
        before = self.before(number)
        draws = _draws(self, file)
        found = dict(_kept(self, file, before, draws))
        # A program of PyTorch shows clipping in the steps alone in which it changes anything.
        return given_as_clipped(found) if self.of_torch and self.facts.get("clipped") else found

    def before(self, number: int) -> Tensors:
        """Returns the state before a step: what the step before left, and its own counters."""
        # Variables from the step before, counters from the step itself: the script may set its rate or count between
        # steps.
        last = self.trace.step(number - 1) if number else self.trace.init()
        state = {own: last.read(text) for text, own in self._own(last) if quantity_of(own) != "state"}
        for name in self.sections:
            state.update(self._slots_before(number, name))
        now = self.trace.step(number)
        counters = {own: now.read(text) for text, own in self._own(now) if quantity_of(own) == "state"}
        if self.name:
            counters.pop(GLOBAL_STEP, None)  # counts the updates of several optimizers
        names = {text: parse_key(text).name for text in counters}
        state.update(
            {trace_name("stat", names[own]): value for own, value in counters.items() if names[own] in self.held}
        )
        return self._moved({**state, **counters}, number)

    def unmoved(self) -> frozenset[str]:
        """Returns the names of the moving statistics that are in every recorded step what they were before the first."""
        start = self.trace.init()
        names = {key.name for key in start.keys("stat")}
        for number in self.trace.step_numbers:
            file = self.trace.step(number)
            texts = {name: trace_name("stat", name) for name in names}
            names = {
                name
                for name, text in texts.items()
                if text in file and np.array_equal(file.read(text), start.read(text))
            }
        return frozenset(names)

    def idle(self) -> frozenset[str]:
        """Returns the names of those of them that nothing which trains reads either: a port need not have them."""
        return frozenset(name for name in self.unmoved() if not self.trace.variables.get(name, {}).get("use"))

    def moved_by_others(self, number: int) -> set[str]:
        """Returns the names of variables that another of several optimizers has trained since this one's step before."""
        last = max((step for step in self.steps if step < number), default=number)
        between = [step for step in self.trace.step_numbers if last <= step < number]
        keys = [key for step in between for key in self.trace.step(step).keys("grad")]
        return {key.variable for key in keys if key.section != self.name}

    def _slots_before(self, number: int, section: str) -> Tensors:
        """What one of several optimizers keeps before a step: what the last step has left that it made."""
        for earlier in range(number - 1, -1, -1):
            file = self.trace.step(earlier)
            # Also where it keeps none: an optimizer that has stepped has its learning rate there.
            if section_prefix(section) + LEARNING_RATE in file:
                return {text: file.read(text) for text in file.names("slot") if section_of(text) == section}
        file = self.trace.init()
        return {text: file.read(text) for text in file.names("slot") if section_of(text) == section}

    def fed(self) -> dict[str, list[int]]:
        """Returns the numbers of the steps that are fed each input, of several optimizers; one is fed all in every step."""
        found: dict[str, list[int]] = {}
        for number in self.steps if self.sections else ():
            owned = (self.own(text) for text in self.trace.step(number).names("feed"))
            for name in sorted({parse_key(text).name for text in owned if text is not None}):
                found.setdefault(name, []).append(number)
        return found

    def batch(self, number: int) -> Tensors:
        """Returns a whole batch, dict of "feed/<input>" to array, the towers' pieces put together."""
        tensors = self.tensors(number, self.trace.step(number))
        fed = {text: value for text, value in select(tensors, "feed").items() if f"/{DRAW}" not in text}
        tensors.update(self._moved(fed, number))
        names = [key.name for key in map(parse_key, tensors) if (key.quantity, key.tower) == ("feed", "0")]
        batch: Tensors = {}
        for name in names:
            keys = [trace_name("feed", name, tower=tower) for tower in range(self.towers)]
            # Each tower's piece in the order of the towers, which is how ranks cut the batch again.
            pieces = [tensors[key] for key in keys if key in tensors]
            if len({piece.shape for piece in pieces}) != 1 or len(pieces) != self.towers:
                divides = len({piece.shape[:1] for piece in pieces}) == 1 and len(pieces) == self.towers
                do = "Have the script pad all towers to one length" if divides else "Record batches that divide"
                raise ReplayError(
                    f"replay: expected equal shards of {name!r} for {self.towers} towers in step {number}, got "
                    f"{', '.join(str(piece.shape) for piece in pieces)}. {do}."
                )
            batch[batch_name(name)] = np.concatenate(pieces)
        return batch

    def rate(self, number: int) -> float:
        """Returns the learning rate of a step."""
        recorded = self.recorded_rate(number)
        if recorded is not None:
            return recorded
        return number_of(
            self.facts["optimizer"].get("learning_rate", 0.0), f"learning rate of step {number}", self.trace
        )

    def recorded_rate(self, number: int) -> float | None:
        """Returns the learning rate of a step where it was recorded with it."""
        file = self.trace.step(number)
        texts = [section_prefix(name) + LEARNING_RATE for name in self.sections or (self.name,)]
        rates = [number_of(file.read(text), f"{text} of step {number}", self.trace) for text in texts if text in file]
        # Of several optimizers that step at once none stands for all.
        return rates[0] if len(rates) == 1 else None

    def training(self, mapping: Mapping) -> dict[str, Any]:
        """Returns what a torch side is told of the training that was recorded, the table `recorded` of what it prepares.

        Args:
          mapping: of the script's variables to the port's.

        Returns:
          JSON values: "trained", names of the port's parameters that this part trains, None for all; "optimizer", name and
          hyper-parameters of the script's; "rates", its learning rate by step; "draws", whether draws are given back.
        """
        trained = None
        if self.trained is not None:
            pairs = (pair for pair in mapping.pairs if pair.reference in self.trained)
            trained = [*dict.fromkeys(name for pair in pairs for name in pair.candidate)]
        return {
            "trained": trained,
            "optimizer": {name: value for name, value in self.facts["optimizer"].items() if name != "learning_rate"},
            "rates": [self.rate(number) for number in self.steps],
            "draws": any(DRAW in name for name in self.batch(self.steps[0])),
        }

    def own(self, text: str) -> str | None:
        """Returns a trace's name as this part has it, or None where it is another optimizer's."""
        section = section_of(text)
        if section and section in self.sections:
            # A batch is that of all optimizers that train on it.
            return text if quantity_of(text) != "feed" else _without_section(text)
        if not section:
            return text
        return text[len(self.prefix) :] if section == self.name else None

    def _moved(self, tensors: Tensors, number: int) -> Tensors:
        if self.aside == "inputs":
            return break_ties_of_inputs(tensors, number)
        return break_ties(tensors, number) if self.aside else tensors

    def _own(self, file: TensorFile) -> Iterator[tuple[str, str]]:
        for text in file.names(*REPLAYED_STATE, *(AVERAGE_QUANTITIES if self.averaged else ())):
            own = self.own(text)
            if own is not None:
                yield text, own


def parts_of(trace: Trace, any_combination: bool = False) -> list[Part]:
    """Returns the parts of a recorded trace.

    Args:
      trace: as `parity record` leaves it.
      any_combination: whether parts may combine gradients otherwise than DDP: the port's own program combines them then.

    Raises:
      ReplayError: it has no steps, no optimizer trains in any, or a part combines gradients in a way that DDP does not know.
    """
    if not trace.step_numbers:
        raise ReplayError(f"replay: expected recorded steps in {trace.directory}, got none. Record it again.")
    sections: dict[str, dict[str, Any]] = trace.facts.get("sections") or {"": {}}
    parts = []
    for name, facts in sections.items():
        steps = [number for number in trace.step_numbers if not name or _trained(trace, number, name)]
        if not steps:
            continue
        # A section's facts, such as its optimizer, before those of the whole script.
        merged = {**trace.facts, **facts}
        merged.pop("sections", None)
        trained = frozenset(_trained(trace, steps[0], name)) if name else None
        if merged.get("combine") == "unknown" and merged.get("towers") == 1:
            merged["combine"] = "mean"  # of one gradient
        require_facts(trace, merged)
        parts.append(Part(name, trace, merged, steps, trained, set()))
        if not any_combination and merged.get("combine") not in ("mean", "sum"):
            raise ReplayError(
                f'replay: expected gradients that are combined by "mean" or "sum", got {merged.get("combine")!r}. '
                "Write both traces and use `parity compare`."
            )
    if not parts:
        raise ReplayError(
            f"replay: expected a recorded step in which an optimizer trains, got none in {len(trace.step_numbers)} steps of "
            f"{', '.join(sections)}. Record more steps."
        )
    return parts


def launched_part(trace: Trace) -> Part:
    """Returns what of a recording a program that is launched as it is repeats.

    Raises:
      ReplayError: it is a script of TensorFlow with several optimizers.
    """
    parts = parts_of(trace, any_combination=True)
    # Their float64 shadow has a free run of each by itself, and a program trains all at once.
    if len(parts) > 1 and not parts[0].of_torch:
        raise ReplayError(
            "replay: expected a recording with one optimizer for a program that is launched as it is, got "
            f"{len(parts)}: {', '.join(part.name for part in parts)}. Replay its parts with --torch and --loss "
            "OPTIMIZER=MODULE:FUNCTION."
        )
    return _as_one(parts)


def _as_one(parts: Sequence[Part]) -> Part:
    """Returns all parts of a recorded program of PyTorch as one: of several optimizers each has its names in the trace."""
    first = parts[0]
    if len(parts) == 1:
        return first
    steps = sorted({number for part in parts for number in part.steps})
    facts = {**first.facts, "clipped": any(part.facts.get("clipped") for part in parts)}
    return Part("", first.trace, facts, steps, None, set(), sections=tuple(part.name for part in parts))


def _without_section(text: str) -> str:
    return str(parse_key(text)._replace(section=""))


def _trained(trace: Trace, number: int, section: str) -> set[str]:
    return {key.variable for key in trace.step(number).keys("grad") if key.section == section}


def _kept(part: Part, file: TensorFile, before: Tensors, draws: dict[str, str]) -> Iterator[tuple[str, Array]]:
    for text in file.names():
        own = part.own(text)
        if own is None:
            continue
        key = parse_key(own)
        if text in draws:
            yield draws[text], file.read(text)
        elif part.averaged and key.quantity in AVERAGE_QUANTITIES:
            yield own, file.read(text)
        elif key.quantity not in REPLAYED or (part.racing and key.quantity == "stat"):
            part.left.add(key.quantity)
        elif key.quantity == "feed" and not file.shape(text):
            part.left.add(f"the scalar feed {key.name}")
        elif (part.name or part.sections) and _without_section(own) == GLOBAL_STEP:
            part.left.add("global_step, which is no single optimizer's")
        # Another optimizer's variable: the port must leave it as it was, whatever the script did with it in this run.
        elif part.trained is not None and key.quantity == "var" and key.name not in part.trained:
            value = before[own]
            yield own, value.astype(file.read(text).dtype)
        elif key.name.endswith(ROW_VALUES):
            yield _dense(part, file, text, own)
        elif not key.name.endswith(ROW_INDICES):
            yield own, file.read(text)


def _dense(part: Part, file: TensorFile, text: str, own: str) -> tuple[str, Array]:
    key = parse_key(own)
    indices = file.read(text.removesuffix(ROW_VALUES) + ROW_INDICES)
    dense = dense_rows(file.read(text), indices, part.trace.table_shape(key.variable))
    return str(key._replace(name=key.variable)), dense


def _draws(part: Part, file: TensorFile) -> dict[str, str]:
    """Names the draws of every tower by their place in the order of drawing, those of a loop with its number."""
    order, loops = _order_and_loops(part.trace)
    by_tower: dict[str, list[tuple[int, str]]] = {}
    for text in file.names():
        own = part.own(text)
        key = parse_key(own) if own else None
        if key is not None and key.quantity == "noise":
            by_tower.setdefault(key.tower, []).append((order.get(key.name, 0), text))
    named = {}
    for tower, found in by_tower.items():
        numbers: dict[str, int] = {}
        # By the order of drawing in the graph, for names of the two sides have nothing in common.
        for place, (_, text) in enumerate(sorted(found)):
            loop = loops.get(text)
            number = f"_in_loop_{numbers.setdefault(loop, len(numbers))}" if loop else ""
            named[text] = trace_name("feed", f"{DRAW}{place}{number}", tower=tower)
    return named


def _order_and_loops(trace: Trace) -> tuple[dict[str, int], dict[str, str]]:
    """The place of each op among the others, and the loop or branch of each draw that is in one."""
    try:
        graph = read_graph(trace.directory)
    except TraceError:  # refused, it is in the notes: see `refused_parts`
        return {}, {}
    order = {node["name"]: place for place, node in enumerate(graph.nodes)}
    values = [value for run in graph.runs for value in run["values"].items()]
    return order, {text: described["loop"] for text, described in values if "loop" in described}
