"""Starts the torch side of a replay: the port, with the recorded optimizer's twin or its own."""

from collections.abc import Iterable, Sequence
from collections.abc import Mapping as TableOf
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from parity.experiment.mapping.of_replay import Trying, decide_by_recorded
from parity.experiment.replay.script import Part, ReplayError
from parity.experiment.runs import FREE_RUN_QUANTITIES
from parity.experiment.sides.densify import DenseTrace
from parity.experiment.spec import FORWARD, Progress, RunSpec, Side, progress_for, silent, start_forward, start_run
from parity.judge.port_values import Written, written_into
from parity.mapping import Draft, Mapping, MappingEntry, draft_mapping, leave_idle_out, require_total, variables_of
from parity.mapping.states import translated, translated_batch, write_init, write_states
from parity.mapping.trace_map import Join, Renaming
from parity.trace import GLOBAL_STEP, Forward, Trace
from parity.trace.arrays import Tensors

RECORDED_QUANTITIES = ("state", "feed", "stat", "loss", "tower_grad", "grad", "clip", "slot", "var")


class TrainingModule(NamedTuple):
    """A port's own training program, whose `train` is run and judged too: see `torch_ddp.worker.training_program`.

    Fields:
      name: of the module.
      suffixes: dict of section to what names of its functions and parts end with: "_d" where its loss is `loss_d`.
      fed: the sections whose learning rate the script feeds, where nobody has written what: they get the recorded one.
    """

    name: str
    suffixes: TableOf[str, str]
    fed: frozenset[str] = frozenset()


class Port(NamedTuple):
    """The torch side of a replay.

    Fields:
      model: "module:name"; "" where a program is launched as it is.
      losses: dict of section to "module:name"; the section is "" where the script has one optimizer.
      optimizers: dict of section to "module:function" of the model; without one it is the twin of the recorded one.
      folders: where to look for the modules.
      silence: seconds without a heartbeat after which it is ended.
      steps: dict of section to "module:function", a whole training step; without one the tool combines and updates.
      program: its training program, None where there is none.
      schedules: dict of section to "module:function" of the step, the learning rate of the port's own optimizer; without one
        it sets it itself.
    """

    model: str
    losses: dict[str, str]
    optimizers: dict[str, str]
    folders: list[str]
    silence: float
    steps: TableOf[str, str] = MappingProxyType({})
    program: TrainingModule | None = None
    schedules: TableOf[str, str] = MappingProxyType({})


