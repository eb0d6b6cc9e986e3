"""The two roles that sides play in a case: what is asked of each, and the traces that it answers with."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from parity.case import Case
from parity.case.sides import OF_THE_BUILDER
from parity.run.dense import DenseTrace
from parity.run.processes import Sides
from parity.trace import Trace, write_json

Tick = Callable[[str, int, int], None]
# What a choice of the towers makes of the ranks' reduction, where it is none of "mean" and "sum".
OF_THE_RANKS = {"prescaled": "prescaled", "examples": "examples"}
PREPARED = "prepared.json"
INITIAL_SLOTS = "initial-slots.json"
REPETITION = "again"


class Asked(NamedTuple):
    """One run of a side.

    Fields:
      name: of the run, and of its trace's folder.
      precision: "float32" or "float64".
      feeds: trace whose step k holds the batch of step k.
      start: trace whose init holds the state before the first step.
      follow: trace whose step k holds the state before step k, for lockstep; None for a free run.
      quantities: what to record.
      steps: the steps to make.
      recorded_counters: whether step count and learning rate are taken from `follow` too, for steps out of order.
      mixed: whether the candidate runs at the case's `opt_level`; its precision is then that of what it is given.
      noise: unit roundoff and seed of roundings that the candidate adds to its products.
      cut: whether no gradient passes the outputs that `follow` gives.
      evaluation: how to evaluate where that is recorded: "eval" mode, "train" mode, or after "other draws".
    """

    name: str
    precision: str
    feeds: Path
    start: Path
    follow: Path | None
    quantities: tuple[str, ...]
    steps: Sequence[int]
    recorded_counters: bool = False
    mixed: bool = False
    noise: tuple[float, int] | None = None
    cut: bool = False
    evaluation: str = "eval"


class Reference(Protocol):
    """What plays the reference: live TensorFlow, or a golden trace of what it did.

    Attributes:
      notes: what the report is to say of it.
    """

    notes: list[str]

    def batches(self, out: Path) -> "Future[Any]":
        """Leaves a trace of the batches at `out`; answers with dict of input name to dtype and shape."""

    def prepare(self, precision: str, inputs: Any) -> "Future[Any]":
        """Gets ready for runs in a precision; answers with variables and facts."""

    def initialize(self, out: Path) -> dict[str, list[float]]:
        """Leaves a trace at `out` whose init is the state that everything starts from; answers with the initial slots."""

    def run(self, asked: Asked) -> "Future[Trace]":
        """Starts a run; its precision is prepared."""

    def run_with_statistics(self, batch_norm_updates: str, inputs: Any, asked: Asked) -> Trace | None:
        """Runs with other towers' moving statistics surviving; None where that cannot be had."""


