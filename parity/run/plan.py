"""Runs a case on both sides: what is asked of whom, in which order."""

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from parity.case import Case
from parity.judge.join import Join
from parity.judge.level1 import Lockstep
from parity.judge.renaming import Renaming
from parity.mapping import build_mapping, variables_of
from parity.run.perturb import one_ulp, reordered
from parity.run.states import Tensors, read_all, states_before, translated, write_init, write_states
from parity.sides import DEFAULT_SILENCE, SideProcess, launch_data, launch_tf, launch_torch
from parity.trace import Trace

DRAWS = 4
REPLICAS = 3
EVERYTHING = ("state", "feed", "act", "stat", "loss", "tower_grad", "grad", "slot", "var", "metric")
FREE = ("state", "stat", "loss", "grad", "slot", "var", "metric")
SPREAD = ("act", "stat", "loss", "tower_grad", "grad", "slot", "var", "metric")
Tick = Callable[[str, int, int], None]


@dataclass
class Sides:
    """The three processes of a run; several runs may use the same ones, one after the other.

    Attributes:
      data, tf, torch: the processes.
      folder: where their logs are.
    """

    data: SideProcess
    tf: SideProcess
    torch: SideProcess
    folder: Path

    def close(self) -> None:
        """Ends all three."""
        for side in (self.data, self.tf, self.torch):
            side.close()


@contextlib.contextmanager
def open_sides(tf_python: str | None, silence: float = DEFAULT_SILENCE, folder: Path | None = None) -> Iterator[Sides]:
    """Starts all sides at once, and ends them with everything that they started.

    Args:
      tf_python: the interpreter with TensorFlow; None for this one.
      silence: seconds without a sign of life after which a side counts as hanging.
      folder: where logs go; by default a temporary one.
    """
    with contextlib.ExitStack() as stack:
        where = folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="parity-")))
        started: list[SideProcess] = []
        stack.callback(lambda: [side.close() for side in started])
        started.append(launch_tf(tf_python, where / "logs" / "tf.log", silence))
        started.append(launch_torch(where / "logs" / "torch.log", silence))
        started.append(launch_data(where / "logs" / "data.log", silence))
        yield Sides(data=started[2], tf=started[0], torch=started[1], folder=where)


@dataclass
class Recorded:
    """Everything that was recorded of a case.

    Attributes:
      join: names and layouts of both sides.
      lockstep: the traces made from the same states.
      start: the state that everything starts from, in the reference's names.
      reference_free, candidate_free: float64 runs that nobody reset.
      replicas: float64 runs of the reference started one ulp away.
      reference_draws, candidate_draws: float32 steps under perturbation.
      pairs: the mapping, as text.
    """

    join: Join
    start: Trace
    lockstep: Lockstep
    reference_free: Trace
    candidate_free: Trace
    replicas: list[Trace] = field(default_factory=list)
    reference_draws: list[Trace] = field(default_factory=list)
    candidate_draws: list[Trace] = field(default_factory=list)
    pairs: list[tuple[str, str, str, str]] = field(default_factory=list)


