"""The candidate of a case: what is asked of the torch side."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from parity.case import Case
from parity.experiment.spec import Progress, RunSpec, settings_of, start_forward, start_run
from parity.trace import Forward, Trace
from parity.worker.failures import SideFailed
from parity.worker.launch import Sides

# What a choice of the towers makes of the ranks' reduction, where it is none of "mean" and "sum".
OF_THE_RANKS = {"prescaled": "prescaled", "examples": "examples"}


class TorchSide:
    """Asks the torch side of a case.

    Args:
      case: what to play.
      sides: started processes.
      out: folder for its traces.
      tick: told how far a run is.
      round_hyper_parameters: whether its optimizer's are rounded to float32 first.
      rates: the reference's learning rates by step, which a port with a scheduler of its own takes where they differ from
        that one's by rounding only.
      moved_statistics: how the reference moves each moving statistic beside the port, as of `moved_statistics`, where
        momenta are rounded.
      allowing: what DistributedDataParallel would end: "unused", a parameter that the port's loss does not reach, or
        "parts", a loss that calls parts of the model by themselves; "" for nothing.
    """

    def __init__(
        self,
        case: Case,
        sides: Sides,
        out: Path,
        tick: Progress,
        round_hyper_parameters: bool = False,
        rates: Mapping[int, float] | None = None,
        moved_statistics: Mapping[str, tuple[float, float]] | None = None,
        allowing: str = "",
    ) -> None:
        self._allowing = allowing
        self._case, self._sides, self._side, self._out, self._tick = case, sides, sides.torch, out, tick
        self._round = round_hyper_parameters
        self._moved_statistics = dict(moved_statistics or {})
        self._rates = {str(step): rate for step, rate in (rates or {}).items()}
        self._folders = [str(folder) for folder in case.folders]
        self._prepared: dict[str, Future[Any]] = {}
        self._decaying: list[str] | None = None
        self._taken: dict[str, list[str]] = {}
        self._sync_batch_norm: bool | None = case.torch.sync_batch_norm
        self._step = case.torch.step

    def prepare(self, precision: str, mixed: bool = False) -> "Future[Any]":
        """Starts the ranks, once for each precision; answers with their variables and facts."""
        # The side keeps a build for each: asking twice would build the port, and draw its weights, twice.
        key = f"{precision}, mixed" if mixed else precision
        if key in self._prepared:
            return self._prepared[key]
        case = self._case
        described = {
            "model": case.torch.model,
            "loss": case.torch.loss,
            "optimizer": case.torch.optimizer or settings_of(case.optimizer),
            "optimizers": {
                name: {**settings_of(part), "names": self._taken[name]}
                for name, part in case.optimizers.items()
                if name in self._taken
            },
            "scheduler": case.torch.scheduler,
            "step": self._step,
            "sync_batch_norm": self._sync_batch_norm,
            "recorded_rates": self._rates,
            "moved_statistics": self._moved_statistics,
            "clips": (case.optimizer.clip.at or "combined") if case.optimizer and case.optimizer.clip else "",
            "exact_numbers": _exact_numbers(case),
            "watch": self._watched_as(),
            "update": self._around_the_update(),
            "ranks": case.towers,
            "own_reduction": case.torch.combine,
            "combine": case.torch.combine or OF_THE_RANKS.get(case.tf.reduce or "", case.combine),
            "combining": {
                n: value for n in ("missing", "sparse", "uneven") if (value := getattr(case.tf, n)) is not None
            },
            "backend": case.torch.backend,
            "threads": case.torch.threads or 1,
            "bucket_cap_mb": case.torch.bucket_cap_mb,
            "seed": case.seed,
            "trains_in": case.precision,
            "lenient": self._allowing == "unused",
            "reaches_in": self._allowing == "parts",
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

    def playing(self, case: Case, out: Path) -> "TorchSide":
        """Returns a role like this one for another port of the same case; what this one has prepared is then forgotten."""
        role = TorchSide(case, self._sides, out, self._tick, self._round)
        role._rates, role._moved_statistics = self._rates, self._moved_statistics
        role._told_as(self)
        return role

    def rounded(
        self, out: Path, rates: Mapping[int, float] | None, moved_statistics: Mapping[str, tuple[float, float]] | None
    ) -> "TorchSide":
        """Returns a role like this one whose hyper-parameters are rounded to float32.

        Args:
          out: folder for its traces.
          rates: as of the class.
          moved_statistics: as of the class.
        """
        role = TorchSide(self._case, self._sides, out, self._tick, True, rates, moved_statistics)
        role._told_as(self)
        return role

    def _told_as(self, other: "TorchSide") -> None:
        self._decaying, self._taken, self._allowing = other._decaying, other._taken, other._allowing

    def forget(self) -> None:
        """Has everything be prepared anew: the side keeps what belongs to the last case only."""
        self._prepared.clear()

    def decay_only(self, names: Sequence[str]) -> None:
        """Says which of the port's parameters decay, where a case names some of them; what is prepared is prepared anew."""
        self._decaying = list(names)
        # Whatever was built took all parameters for decaying.
        self._prepared.clear()

    def give_to_parts(self, taken: Mapping[str, Sequence[str]]) -> None:
        """Says which of the port's parameters every further optimizer takes; what is prepared is prepared anew."""
        self._taken = {name: list(names) for name, names in taken.items()}
        self._prepared.clear()

    def run_with_batch_norm(self, over_all_ranks: bool | None, asked: RunSpec) -> Trace:
        """Runs with batch norm over all ranks, or None: over each rank's own shard, whatever the port itself does."""
        kept = self._sync_batch_norm
        self._sync_batch_norm = over_all_ranks
        try:
            return self.run_built_anew(asked)
        finally:
            self._sync_batch_norm = kept

    def run_without_step(self, asked: RunSpec) -> Trace:
        """Runs the port's loss in a step of ours: one of its own need not show its gradients."""
        kept, self._step = self._step, None
        try:
            return self.run_built_anew(asked)
        finally:
            self._step = kept

    def run_built_anew(self, asked: RunSpec) -> Trace:
        """Runs a port that was built for this alone: what no state holds begins as the port makes it."""
        self._prepared.clear()
        try:
            return self.run(asked).result()
        except SideFailed:
            for side in self._side.companions:
                side.outlive_failure()
            raise
        finally:
            self._prepared.clear()

    def run(self, asked: RunSpec) -> "Future[Trace]":
        """Starts a run."""
        out = self._out / asked.name
        prepared = self.prepare(asked.precision, asked.mixed).result()["prepared"]
        what = f"torch {asked.name}"
        return start_run(self._side, self._tick, what, asked, out, prepared=prepared, noise=asked.noise)

    def run_guarded(self, asked: RunSpec) -> Trace:
        """Runs what the port may not take, so that it can be asked for other runs afterwards."""
        with self._outliving():
            return self.run(asked).result()

    def forward(self, step: int, tower: str, asked: RunSpec, gradients: bool = False, ends_at: str = "") -> Forward:
        """Returns the forward pass of one rank in one step, or the gradient of the loss in place of each output.

        Args:
          step: its number.
          tower: the rank's, with that of the micro-batch behind a point where gradients accumulate.
          asked: from what it is made, and its name.
          gradients: whether gradients are wanted.
          ends_at: name of the output that the pass ends at; by default the loss.
        """
        prepared = self.prepare(asked.precision).result()["prepared"]
        with self._outliving():
            own = {"prepared": prepared, "gradients": gradients, "ends_at": ends_at}
            start_forward(self._side, asked, self._out / asked.name, step, tower, **own).result()
        return Forward(self._out / asked.name)

    @contextlib.contextmanager
    def _outliving(self) -> Iterator[None]:
        try:
            yield
        except SideFailed:
            self._prepared.clear()  # its ranks are gone
            for side in self._side.companions:
                side.outlive_failure()
            raise

    def _watched_as(self) -> str | None:
        # What an optimizer of the port's own works with stands where the towers' clipped gradients do, clipped or not.
        clip = self._case.optimizer.clip if self._case.optimizer else None
        own = self._case.torch.optimizer and not self._case.torch.step
        return "clip" if clip is not None and own and clip.at != "tower" else None

    def _around_the_update(self) -> dict[str, Any]:
        # A port that brings its own optimizer brings its own clipping and decay too, inside it or inside its loss; one that
        # brings its own step brings them there. The loop over micro-batches and the loss scale lie around both, and averages
        # of the weights follow the update, whoever makes it.
        if self._case.optimizer is None:
            return {}
        table, port = settings_of(self._case.optimizer), self._case.torch
        found: dict[str, Any] = {name: table[name] for name in ("accumulate", "loss_scale") if name in table}
        # Nothing inside an optimizer can clip what is not combined yet; a step can.
        if table.get("clip", {}).get("at") == "tower" and not port.step:
            found["clip"] = table["clip"]
        if port.optimizer:
            return {**found, **({"ema": table["ema"]} if "ema" in table else {})}
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


def _exact_numbers(case: Case) -> list[float]:
    """Returns the numbers of a case that a float64 graph holds in float64, unlike those of its optimizer."""
    described = case.optimizer
    if described is None:
        return []
    limit = [described.clip.limit] if described.clip else []
    return limit + ([described.weight_decay.coefficient] if described.weight_decay else [])