class TensorFlowRole:
    """Asks the TensorFlow side of a case, and the side that makes its batches.

    Args:
      case: what to play.
      sides: started processes.
      out: folder for its traces.
      tick: told how far a run is.
    """

    def __init__(self, case: Case, sides: Sides, out: Path, tick: Tick) -> None:
        assert sides.tf is not None and sides.data is not None, "these sides were opened without a reference"
        self._case, self._side, self._out, self._tick = case, sides.tf, out, tick
        self._sides = sides
        self._data = sides.data
        self._folders = [str(folder) for folder in case.folders]
        self.notes: list[str] = []

    def batches(self, out: Path) -> "Future[Any]":
        """Has the case's own function make the batches, and leaves them at `out`."""
        case = self._case
        return self._data.ask(
            "batches",
            _ticker(self._tick, "batches"),
            batches=case.batches,
            folders=self._folders,
            steps=case.steps,
            batch_size=case.batch_size,
            seed=case.seed,
            ragged=case.tf.uneven not in (None, "refuse"),
            out=str(out),
        )

    def prepare(self, precision: str, inputs: Any) -> "Future[Any]":
        """Builds the graph; answers with its variables and facts, and leaves the answer beside the traces."""
        case = self._case
        described: dict[str, Any] = {
            "tower": case.tf.tower,
            "optimizer": case.tf.optimizer or _table(case.optimizer),
            "towers": case.towers,
            "optimizers": {name: _table(part) for name, part in case.optimizers.items()},
            "combine": case.tf.reduce or case.combine,
            "seed": case.seed,
            "threads": case.tf.threads or 1,
            **{name: value for name in OF_THE_BUILDER if (value := getattr(case.tf, name)) is not None},
        }
        if case.expect is not None:
            described["loss_factor"] = case.expect.loss_factor
        answer = self._side.ask("prepare", case=described, folders=self._folders, inputs=inputs, precision=precision)
        if precision != "float32":
            return answer

        def kept(prepared: Any) -> Any:
            self._out.mkdir(parents=True, exist_ok=True)
            write_json(self._out / PREPARED, {"inputs": inputs, "prepared": prepared})
            return prepared

        return _then(answer, kept)

    def initialize(self, out: Path) -> dict[str, list[float]]:
        """Leaves a trace at `out` whose init is the state that everything starts from; answers with the initial slots.

        They are what the optimizer itself puts there, before anything is perturbed or loaded: dict of trace name to the
        smallest and the largest element.
        """
        case = self._case
        kind, _, path = case.init.partition(":")
        init = f"{kind}:{case.directory / path}" if path else kind
        answer = self._side.ask("initialize", precision="float32", init=init, seed=case.seed, out=str(out)).result()
        slots = dict(answer["initial_slots"])
        self.notes += _filled_up(answer.get("not_in_checkpoint", []))
        write_json(self._out / INITIAL_SLOTS, slots)
        return slots

    def run_with_statistics(self, batch_norm_updates: str, inputs: Any, asked: Asked) -> Trace | None:
        """Builds the graph once more with another choice of the statistics that survive, and runs it."""
        if self._case.tf.batch_norm == "synchronised" and batch_norm_updates != "first":
            return None  # there is one update, of all towers
        changed = self._case.tf.model_copy(update={"batch_norm_updates": batch_norm_updates})
        role = TensorFlowRole(self._case.model_copy(update={"tf": changed}), self._sides, self._out, self._tick)
        role.prepare(asked.precision, inputs).result()
        return role.run(asked).result()

    def run(self, asked: Asked) -> "Future[Trace]":
        """Starts a run; its precision is prepared."""
        out = self._out / asked.name
        answer = self._side.ask(
            "run", _ticker(self._tick, f"TensorFlow {asked.name}"), precision=asked.precision, **_message(asked, out)
        )
        return _then(answer, lambda _: DenseTrace(out))