class ReplayedPort:
    """The port of one part, ready to run.

    Args:
      part: what was recorded.
      port: the torch side.
      side: its process.
      entries, named: of the mapping, as `load_mapping` gives them.
      out: folder for what is written.
      tick: told how far a run is: what, done, total.
      shadow: the float64 shadow of what was recorded, where there is one.

    Attributes:
      join: names and layouts.
      draft: the mapping, and what of it is guessed.
      mapping: of the variables.
      prepared: by precision, what the side answered.
      draws_left: what is to be said of recorded draws that it has not taken, "" where it took all.
    """

    def __init__(
        self,
        part: Part,
        port: Port,
        side: Side,
        entries: dict[str, MappingEntry],
        named: dict[str, dict[str, MappingEntry]],
        out: Path,
        tick: Progress = silent,
        shadow: Trace | None = None,
    ) -> None:
        self.part = part
        self._port, self._side, self._out, self._tick = port, side, out, tick
        self._round = False
        self.draws_left = ""
        self._case = _case(part, port)
        # Built first to see its variables, with an optimizer that moves nothing: which one it gets depends on the
        # mapping.
        plain = {**self._case, "optimizer": {"name": "sgd", "learning_rate": 0.0}}
        found = self._prepare(plain, "float32")
        variables = variables_of(found["variables"])
        self._own_values: dict[str, list[float]] = found["own_values"]  # before what this part does not train is frozen
        names = {quantity: Renaming(quantity, found) for quantity, found in named.items()}
        drafted = draft_mapping(variables_of(part.variables), variables, entries)
        self.draft = leave_idle_out(drafted, variables, entries, part.idle())
        require_total(self.draft)
        if any(guess.open for guess in self.draft.guesses):

            def joined(draft: Draft) -> Join:
                return Join(draft.mapping(), names, [])

            def prepare(recorded: dict[str, Any]) -> dict[str, Any]:
                tried = {name: value for name, value in plain.items() if name not in ("step", "watch")}
                return self._prepare({**tried, "draws": recorded["draws"]}, "float64", "tried")

            at_once = 1 if port.model else len(part.steps)  # a program is launched for every run
            self.draft = decide_by_recorded(self.draft, Trying(part, shadow, side, prepare, joined, out, at_once))
        self.mapping: Mapping = self.draft.mapping()
        recorded = part.training(self.mapping)
        self._case.update(draws=recorded["draws"], trained=recorded["trained"])
        self._case["optimizer"] = port.optimizers.get(part.name) or {"recorded": recorded}
        # Anew, in both precisions: the first build had neither the optimizer nor the rates.
        self.prepared = self._both()
        self.join = Join(self.mapping, names, self.prepared["float32"]["facts"]["slots"], loaded=part.held)
        self._spec = self._write_spec()

    @property
    def folder(self) -> Path:
        """The folder for what is written."""
        return self._out

    @property
    def initial_slots(self) -> dict[str, list[float]]:
        """What its optimizer itself puts into its slots, the smallest and the largest element of each."""
        return dict(self.prepared["float32"]["initial_slots"])

    @property
    def written(self) -> list[Written]:
        """What is written into it beside weights that train.

        Only its transforms' constants are expected: what a script starts its variables at may come from a checkpoint.
        """
        return written_into(self.mapping, self.join, {}, self._own_values)

    @property
    def own_optimizer(self) -> bool:
        """Whether the port brings its own."""
        return self.part.name in self._port.optimizers

    def round_hyper_parameters(
        self, moved_statistics: TableOf[str, tuple[float, float]] = MappingProxyType({})
    ) -> None:
        """Builds everything anew, with the hyper-parameters of the port's own optimizer rounded to float32.

        Args:
          moved_statistics: how the script moves each moving statistic beside the port.
        """
        self._round = True
        self._case["moved_statistics"] = dict(moved_statistics)
        self.prepared = self._both()

    def run(self, precision: str) -> Trace:
        """Runs every step in lockstep; returns the trace."""
        return self._run(self._spec._replace(name=precision, precision=precision), self.prepared[precision])

    def run_from(self, name: str, states: Iterable[tuple[int, Tensors]], feeds: Path | None = None) -> Trace:
        """Runs every step in lockstep in float64 from other states, in a build that has made no step.

        Args:
          name: of the run.
          states: number and, in its own names and layouts, the state before each step.
          feeds: other batches, as `write_feeds` leaves them.

        Returns:
          The trace, without feeds.
        """
        spec = self._spec._replace(
            name=name,
            feeds=feeds or self._spec.feeds,
            follow=write_states(self._out / f"{name}-states", states),
            # The batches are those that were written for it.
            quantities=tuple(quantity for quantity in self._spec.quantities if quantity != "feed"),
        )
        return self._run(spec, self._prepare(self._case, "float64", name))  # learning rates go by the steps of a build

    def write_feeds(self, name: str, part: Part) -> Path:
        """Leaves every batch of a part in its own names and layouts; returns the trace."""
        batches = ((number, translated_batch(self.join, part.batch(number))) for number in self.part.steps)
        return write_states(self._out / f"{name}-feeds", batches)

    def run_freely(
        self,
        start: Tensors,
        others: Iterable[tuple[int, Tensors]] | None,
        name: str = "free",
        feeds: Path | None = None,
    ) -> Trace:
        """Runs all steps in float64 with nobody resetting them, in a build that has made no step; returns the trace.

        Args:
          start: the state before the first step, in its own names and layouts; slots and counters that are not in it stay as
            its optimizer made them.
          others: number and, in its own names and layouts, what somebody else trains, as it is before each step.
          name: of the run.
          feeds: other batches, as `write_feeds` leaves them.
        """
        spec = self._spec._replace(
            name=name,
            feeds=feeds or self._spec.feeds,
            start=write_init(self._out / f"{name}-start", start),
            follow=write_states(self._out / f"{name}-others", others) if others is not None else None,
            quantities=tuple(quantity for quantity in FREE_RUN_QUANTITIES if quantity in self._spec.quantities),
            partly=True,
        )
        return self._run(spec, self._prepare(self._case, "float64", name))

    @property
    def has_program(self) -> bool:
        """Whether the port has a training program of its own."""
        return self._port.program is not None

    def write_training(self, start: Tensors) -> dict[str, Any]:
        """Returns what `torch_ddp.worker.training_program` is told of this part; what it starts from is left in a file.

        Args:
          start: the state before the first step, in its own names and layouts, as of `run_freely`.
        """
        assert self._port.program is not None
        return {
            "suffix": self._port.program.suffixes[self.part.name],
            "rounded": self._round,
            "rates": [self.part.rate(number) for number in self.part.steps],
            "fed": self.part.name in self._port.program.fed,
            "draws": bool(self._case["draws"]),
            "watch": _watched(self.part),
            "feeds": str(self._spec.feeds),
            "start": str(write_init(self._out / "train-start", start)),
            "steps": list(self.part.steps),
            "out": str(self._out / "torch-train"),
        }

    def train(self, sections: Sequence[dict[str, Any]]) -> list[Trace]:
        """Has the program's own `train` make all steps in float64; returns a trace for each section.

        Args:
          sections: of the script, as `write_training` returns them.
        """
        assert self._port.program is not None
        asked = self._side.ask(
            "train",
            progress_for(self._tick, "torch train()"),
            program=self._port.program.name,
            folders=[*self._port.folders, str(self._out)],
            precision="float64",
            sections=list(sections),
        )
        asked.result()
        return [DenseTrace(Path(each["out"])) for each in sections]

    def _run(self, spec: RunSpec, prepared: dict[str, Any]) -> Trace:
        out = self._out / (f"torch-{spec.name}-rounded" if self._round else f"torch-{spec.name}")
        what = f"torch {self.part.name} {spec.name}" if self.part.name else f"torch {spec.name}"
        trace = start_run(self._side, self._tick, what, spec, out, prepared=prepared["prepared"]).result()
        self.draws_left = self.draws_left or str(trace.facts.get("draws_left", ""))
        return trace

    def again(
        self,
        name: str,
        steps: list[int],
        batches: list[Tensors],
        states: list[Tensors],
        random_seed: int | None = None,
        precision: str = "float64",
        uncut: Sequence[str] | None = None,
    ) -> Trace:
        """Runs some steps once more, from states and batches in its own names and layouts; the rest is as of `RunSpec`."""
        spec = self._spec._replace(
            name=name,
            precision=precision,
            feeds=write_states(self._out / f"{name}-feeds", zip(steps, batches, strict=True)),
            follow=write_states(self._out / f"{name}-states", zip(steps, states, strict=True)),
            steps=steps,
            recorded_counters=True,
            random_seed=random_seed,
            uncut=uncut,
        )
        prepared = self.prepared[precision]["prepared"]
        return start_run(self._side, silent, name, spec, self._out / name, prepared=prepared).result()

    def forward(self, number: int, tower: str) -> Forward:
        """Returns the forward pass of one rank in one step, in float64, from the recorded state."""
        out, prepared = self._out / FORWARD, self.prepared["float64"]["prepared"]
        start_forward(self._side, self._spec, out, number, tower, prepared=prepared).result()
        return Forward(out)

    def batch(self, number: int) -> Tensors:
        """Returns a whole batch as it is fed."""
        return translated_batch(self.join, self.part.batch(number))

    def state(self, number: int) -> Tensors:
        """Returns the state before a step, in its own names and layouts."""
        return translated(self.join, self.part.before(number))

    def _both(self) -> dict[str, dict[str, Any]]:
        return {name: self._prepare(self._case, name) for name in ("float32", "float64")}

    def _prepare(self, case: dict[str, Any], precision: str, build: str = "") -> dict[str, Any]:
        asked = self._side.ask(
            "prepare",
            case=case,
            folders=[*self._port.folders, str(self._out)],
            precision=precision,
            round_hyper_parameters=self._round,
            build=build,
        )
        found: dict[str, Any] = asked.result()
        return found

    def _write_spec(self) -> RunSpec:
        steps = self.part.steps
        feeds = ((number, self.batch(number)) for number in steps)
        states = ((number, self.state(number)) for number in steps)
        # What the recording lacks, or has another number for in every run, is not asked of the port.
        without = {"stat"} if self.part.racing else set()
        without |= set() if self.part.has_tower_gradients else {"tower_grad"}
        return RunSpec(
            "lockstep",
            "float64",
            write_states(self._out / "feeds", feeds),
            write_init(self._out / "start", self.state(steps[0])),
            write_states(self._out / "states", states),
            tuple(quantity for quantity in RECORDED_QUANTITIES if quantity not in without),
            steps,
        )


