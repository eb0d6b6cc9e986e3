"""Records a case on both sides: which runs are made, from which states, in which order."""

import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from parity.case import Case, as_declared
from parity.judge.join import Join
from parity.judge.level1 import Lockstep
from parity.judge.renaming import Renaming
from parity.mapping import Mapping, build_mapping, variables_of
from parity.run.perturb import as_float64, one_roundoff, one_ulp, reordered
from parity.run.processes import Sides
from parity.run.races import Races, with_statistics_moved, with_tower_first
from parity.run.roles import REPETITION, Asked, Reference, TensorFlowRole, Tick, TorchRole
from parity.run.states import (
    Tensors,
    read_all,
    state_to_evaluate,
    states_before,
    translated,
    translated_batch,
    write_init,
    write_states,
)
from parity.trace import Trace

DRAWS = 4
REPLICAS = 3
REPEATED = 3
EVERYTHING = (
    "state",
    "feed",
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
)
FREE = ("state", "stat", "loss", "grad", "clip", "slot", "var", "ema", "metric")
SPREAD = ("act", "stat", "loss", "tower_grad", "tower_clip", "grad", "clip", "slot", "var", "ema", "metric")
NO_MODE = (
    "inference was not judged, for the tower says nothing of it: write def tower(..., training=True), and return with "
    "training=False what the model computes after training"
)
NOT_BLESSED = "inference was not judged, for the golden trace has none of it: bless it again"
WEIGHTS, FEEDS = frozenset(["var"]), frozenset(["feed"])


@dataclass
class Recorded:
    """Everything that was recorded of a case.

    Attributes:
      join: names and layouts of both sides.
      lockstep: the traces made from the same states.
      start: the state that everything starts from, in the reference's names.
      initial_slots: what each side's optimizer itself puts into its slots, reference and candidate: dict of trace name to
        the smallest and the largest element.
      reference_free, candidate_free: float64 runs that nobody reset.
      replicas: float64 runs of the reference started one ulp away.
      reference_draws, candidate_draws: float32 steps under perturbation.
      pairs: the mapping, as text.
      races: None where no statistic of the reference races.
      notes: what the report is to say of how it was recorded.
      repeats: by side, its float32 lockstep's first steps once more; no reference's where a golden trace stands for it.
    """

    join: Join
    start: Trace
    lockstep: Lockstep
    reference_free: Trace
    candidate_free: Trace
    initial_slots: tuple[dict[str, list[float]], dict[str, list[float]]]
    replicas: list[Trace] = field(default_factory=list)
    reference_draws: list[Trace] = field(default_factory=list)
    candidate_draws: list[Trace] = field(default_factory=list)
    pairs: list[tuple[str, str, str, str]] = field(default_factory=list)
    races: Races | None = None
    notes: list[str] = field(default_factory=list)
    repeats: dict[str, Trace] = field(default_factory=dict)


class _Both(NamedTuple):
    tf: Path
    torch: Path


class Begun(NamedTuple):
    """What a recording begins with.

    Fields:
      join: names and layouts of both sides.
      pairs: the mapping, as text.
      reference: its float32 trajectory, under way.
    """

    join: Join
    pairs: list[tuple[str, str, str, str]]
    reference: "Future[Trace]"


class Playing(NamedTuple):
    """The two sides of a case that is under way, and what they are fed.

    Fields:
      tf, torch: the roles.
      feeds: a trace for each whose step k holds the batch of step k.
      start: a trace for each whose init holds the state before the first step.
      steps: the steps to make.
      shards: contiguous pieces of a batch within which the order of the examples does not matter.
      out: folder for further feeds and states.
    """

    tf: Reference
    torch: TorchRole
    feeds: _Both
    start: _Both
    steps: list[int]
    shards: int
    out: Path