class TorchRole:
    """Asks the torch side of a case.

    Args:
      case: what to play.
      sides: started processes.
      out: folder for its traces.
      tick: told how far a run is.
      round_hyper_parameters: whether its optimizer's are rounded to float32 first.
      rates: the reference's learning rates by step, which a port with a scheduler of its own takes where they differ from
        that one's by rounding only.
    """

    def __init__(
        self,
        case: Case,
        sides: Sides,
        out: Path,
        tick: Tick,
        round_hyper_parameters: bool = False,
        rates: Mapping[int, float] | None = None,
    ) -> None:
        self._case, self._sides, self._side, self._out, self._tick = case, sides, sides.torch, out, tick
        self._round = round_hyper_parameters
        self._rates = {str(step): rate for step, rate in (rates or {}).items()}
        self._folders = [str(folder) for folder in case.folders]
        self._prepared: dict[str, Future[Any]] = {}
        self._decaying: list[str] | None = None
        self._taken: dict[str, list[str]] = {}
        self._sync_batch_norm: bool | None = case.torch.sync_batch_norm

    def prepare(self, precision: str, mixed: bool = False) -> "Future[Any]":
        """Starts the ranks, once for each precision; answers with their variables and facts."""
        key = f"{precision}, mixed" if mixed else precision
        if key in self._prepared:
            return self._prepared[key]
        case = self._case
        described = {
            "model": case.torch.model,
            "loss": case.torch.loss,
            "optimizer": case.torch.optimizer or _table(case.optimizer),
            "optimizers": {
                name: {**_table(part), "names": self._taken[name]}
                for name, part in case.optimizers.items()
                if name in self._taken
            },
            "scheduler": case.torch.scheduler,
            "step": case.torch.step,
            "sync_batch_norm": self._sync_batch_norm,
            "recorded_rates": self._rates,
            "clips": bool(case.optimizer and case.optimizer.clip),
            "update": self._around_the_update(),
            "ranks": case.towers,
            "combine": case.torch.combine or OF_THE_RANKS.get(case.tf.reduce or "", case.combine),
            "combining": {
                n: value for n in ("missing", "sparse", "uneven") if (value := getattr(case.tf, n)) is not None
            },
            "backend": case.torch.backend,
            "threads": case.torch.threads or 1,
            "bucket_cap_mb": case.torch.bucket_cap_mb,
            "seed": case.seed,
        }
        self._prepared[key] = self._side.ask(
            "prepare",
            case=described,
            folders=self._folders,
            precision=precision,
            round_hyper_parameters=self._round,
            mixed={"opt_level": case.torch.opt_level, "half_dtype": case.torch.half_dtype} if mixed else None,
        )
        return self._prepared[key]

    def playing(self, case: Case, out: Path) -> "TorchRole":
        """Returns a role like this one for another port of the same case; what this one has prepared is then forgotten."""
        role = TorchRole(case, self._sides, out, self._tick, self._round)
        role._rates, role._decaying = self._rates, self._decaying
        return role

    def forget(self) -> None:
        """Has everything be prepared anew: the side keeps what belongs to the last case only."""
        self._prepared.clear()

    def decay_only(self, names: Sequence[str]) -> None:
        """Says which of the port's parameters decay, where a case names some of them; what is prepared is prepared anew."""
        self._decaying = list(names)
        self._prepared.clear()

    def give_to_parts(self, taken: Mapping[str, Sequence[str]]) -> None:
        """Says which of the port's parameters every further optimizer takes; what is prepared is prepared anew."""
        self._taken = {name: list(names) for name, names in taken.items()}
        self._prepared.clear()

    def run_with_batch_norm(self, over_all_ranks: bool | None, asked: Asked) -> Trace:
        """Runs with batch norm over all ranks, or None: over each rank's own shard, whatever the port itself does."""
        kept = self._sync_batch_norm
        self._sync_batch_norm = over_all_ranks
        self._prepared.clear()
        try:
            return self.run(asked).result()
        finally:
            self._sync_batch_norm = kept
            self._prepared.clear()

    def run(self, asked: Asked) -> "Future[Trace]":
        """Starts a run."""
        out = self._out / asked.name
        prepared = self.prepare(asked.precision, asked.mixed).result()["prepared"]
        answer = self._side.ask(
            "run",
            _ticker(self._tick, f"torch {asked.name}"),
            prepared=prepared,
            noise=asked.noise,
            **_message(asked, out),
        )
        return _then(answer, lambda _: DenseTrace(out))

    def _around_the_update(self) -> dict[str, Any]:
        # A port that brings its own optimizer brings its own clipping and decay too, inside it or inside its loss; one that
        # brings its own step brings them there. The loop over micro-batches and the loss scale lie around both.
        if self._case.optimizer is None:
            return {}
        table, port = _table(self._case.optimizer), self._case.torch
        found: dict[str, Any] = {name: table[name] for name in ("accumulate", "loss_scale") if name in table}
        if table.get("clip", {}).get("at") == "tower":  # nothing inside an optimizer can clip what is not combined yet
            found["clip"] = table["clip"]
        if port.optimizer:
            return found
        taken = ("ema", "learning_rate") if port.step else ("clip", "ema", "learning_rate")
        found.update((name, table[name]) for name in taken if name in table)
        if port.scheduler:
            found.pop("learning_rate", None)
        if "weight_decay" in table and not port.step:
            where = self._case.tf.regularization
            found["weight_decay"] = {
                "coefficient": table["weight_decay"]["coefficient"],
                "names": self._decaying,
                "where": "every_tower" if where in (None, "scoped") else where,
            }
        return found


def _message(asked: Asked, out: Path) -> dict[str, Any]:
    return {
        "feeds": str(asked.feeds),
        "start": str(asked.start),
        "follow": str(asked.follow) if asked.follow else None,
        "recorded_counters": asked.recorded_counters,
        "steps": list(asked.steps),
        "quantities": asked.quantities,
        "evaluation": asked.evaluation,
        "out": str(out),
        **({"cut": True} if asked.cut else {}),
    }


def _filled_up(names: Sequence[str]) -> list[str]:
    if not names:
        return []
    counts = Counter(name.split("/", 1)[0] for name in names)
    what = {"slot": "slots", "ema": "averages", "state": "counters"}
    listed = ", ".join(f"{count} {what.get(quantity, quantity)}" for quantity, count in counts.items())
    return [f"init: not in the checkpoint: {listed}; averages start at their weights, the rest as the graph makes it"]


def _table(optimizer: Any) -> dict[str, Any]:
    return dict(optimizer.model_dump(exclude_none=True))


def _ticker(tick: Tick, what: str) -> Callable[[int, int], None]:
    return lambda done, total: tick(what, done, total)


def _then(future: "Future[Any]", change: Callable[[Any], Any]) -> "Future[Any]":
    changed: Future[Any] = Future()

    def done(finished: "Future[Any]") -> None:
        try:
            changed.set_result(change(finished.result()))
        except BaseException as error:
            changed.set_exception(error)

    future.add_done_callback(done)
    return changed