def check_port(part: Part, port: Port) -> None:
    """Checks that a port has what a part needs.

    Raises:
      ReplayError: it has no loss for it, or no optimizer where the script clips.
    """
    if part.name not in port.losses:
        wanted = f"--loss {part.name}=MODULE:FUNCTION" if part.name else "--loss MODULE:FUNCTION"
        given = ", ".join(sorted(port.losses)) or "none"
        raise ReplayError(f"replay: expected a loss for the optimizer {part.name!r}, got {given}. Add {wanted}.")
    if part.facts.get("clipped") and not {part.name} & {*port.optimizers, *port.steps}:
        raise ReplayError(
            "replay: expected gradients that are applied as they are combined, got clipped ones. "
            "Name an optimizer that clips with --optimizer MODULE:FUNCTION, or a step with --step MODULE:FUNCTION."
        )


def _case(part: Part, port: Port) -> dict[str, Any]:
    own_step = {"step": port.steps[part.name]} if part.name in port.steps else {}
    return {
        **own_step,
        **_schedule(part, port),
        "replayed": True,
        "clips": "combined" if part.facts.get("clipped") else "",
        "model": port.model,
        "loss": port.losses[part.name],
        "ranks": part.towers,
        "combine": part.facts["combine"],
        "combining": {"sparse": "slices"} if part.applies_rows else {},
        "backend": "gloo",
        "seed": 0,
        "trains_in": part.facts.get("precision") or "float32",
        # What the port's own optimizer does to gradients before its step is clipping where the script clips, else
        # combining.
        "watch": _watched(part) if part.name in port.optimizers else None,
    }


def _watched(part: Part) -> str:
    """The quantity that stands for what an optimizer of the port's own is given."""
    return "clip" if part.facts.get("clipped") else "grad"


def _schedule(part: Part, port: Port) -> dict[str, Any]:
    if part.name not in port.schedules:
        return {}
    rates = {}
    for place, number in enumerate(part.steps):
        made = int(part.before(number).get(GLOBAL_STEP, place))
        if part.recorded_rate(number) is not None:
            rates[str(made)] = part.rate(number)
    return {"scheduler": port.schedules[part.name], "recorded_rates": rates}