class Recorder:
    """Records one case with both sides.

    Args:
      case: what to run.
      sides: started processes.
      out: folder for the traces; made, and best empty.
      spread: whether to measure the spread under perturbation (level 2 needs it).
      tick: told how far it is: what, done, total.
      reference: what plays the reference; by default the TensorFlow side.
    """

    def __init__(
        self,
        case: Case,
        sides: Sides,
        out: Path,
        spread: bool = True,
        tick: Tick = lambda what, done, total: None,
        reference: Reference | None = None,
    ) -> None:
        self._case = case
        self._sides = sides
        self._out = out
        self._spread = spread
        self._tick = tick
        self._steps = list(range(case.steps))
        self._repeats = 0
        self._live = reference is None
        self._tf: Reference = reference or TensorFlowRole(as_declared(case), sides, out / "tf", tick)
        self._torch = TorchRole(case, sides, out / "torch", tick)
        out.mkdir(parents=True, exist_ok=True)

    def begin(self) -> Begun:
        """Has both sides get ready, and the reference make its float32 trajectory, from which all else is made.

        Raises:
          SideFailed: a side could not do its part.
          MappingError: the variables do not join.
        """
        join, pairs = self._prepare()
        self._join = join
        self._feeds = self._write_feeds(join)
        self._start = self._write_start(join)
        asked = Asked("float32", "float32", self._feeds.tf, self._start.tf, None, self._everything, self._steps)
        return Begun(join, pairs, self._tf.run(asked))

    @property
    def candidate_facts(self) -> dict[str, Any]:
        """What the candidate says of itself when it has begun."""
        facts = self._torch.prepare("float32").result()["facts"]
        return {**facts, "producer": {"package": "torch_ddp", "framework": facts["framework"]}}

    @property
    def playing(self) -> Playing:
        """The sides and what they are fed, once it has begun."""
        shards = self._case.towers * self._case.micro_batches
        return Playing(self._tf, self._torch, self._feeds, self._start, self._steps, shards, self._out)

    def record(self, begun: Begun | None = None) -> Recorded:
        """Runs everything and returns the traces.

        Args:
          begun: what `begin` returned, where it has begun.

        Raises:
          SideFailed: a side could not do its part.
          MappingError: the variables do not join.
        """
        join, pairs, asked = begun or self.begin()
        free = self._torch_free()
        rough = asked.result()
        self._states = self._write_states(join, rough)
        candidates = self._torch_lockstep()
        references = self._tf_float64()
        repeats = self._repeat_lockstep()
        draws = list(self._draws(join)) if self._spread else []
        racing = self._run_orders(candidates) if self._racing else None
        return Recorded(
            join=join,
            start=Trace(self._start.tf),
            lockstep=Lockstep(
                reference32=rough,
                reference64=references["float64"].result(),
                candidate32=candidates["float32"].result(),
                candidate64=candidates["float64"].result(),
                states=Trace(self._states.tf),
            ),
            reference_free=references["free"].result(),
            candidate_free=free.result(),
            initial_slots=self._fresh,
            replicas=[references[f"replica-{number}"].result() for number in range(REPLICAS)],
            reference_draws=[reference.result() for reference, _ in draws],
            candidate_draws=[candidate.result() for _, candidate in draws],
            pairs=pairs,
            races=racing,
            notes=self._tf.notes + self._not_judged,
            repeats={side: again.result() for side, again in repeats.items()},
        )

    @property
    def _everything(self) -> tuple[str, ...]:
        return EVERYTHING + self._inference

    @property
    def towers(self) -> int:
        """The number of towers."""
        return self._case.towers

    @property
    def batch_norm_updates(self) -> str:
        """Which tower's statistics survive in the reference."""
        return self._case.tf.batch_norm_updates

    def batch(self, step: int) -> Tensors:
        """Returns a whole batch as the candidate is fed it, dict of "feed/<input>" to array."""
        return read_all(Trace(self._feeds.torch).step(step))

    def state(self, step: int) -> Tensors:
        """Returns the state before a step in the candidate's names and layouts."""
        return read_all(Trace(self._states.torch).step(step))

    def repeat(
        self,
        step: int,
        batch: Callable[[Tensors], Tensors],
        state: Callable[[Tensors], Tensors],
        twice: bool = False,
        cut: bool = False,
    ) -> Trace:
        """Runs one step of the candidate in float64 once more, from a changed state on a changed batch.

        Args:
          step: its number.
          batch: what becomes of the whole batch.
          state: what becomes of the state before the step; outputs beside it, "act/...", stand in the place of its own.
          twice: whether to run it two times, for ports that keep something of the step before.
          cut: whether no gradient passes such outputs.

        Returns:
          The trace; its last step is the one that counts.
        """
        self._repeats += 1
        name = f"repeat-{self._repeats}"
        steps = [step, step + 1] if twice else [step]
        feeds = write_states(self._out / "feeds" / name, ((n, batch(self.batch(step))) for n in steps))
        before = state(self.state(step))
        states = write_states(self._out / "states" / name, ((n, before) for n in steps))
        return self._torch.run(
            Asked(name, "float64", feeds, self._start.torch, states, EVERYTHING, steps, True, cut=cut)
        ).result()

    def reference_batch(self, step: int) -> Tensors:
        """Returns a whole batch as the reference is fed it, dict of "feed/<input>" to array."""
        return read_all(Trace(self._feeds.tf).step(step))

    def translated_batch(self, batch: Tensors) -> Tensors:
        """Returns a whole batch of the reference in the candidate's names and layouts."""
        return translated_batch(self._join, batch)

    def repeat_reference(
        self,
        step: int,
        batch_norm_updates: str | None = None,
        batch: Callable[[Tensors], Tensors] = lambda batch: batch,
    ) -> Trace | None:
        """Runs one step of the reference in float64 once more, where that can be had.

        Args:
          step: its number.
          batch_norm_updates: which towers' statistics survive; by default the case's.
          batch: what becomes of the whole batch.
        """
        updates = batch_norm_updates or self.batch_norm_updates
        self._repeats += 1
        name = f"reference-{self._repeats}"
        asked = Asked(
            name,
            "float64",
            write_states(self._out / "feeds" / name, [(step, batch(self.reference_batch(step)))]),
            self._start.tf,
            self._states.tf,
            EVERYTHING,
            [step],
            True,
        )
        return self._tf.run_with_statistics(updates, self._inputs, asked)

    def candidate_run(self, name: str, quantities: Sequence[str], follow: bool = True, mixed: bool = False) -> Trace:
        """Runs all steps of the candidate in float32 or mixed precision, from the states before each step or freely.

        Args:
          name: of the run.
          quantities: what to record.
          follow: whether every step starts from the reference's state, counters included.
          mixed: whether at the case's `opt_level`.
        """
        states = self._states.torch if follow else None
        asked = Asked(name, "float32", self._feeds.torch, self._start.torch, states, tuple(quantities), self._steps)
        return self._torch.run(asked._replace(recorded_counters=follow, mixed=mixed)).result()

    def candidate_states(self) -> Trace:
        """Returns the states before each step in the candidate's names and layouts."""
        return Trace(self._states.torch)

    def candidate_draw(self, name: str, seed: int, unit: float, quantities: Sequence[str]) -> tuple[Trace, Trace]:
        """Runs all steps of the candidate in float32, as if a narrower type of roundoff `unit` had rounded here and there.

        Weights and batches are moved by it, and so are products and their gradients.

        Returns:
          The trace, and the states before its steps.
        """
        state, fed = Trace(self._states.torch), Trace(self._feeds.torch)
        moved = ((n, one_roundoff(read_all(state.step(n)), 31 * seed + 1009 * n, WEIGHTS, unit)) for n in self._steps)
        batches = ((n, one_roundoff(read_all(fed.step(n)), 37 * seed + 1013 * n, FEEDS, unit)) for n in self._steps)
        states = write_states(self._out / "states" / name, moved)
        feeds = write_states(self._out / "feeds" / name, batches)
        asked = Asked(name, "float32", feeds, self._start.torch, states, tuple(quantities), self._steps, True)
        return self._torch.run(asked._replace(noise=(unit, seed))).result(), Trace(states)

    def repeat_with_batch_norm(self, step: int, over_all_ranks: bool | None) -> Trace:
        """Runs one step of the candidate in float64 once more, batch norm over all ranks or (None) over each one's shard."""
        self._repeats += 1
        asked = Asked(
            f"repeat-{self._repeats}",
            "float64",
            self._feeds.torch,
            self._start.torch,
            self._states.torch,
            EVERYTHING,
            [step],
            True,
        )
        return self._torch.run_with_batch_norm(over_all_ranks, asked)

    def state_to_evaluate(self) -> Tensors:
        """What both sides evaluated from, in the candidate's names and layouts."""
        return self.state(len(self._steps))

    def evaluate_again(
        self, change: Callable[[Tensors], Tensors] = lambda state: state, evaluation: str = "eval"
    ) -> Trace:
        """Has the candidate evaluate once more after the last step, in float64.

        Args:
          change: what becomes of the state that it evaluates from.
          evaluation: "eval" mode, "train" mode, or in evaluation mode after "other draws".

        Returns:
          The trace; its last step holds the evaluation.
        """
        asked = self._asked_to_evaluate(self._states.torch, change, evaluation)
        return self._torch.run(asked._replace(feeds=self._feeds.torch, start=self._start.torch)).result()

    def evaluate_reference_again(self, change: Callable[[Tensors], Tensors]) -> Trace | None:
        """Has the reference evaluate once more from a changed state in its own names; None where it is a trace."""
        if not isinstance(self._tf, TensorFlowRole):
            return None
        self._tf.prepare("float64", self._inputs).result()
        asked = self._asked_to_evaluate(self._states.tf, change, "eval")
        return self._tf.run(asked._replace(feeds=self._feeds.tf, start=self._start.tf)).result()

    def _asked_to_evaluate(self, known: Path, change: Callable[[Tensors], Tensors], evaluation: str) -> Asked:
        self._repeats += 1
        name, last = f"evaluation-{self._repeats}", self._steps[-1]
        before, after = (read_all(Trace(known).step(step)) for step in (last, last + 1))
        states = write_states(self._out / "states" / name, [(last, before), (last + 1, change(after))])
        return Asked(name, "float64", known, known, states, ("eval",), [last], True, evaluation=evaluation)

    def again_with_rounded_hyper_parameters(self, recorded: Recorded) -> Recorded:
        """Records the candidate once more, its hyper-parameters rounded to float32, its schedule's rates the reference's."""
        self._torch = TorchRole(
            self._case,
            self._sides,
            self._out / "torch-rounded",
            self._tick,
            round_hyper_parameters=True,
            rates=_rates(recorded.lockstep.reference64) if self._case.torch.scheduler else None,
        )
        free = self._torch_free()
        candidates = self._torch_lockstep()
        lockstep = recorded.lockstep._replace(
            candidate32=candidates["float32"].result(), candidate64=candidates["float64"].result()
        )
        return replace(recorded, lockstep=lockstep, candidate_free=free.result())

    def _prepare(self) -> tuple[Join, list[tuple[str, str, str, str]]]:
        case = self._case
        feeding = self._tf.batches(self._out / "feeds" / "tf")
        self._tick("start TensorFlow and torch", 0, 1)
        candidate = self._torch.prepare("float32")
        self._inputs = feeding.result()
        tf, torch = self._tf.prepare("float32", self._inputs).result(), candidate.result()
        self._racing = tuple(tf["facts"].get("racing_statistics", ()))
        self._tick("start TensorFlow and torch", 1, 1)
        self._inference = ("eval",) if tf.get("inference") else ()
        self._not_judged = [] if self._inference else [NO_MODE if "inference" in tf else NOT_BLESSED]
        mapping = build_mapping(variables_of(tf["variables"]), variables_of(torch["variables"]), case.mapping)
        self._choose_what_decays(mapping)
        if case.optimizers:
            self._give_to_parts(mapping, tf["variables"])
            torch = self._torch.prepare("float32").result()
        names = {str(quantity): Renaming(quantity, entries) for quantity, entries in case.mapping_of.items()}
        pairs = [(pair.reference, " + ".join(pair.candidate), str(pair.transform), pair.why) for pair in mapping.pairs]
        return Join(mapping, names, torch["facts"]["slots"]), pairs

    def _choose_what_decays(self, mapping: Mapping) -> None:
        decay = self._case.optimizer.weight_decay if self._case.optimizer else None
        if decay is not None and decay.only:
            chosen = [pair for pair in mapping.pairs if re.search(decay.only, pair.reference)]
            self._torch.decay_only([name for pair in chosen for name in pair.candidate])

    def _give_to_parts(self, mapping: Mapping, variables: dict[str, Any]) -> None:
        weights = [pair for pair in mapping.pairs if variables[pair.reference]["kind"] == "weight"]
        taken = {
            name: [own for pair in weights if re.search(part.only or "", pair.reference) for own in pair.candidate]
            for name, part in self._case.optimizers.items()
        }
        self._torch.give_to_parts(taken)

    def _write_feeds(self, join: Join) -> _Both:
        tf = self._out / "feeds" / "tf"
        trace = Trace(tf)
        batches = ((step, translated_batch(join, read_all(trace.step(step)))) for step in self._steps)
        return _Both(tf, write_states(self._out / "feeds" / "torch", batches))

    def _write_start(self, join: Join) -> _Both:
        tf = self._out / "start" / "tf"
        self._fresh = self._tf.initialize(tf), dict(self._torch.prepare("float32").result()["initial_slots"])
        return _Both(tf, write_init(self._out / "start" / "torch", translated(join, read_all(Trace(tf).init()))))

    def _write_states(self, join: Join, rough: Trace) -> _Both:
        states = [*states_before(rough, self._steps), state_to_evaluate(rough)]
        tf = write_states(self._out / "states" / "tf", states)
        return _Both(
            tf, write_states(self._out / "states" / "torch", ((n, translated(join, state)) for n, state in states))
        )

    def _tf_float64(self) -> dict[str, "Future[Trace]"]:
        self._tf.prepare("float64", self._inputs).result()
        start, states = self._start.tf, self._states.tf
        lockstep = Asked("float64", "float64", self._feeds.tf, start, states, self._everything, self._steps)
        free = lockstep._replace(name="free", follow=None, quantities=FREE + self._inference)
        asked = [lockstep, free, *(self._replica(free, number) for number in range(REPLICAS))]
        return {each.name: self._tf.run(each) for each in asked}

    def _replica(self, free: Asked, number: int) -> Asked:
        name = f"replica-{number}"
        start, feeds = Trace(free.start), Trace(free.feeds)
        moved = one_ulp(as_float64(read_all(start.init())), number, WEIGHTS)
        batches = (
            (step, one_ulp(as_float64(read_all(feeds.step(step))), 1000 * number + step, FEEDS)) for step in self._steps
        )
        return free._replace(
            name=name,
            start=write_init(self._out / "start" / name, moved),
            feeds=write_states(self._out / "feeds" / name, batches),
        )

    def _repeat_lockstep(self) -> dict[str, "Future[Trace]"]:
        steps = self._steps[:REPEATED]
        asked = Asked(
            REPETITION, "float32", self._feeds.torch, self._start.torch, self._states.torch, EVERYTHING, steps
        )
        repeats = {"candidate": self._torch.run(asked)}
        if self._live:
            mine = asked._replace(feeds=self._feeds.tf, start=self._start.tf, follow=self._states.tf)
            repeats["reference"] = self._tf.run(mine)
        return repeats

    def _torch_free(self) -> "Future[Trace]":
        quantities = FREE + self._inference
        return self._torch.run(
            Asked("free", "float64", self._feeds.torch, self._start.torch, None, quantities, self._steps)
        )

    def _torch_lockstep(self) -> dict[str, "Future[Trace]"]:
        feeds, start, states = self._feeds.torch, self._start.torch, self._states.torch
        return {
            precision: self._torch.run(Asked(precision, precision, feeds, start, states, self._everything, self._steps))
            for precision in ("float64", "float32")
        }

    def _run_orders(self, lockstep: "dict[str, Future[Trace]]") -> Races:
        feeds, start, states, towers = self._feeds.torch, self._start.torch, self._states.torch, self._case.towers
        alone: dict[str, list[Future[Trace]]] = {precision: [run] for precision, run in lockstep.items()}
        batches, before = Trace(feeds), Trace(states)
        for tower in range(1, towers):
            name = f"tower-{tower}-first"
            changed = ((n, with_tower_first(read_all(batches.step(n)), tower, towers)) for n in self._steps)
            swapped = write_states(self._out / "feeds" / f"torch-{name}", changed)
            for precision, runs in alone.items():
                asked = Asked(f"{name}-{precision}", precision, swapped, start, states, ("stat",), self._steps)
                runs.append(self._torch.run(asked))
        shifted = ((n, with_statistics_moved(read_all(before.step(n)))) for n in self._steps)
        moved = write_states(self._out / "states" / "torch-moved", shifted)
        last = self._torch.run(Asked("statistics-moved", "float64", feeds, start, moved, ("stat",), self._steps))
        traces = {precision: [run.result() for run in runs] for precision, runs in alone.items()}
        return Races(self._racing, traces, last.result())

    def _draws(self, join: Join) -> Iterator[tuple["Future[Trace]", "Future[Trace]"]]:
        steps = sorted({0, len(self._steps) // 2, len(self._steps) - 1})
        state, fed = Trace(self._states.tf), Trace(self._feeds.tf)
        for draw in range(2 * DRAWS):
            ulp = draw < DRAWS
            name = f"ulp-{draw}" if ulp else f"order-{draw - DRAWS}"
            drawn = [
                (step, *self._drawn(read_all(state.step(step)), read_all(fed.step(step)), draw, step, ulp))
                for step in steps
            ]
            states = [(step, before) for step, before, _ in drawn]
            feeds = [(step, batch) for step, _, batch in drawn]
            out, into = self._out / "states", self._out / "feeds"
            asked = Asked(name, "float32", into / f"tf-{name}", self._start.tf, out / f"tf-{name}", SPREAD, steps, True)
            write_states(out / f"tf-{name}", states)
            write_states(into / f"tf-{name}", feeds)
            reference = self._tf.run(asked)
            write_states(out / f"torch-{name}", ((n, translated(join, before)) for n, before in states))
            write_states(into / f"torch-{name}", ((n, translated_batch(join, batch)) for n, batch in feeds))
            moved = asked._replace(feeds=into / f"torch-{name}", start=self._start.torch, follow=out / f"torch-{name}")
            yield reference, self._torch.run(moved)

    def _drawn(self, before: Tensors, batch: Tensors, draw: int, step: int, ulp: bool) -> tuple[Tensors, Tensors]:
        if not ulp:
            shards, uneven = self._case.towers * self._case.micro_batches, self._case.tf.uneven or "refuse"
            return before, reordered(batch, shards, 7901 * draw + step, uneven)
        return one_ulp(before, 7919 * draw + step, WEIGHTS), one_ulp(batch, 7907 * draw + step, FEEDS)


def _rates(trace: Trace) -> dict[int, float]:
    files = {step: trace.step(step) for step in trace.step_numbers}
    key = "state/learning_rate"
    return {step: float(file.read(key)) for step, file in files.items() if key in file}