class Recorder:
    """Records one case with both sides.

    Args:
      case: what to run.
      sides: started processes.
      out: folder for the traces; made, and best empty.
      spread: whether to measure the spread under perturbation (level 2 needs it).
      tick: told how far it is: what, done, total.
    """

    def __init__(
        self,
        case: Case,
        sides: Sides,
        out: Path,
        spread: bool = True,
        tick: Tick = lambda what, done, total: None,
    ) -> None:
        self._case = case
        self._sides = sides
        self._out = out
        self._spread = spread
        self._round = False
        self._suffix = ""
        self._tick = tick
        self._folders = [str(folder) for folder in case.folders]
        self._steps = list(range(case.steps))
        self._prepared: dict[str, str] = {}
        out.mkdir(parents=True, exist_ok=True)

    def record(self) -> Recorded:
        """Runs everything and returns the traces.

        Raises:
          SideFailed: a side could not do its part.
          MappingError: the variables do not join.
        """
        join, pairs = self._join(*self._prepare())
        self._feeds = self._write_feeds(join)
        self._start = self._write_start(join)
        asked = self._tf_run("float32", "float32", self._feeds.tf, self._start.tf, None, EVERYTHING)
        free = self._torch_run("float64", "free", self._feeds.torch, self._start.torch, None, FREE)
        rough = asked.result()
        self._states = self._write_states(join, rough)
        candidates = self._torch_lockstep()
        references = self._tf_rest()
        draws = self._draws(join) if self._spread else []
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
            replicas=[references[f"replica-{number}"].result() for number in range(REPLICAS)],
            reference_draws=[reference.result() for reference, _ in draws],
            candidate_draws=[candidate.result() for _, candidate in draws],
            pairs=pairs,
        )

    def again_with_rounded_hyper_parameters(self, recorded: Recorded) -> Recorded:
        """Records the candidate once more, its optimizer's hyper-parameters rounded to float32."""
        self._round = True
        self._suffix = "-rounded"
        self._prepared.clear()
        free = self._torch_run("float64", "free", self._feeds.torch, self._start.torch, None, FREE)
        candidates = self._torch_lockstep()
        lockstep = recorded.lockstep._replace(
            candidate32=candidates["float32"].result(), candidate64=candidates["float64"].result()
        )
        return replace(recorded, lockstep=lockstep, candidate_free=free.result())

    def _prepare(self) -> tuple[Any, Any]:
        case = self._case
        feeding = self._sides.data.ask(
            "batches",
            self._ticker("batches"),
            batches=case.batches,
            folders=self._folders,
            steps=case.steps,
            batch_size=case.batch_size,
            seed=case.seed,
            out=str(self._out / "feeds" / "tf"),
        )
        self._tick("start TensorFlow and torch", 0, 1)
        torch32 = self._prepare_torch("float32")
        self._inputs = feeding.result()
        tf32 = self._prepare_tf("float32")
        described = tf32.result(), torch32.result()
        self._tick("start TensorFlow and torch", 1, 1)
        return described

    def _prepare_tf(self, precision: str) -> "Future[Any]":
        case = self._case
        described = {
            "tower": case.tf.tower,
            "optimizer": case.tf.optimizer or _table(case.optimizer),
            "towers": case.towers,
            "combine": case.combine,
            "variables": case.tf.variables,
            "batch_norm_updates": case.tf.batch_norm_updates,
            "seed": case.seed,
        }
        return self._sides.tf.ask(
            "prepare", case=described, folders=self._folders, inputs=self._inputs, precision=precision
        )

    def _prepare_torch(self, precision: str) -> "Future[Any]":
        case = self._case
        described = {
            "model": case.torch.model,
            "loss": case.torch.loss,
            "optimizer": case.torch.optimizer or _table(case.optimizer),
            "ranks": case.towers,
            "combine": case.torch.combine or case.combine,
            "backend": case.torch.backend,
            "seed": case.seed,
        }
        return self._sides.torch.ask(
            "prepare",
            case=described,
            folders=self._folders,
            precision=precision,
            round_hyper_parameters=self._round,
        )

    def _join(self, tf: Any, torch: Any) -> tuple[Join, list[tuple[str, str, str, str]]]:
        mapping = build_mapping(variables_of(tf["variables"]), variables_of(torch["variables"]), self._case.mapping)
        names = {quantity: Renaming(quantity, entries) for quantity, entries in self._case.mapping_of.items()}
        pairs = [(pair.reference, " + ".join(pair.candidate), str(pair.transform), pair.why) for pair in mapping.pairs]
        return Join(mapping, names, torch["facts"]["slots"]), pairs

    def _write_feeds(self, join: Join) -> "_Both":
        tf = self._out / "feeds" / "tf"
        trace = Trace(tf)
        batches = ((number, translated(join, _fed(read_all(trace.step(number))))) for number in self._steps)
        torch = write_states(self._out / "feeds" / "torch", ((n, _unfed(batch)) for n, batch in batches))
        return _Both(tf, torch)

    def _write_start(self, join: Join) -> "_Both":
        case = self._case
        tf = self._out / "start" / "tf"
        self._sides.tf.ask("initialize", precision="float32", init=case.init, seed=case.seed, out=str(tf)).result()
        torch = write_init(self._out / "start" / "torch", translated(join, read_all(Trace(tf).init())))
        return _Both(tf, torch)

    def _write_states(self, join: Join, rough: Trace) -> "_Both":
        states = list(states_before(rough, self._steps))
        tf = write_states(self._out / "states" / "tf", states)
        torch = write_states(self._out / "states" / "torch", ((n, translated(join, state)) for n, state in states))
        return _Both(tf, torch)

    def _tf_rest(self) -> dict[str, "Future[Trace]"]:
        self._prepare_tf("float64").result()
        feeds, start, states = self._feeds, self._start, self._states
        runs = {
            "float64": self._tf_run("float64", "float64", feeds.tf, start.tf, states.tf, EVERYTHING),
            "free": self._tf_run("float64", "free", feeds.tf, start.tf, None, FREE),
        }
        for number in range(REPLICAS):
            name = f"replica-{number}"
            begin = _as_float64(read_all(Trace(start.tf).init()))
            moved = write_init(self._out / "start" / name, one_ulp(begin, number, frozenset(["var"])))
            fed = Trace(feeds.tf)
            batches = (
                (step, one_ulp(_as_float64(read_all(fed.step(step))), 1000 * number + step, frozenset(["feed"])))
                for step in self._steps
            )
            moved_feeds = write_states(self._out / "feeds" / name, batches)
            runs[name] = self._tf_run("float64", name, moved_feeds, moved, None, FREE)
        return runs

    def _torch_lockstep(self) -> dict[str, "Future[Trace]"]:
        feeds, start, states = self._feeds.torch, self._start.torch, self._states.torch
        return {
            precision: self._torch_run(precision, precision, feeds, start, states, EVERYTHING)
            for precision in ("float64", "float32")
        }

    def _draws(self, join: Join) -> list[tuple["Future[Trace]", "Future[Trace]"]]:
        feeds, start, states = self._feeds, self._start, self._states
        steps = sorted({0, len(self._steps) // 2, len(self._steps) - 1})
        state, fed = Trace(states.tf), Trace(feeds.tf)
        runs = []
        for draw in range(2 * DRAWS):
            name = f"ulp-{draw}" if draw < DRAWS else f"order-{draw - DRAWS}"
            moved_states: list[tuple[int, Tensors]] = []
            moved_feeds: list[tuple[int, Tensors]] = []
            for step in steps:
                before, batch = read_all(state.step(step)), read_all(fed.step(step))
                if draw < DRAWS:
                    before = one_ulp(before, 7919 * draw + step, frozenset(["var"]))
                    batch = one_ulp(batch, 7907 * draw + step, frozenset(["feed"]))
                else:
                    batch = reordered(batch, self._case.towers, 7901 * draw + step)
                moved_states.append((step, before))
                moved_feeds.append((step, batch))
            here = _Both(
                write_states(self._out / "states" / f"tf-{name}", moved_states),
                write_states(
                    self._out / "states" / f"torch-{name}", ((n, translated(join, part)) for n, part in moved_states)
                ),
            )
            batches = _Both(
                write_states(self._out / "feeds" / f"tf-{name}", moved_feeds),
                write_states(
                    self._out / "feeds" / f"torch-{name}",
                    ((n, _unfed(translated(join, _fed(batch)))) for n, batch in moved_feeds),
                ),
            )
            runs.append(
                (
                    self._tf_run("float32", name, batches.tf, start.tf, here.tf, SPREAD, steps),
                    self._torch_run("float32", name, batches.torch, start.torch, here.torch, SPREAD, steps),
                )
            )
        return runs

    def _tf_run(
        self,
        precision: str,
        name: str,
        feeds: Path,
        start: Path,
        follow: Path | None,
        quantities: tuple[str, ...],
        steps: list[int] | None = None,
    ) -> "Future[Trace]":
        out = self._out / "tf" / name
        asked = self._sides.tf.ask(
            "run",
            self._ticker(f"TensorFlow {name}"),
            precision=precision,
            feeds=str(feeds),
            start=str(start),
            follow=str(follow) if follow else None,
            recorded_counters=steps is not None,
            steps=steps or self._steps,
            quantities=quantities,
            out=str(out),
        )
        return _then(asked, lambda _: Trace(out))

    def _torch_run(
        self,
        precision: str,
        name: str,
        feeds: Path,
        start: Path,
        follow: Path | None,
        quantities: tuple[str, ...],
        steps: list[int] | None = None,
    ) -> "Future[Trace]":
        out = self._out / "torch" / (name + self._suffix)
        if precision not in self._prepared:
            self._prepared[precision] = self._prepare_torch(precision).result()["prepared"]
        asked = self._sides.torch.ask(
            "run",
            self._ticker(f"torch {name}"),
            prepared=self._prepared[precision],
            feeds=str(feeds),
            start=str(start),
            follow=str(follow) if follow else None,
            recorded_counters=steps is not None,
            steps=steps or self._steps,
            quantities=quantities,
            out=str(out),
        )
        return _then(asked, lambda _: Trace(out))

    def _ticker(self, what: str) -> Callable[[int, int], None]:
        return lambda done, total: self._tick(what, done, total)


@dataclass(frozen=True)
class _Both:
    tf: Path
    torch: Path


def _table(optimizer: Any) -> dict[str, Any]:
    return {name: value for name, value in optimizer.model_dump().items() if value is not None}


def _fed(batch: Tensors) -> Tensors:
    # A whole batch has no tower; the join speaks of towers.
    return {text.replace("feed/", "feed/0/", 1): value for text, value in batch.items()}


def _unfed(batch: Tensors) -> Tensors:
    return {text.replace("feed/0/", "feed/", 1): value for text, value in batch.items()}


def _as_float64(tensors: Tensors) -> Tensors:
    return {
        text: value.astype("float64") if value.dtype.kind == "f" and not text.startswith("state/") else value
        for text, value in tensors.items()
    }


def _then(future: "Future[Any]", change: Callable[[Any], Trace]) -> "Future[Trace]":
    changed: Future[Trace] = Future()

    def done(finished: "Future[Any]") -> None:
        try:
            changed.set_result(change(finished.result()))
        except BaseException as error:
            changed.set_exception(error)

    future.add_done_callback(done)
    return changed
