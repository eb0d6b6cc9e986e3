"""The reference of a case: what is asked of live TensorFlow, and what a golden trace of it answers as well."""

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Protocol

from parity.case import Case
from parity.case.schema import OF_THE_BUILDER
from parity.experiment.spec import (
    Capability,
    Progress,
    RunSpec,
    map_future,
    progress_for,
    settings_of,
    start_forward,
    start_run,
)
from parity.trace import Forward, Trace, quantity_of, write_json
from parity.worker.failures import SideFailed
from parity.worker.launch import Sides

PREPARED = "prepared.json"
INITIAL_SLOTS = "initial-slots.json"


class ReferenceSide(Protocol):
    """The reference: live TensorFlow, or a golden trace of what it did.

    Attributes:
      notes: what the report is to say of it.
      capabilities: what it can do beside the runs that every comparison needs.
    """

    notes: list[str]
    capabilities: Capability

    def batches(self, out: Path) -> "Future[Any]":
        """Leaves a trace of the batches at `out`; answers with dict of input name to dtype and shape."""

    def prepare(self, precision: str, inputs: Any) -> "Future[Any]":
        """Gets ready for runs in a precision; answers with variables and facts."""

    def initialize(self, out: Path) -> dict[str, list[float]]:
        """Leaves a trace at `out` whose init is the state that everything starts from; answers with the initial slots."""

    def run(self, asked: RunSpec) -> "Future[Trace]":
        """Starts a run; its precision is prepared."""

    def run_with_statistics(self, batch_norm_updates: str, inputs: Any, asked: RunSpec) -> Trace | None:
        """Runs with other towers' moving statistics surviving; None where that cannot be had."""

    def forward(
        self,
        step: int,
        tower: str,
        asked: RunSpec,
        most: int | None = None,
        gradients: bool = False,
        ends_at: str = "",
    ) -> Forward | None:
        """Returns the forward pass of one tower, or the gradient of the loss in place of each output; None if not to be had.

        A side that cannot rerun answers with the pass that it keeps, of that step or a later one.

        Args:
          step: its number.
          tower: its name.
          asked: from what it is made, and its name; its precision is prepared.
          most: bytes of outputs to keep; by default as `write_forward` has it.
          gradients: whether gradients are wanted.
          ends_at: name of the output that the pass ends at; by default the loss.
        """

    def kept(self, name: str) -> Path | None:
        """Returns the folder of the run of that name from when the case was blessed; None where none was kept."""


class TensorFlowSide:
    """Asks the TensorFlow side of a case, and the side that makes its batches.

    Args:
      case: what to play.
      sides: started processes.
      out: folder for its traces.
      tick: told how far a run is.
    """

    def __init__(self, case: Case, sides: Sides, out: Path, tick: Progress) -> None:
        assert sides.tf is not None and sides.data is not None, "these sides were opened without a reference"
        self._case, self._side, self._out, self._tick = case, sides.tf, out, tick
        self._sides = sides
        self._data = sides.data
        self.capabilities = Capability.RERUN
        self._folders = [str(folder) for folder in case.folders]
        self.notes: list[str] = []

    def batches(self, out: Path) -> "Future[Any]":
        """Has the case's own function make the batches, and leaves them at `out`."""
        case = self._case
        return self._data.ask(
            "batches",
            progress_for(self._tick, "batches"),
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
            "optimizer": case.tf.optimizer or settings_of(case.optimizer),
            "towers": case.towers,
            "optimizers": {name: settings_of(part) for name, part in case.optimizers.items()},
            "combine": case.tf.reduce or case.combine,
            "seed": case.seed,
            "threads": case.tf.threads or 1,
            **{name: value for name in OF_THE_BUILDER if (value := getattr(case.tf, name)) is not None},
        }
        if case.expect is not None:
            described["loss_factor"] = case.expect.loss_factor
        answer = self._side.ask("prepare", case=described, folders=self._folders, inputs=inputs, precision=precision)
        # The float32 answer is what a golden trace keeps; the others have the same variables.
        if precision != "float32":
            return answer

        def kept(prepared: Any) -> Any:
            self._out.mkdir(parents=True, exist_ok=True)
            write_json(self._out / PREPARED, {"inputs": inputs, "prepared": prepared})
            return prepared

        return map_future(answer, kept)

    def initialize(self, out: Path) -> dict[str, list[float]]:
        """Leaves a trace at `out` whose init is the state that everything starts from; answers with the initial values.

        They are what the reference itself puts there, before anything is perturbed or loaded: dict of trace name to the
        smallest and the largest element of a slot, to all elements of a statistic or constant.
        """
        case = self._case
        # "checkpoint:PATH" or a word.
        kind, _, path = case.init.partition(":")
        init = f"{kind}:{case.directory / path}" if path else kind
        answer = self._side.ask("initialize", precision="float32", init=init, seed=case.seed, out=str(out)).result()
        slots = {**answer["initial_slots"], **answer["own_values"]}
        # A checkpoint without slots leaves them to the graph, which the report has to say.
        self.notes += _filled_up(answer.get("not_in_checkpoint", []))
        write_json(self._out / INITIAL_SLOTS, slots)
        return slots

    def run_with_statistics(self, batch_norm_updates: str, inputs: Any, asked: RunSpec) -> Trace | None:
        """Builds the graph once more with another choice of the statistics that survive, and runs it."""
        if self._case.tf.batch_norm == "synchronised" and batch_norm_updates != "first":
            return None  # there is one update, of all towers
        changed = self._case.tf.model_copy(update={"batch_norm_updates": batch_norm_updates})
        role = TensorFlowSide(self._case.model_copy(update={"tf": changed}), self._sides, self._out, self._tick)
        role.prepare(asked.precision, inputs).result()
        return role.run(asked).result()

    def forward(
        self,
        step: int,
        tower: str,
        asked: RunSpec,
        most: int | None = None,
        gradients: bool = False,
        ends_at: str = "",
    ) -> Forward:
        """Returns the forward pass of one tower in one step, or the gradient of the loss in place of each output.

        Args:
          step: its number.
          tower: its name.
          asked: from what it is made, and its name; its precision is prepared.
          most: bytes of outputs to keep; by default as `write_forward` has it.
          gradients: whether gradients are wanted.
          ends_at: name of the output that the pass ends at; by default the loss.
        """
        out = self._out / asked.name
        own = {"gradients": gradients, "ends_at": ends_at, **({} if most is None else {"most": most})}
        try:
            start_forward(self._side, asked, out, step, tower, precision=asked.precision, **own).result()
        except SideFailed:
            for side in self._side.companions:
                side.outlive_failure()
            raise
        return Forward(out)

    def kept(self, name: str) -> None:
        """Returns None: it runs again."""

    def run(self, asked: RunSpec) -> "Future[Trace]":
        """Starts a run; its precision is prepared."""
        out = self._out / asked.name
        return start_run(self._side, self._tick, f"TensorFlow {asked.name}", asked, out, precision=asked.precision)


def _filled_up(names: Sequence[str]) -> list[str]:
    if not names:
        return []
    # By kind: of hundreds of slots their number says enough.
    counts = Counter(quantity_of(name) for name in names)
    what = {"slot": "slots", "ema": "averages", "state": "counters"}
    listed = ", ".join(f"{count} {what.get(quantity, quantity)}" for quantity, count in counts.items())
    return [f"init: not in the checkpoint: {listed}; averages start at their weights, the rest as the graph makes it"]
