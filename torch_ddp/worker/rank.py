"""One rank of the torch side: builds the port, runs steps under DDP, leaves a trace."""

import contextlib
import json
import random
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from torch.nn.parallel import DistributedDataParallel

from parity.trace import (
    COUNTERS_AFTER,
    Perturbation,
    RunWriter,
    TensorFile,
    Trace,
    TraceWriter,
    batch_input,
    counters_after,
    perturb,
    perturbations_of,
    quantity_of,
    select,
    write_forward,
)
from parity.worker.protocol import SideError
from parity.worker.user_code import UserCode, call_as
from torch_ddp.facts import describe_variables, facts, make_repeatable
from torch_ddp.gather import ranks_agree
from torch_ddp.momenta import round_momenta
from torch_ddp.parallel import SyncBatchNorm, convert_syncbn_model
from torch_ddp.process_group import Rank
from torch_ddp.record.recorded_draws import with_recorded_draws
from torch_ddp.step.backward import Backward
from torch_ddp.step.combine import Combining
from torch_ddp.step.forward_watch import ForwardWatch
from torch_ddp.step.gradient_cuts import GradientCuts
from torch_ddp.step.gradient_exchange import GradientObserver, OpenWrapper, cast_before_wrapping
from torch_ddp.step.lazy_state import make_lazy_state
from torch_ddp.step.mixed_precision import Mixed
from torch_ddp.step.one_step import ObservedGradients, ToolStep
from torch_ddp.step.optimizer import Part, make_optimizer
from torch_ddp.step.optimizer import round_hyper_parameters as round_to_float32
from torch_ddp.step.stepper import Stepper, WrappedPort
from torch_ddp.step.trace_names import own_values, told_values
from torch_ddp.step.training_state import TrainingState
from torch_ddp.step.update import Update
from torch_ddp.step.user_calls import call_optimizer
from torch_ddp.weights import unregistered
from torch_ddp.worker.exact_functions import compute_softplus_exactly
from torch_ddp.worker.precision import computing_in, hold_numbers
from torch_ddp.worker.replay_optimizer import recorded_optimizer, train_only
from torch_ddp.worker.rounding_noise import RoundingNoise
from torch_ddp.worker.training_program import TrainingProgram
from torch_ddp.worker.user_schedule import PortRates, PortSchedule
from torch_ddp.worker.user_step import UserStep

CAST_DTYPES = ("float32", "float64")
# What a port may bring or ask for, a fact of the run where it does.
BROUGHT_BY_THE_PORT = ("scheduler", "step", "sync_batch_norm", "bucket_cap_mb")
ARGUMENTS_OF_A_BUILD = ("case", "folders", "precision", "round_hyper_parameters", "mixed")

# What is kept of a port: its stepper, facts, what its optimizer puts into its slots, its own buffers and frozen parameters.
Built = tuple[Stepper, dict[str, Any], dict[str, list[float]], dict[str, np.ndarray]]


class RankServer:
    """Serves the requests of one comparison after the other, as one of the ranks.

    Args:
      rank: which one; its process group is up.
      backend: "gloo" or "nccl".
      threads: of its ops.

    Counterpart: tf_towers.worker.Side
    """

    def __init__(self, rank: Rank, backend: str, threads: int = 1) -> None:
        self._rank = rank
        self._backend = backend
        self._code = UserCode()
        self._imported_in = ""  # the precision in which the last port was built
        self._device = torch.device("cuda", rank.local_rank) if backend == "nccl" else torch.device("cpu")
        self._prepared: dict[str, Built] = {}
        self._draws_left: list[str] = []  # what the losses of the present run have left of recorded draws, in words
        make_repeatable(threads)
        compute_softplus_exactly()

    def handlers(self) -> dict[str, Any]:
        """Returns the table of requests."""
        return {"prepare": self.prepare, "run": self.run, "forward": self.forward, "train": self.train}

    def prepare(self, arguments: dict[str, Any], progress: Any) -> dict[str, Any]:
        """Builds the port: `case`, `folders`, `precision`, `round_hyper_parameters`, `mixed` (see `Mixed`, or None).

        With another `build`, any name, it is built once more, whatever it was built for before.
        """
        asked: dict[str, Any] = {name: arguments.get(name) for name in ARGUMENTS_OF_A_BUILD}
        key = json.dumps({**asked, "build": arguments.get("build")}, sort_keys=True)
        if key not in self._prepared:
            # Ports of another case go: they hold memory, and nobody asks for them again.
            self._prepared = {known: value for known, value in self._prepared.items() if _same_case(known, key)}
            with _computing(asked):
                self._prepared[key] = self._build(**asked)
        stepper, known_facts, fresh, own = self._prepared[key]
        return {
            "facts": known_facts,
            "variables": describe_variables(stepper.model),
            "prepared": key,
            "initial_slots": fresh,
            "own_values": told_values(stepper.model, own),
        }

    def run(self, arguments: dict[str, Any], progress: Any) -> dict[str, Any]:
        """Runs steps and leaves a trace.

        Arguments: `prepared`, what `prepare` answered; `feeds`, `start`, `follow`, `recorded_counters`, `steps`,
        `quantities` and `out` as on the TensorFlow side, all in this side's names and layouts; with "eval" among the
        quantities, `evaluation` says how; `noise`, unit and seed of roundings that are added (see `RoundingNoise`), or None.
        What `follow` says of outputs stands in the place of the port's own; with `cut` no gradient passes them.
        With `partly` it need not hold everything, and what it does not hold stays. With `random_seed` Python's, numpy's and
        torch's generators are seeded by it and the rank's number before the first step. With `uncut`, names of places of
        `GradientCuts`, gradients pass these, and the trace's facts have as `gradient_cuts` all places of this rank. With
        `detached` no gradient passes some edges of the first forward pass, see `ForwardWatch`. `perturbations` change what
        is read, and `resumed`, `written`, `measured_from` and `initial` say where it starts and what is left, as on the
        TensorFlow side.
        """
        stepper, known_facts, _, own = self._prepared[arguments["prepared"]]
        watch: GradientCuts | ForwardWatch | None = None
        if arguments.get("uncut") is not None:
            watch = GradientCuts(stepper.model, arguments["uncut"])
        elif arguments.get("detached"):
            watch = ForwardWatch(stepper.model, detached=arguments["detached"])
        if arguments.get("random_seed") is not None:
            # Apart for each rank and each seed, up to 1000 ranks.
            _seed(1000 * arguments["random_seed"] + self._rank.rank)
        asked = json.loads(arguments["prepared"])
        precision = asked["precision"]
        with _computing(asked), stepper.running(), self._noise(arguments.get("noise")):
            self._run(arguments, progress, stepper, precision, known_facts, own, watch)
        return {}

    def forward(self, arguments: dict[str, Any], progress: Any) -> dict[str, Any]:
        """Leaves the forward pass of one rank in one step, see `write_forward`; the step is made as in `run`.

        Arguments: `prepared`, `feeds`, `start` and `follow` as of `run`; `step`, its number; `tower`, the rank's number,
        with that of the micro-batch behind a point where gradients accumulate; `out`; `gradients`, whether to keep the
        gradient of the loss in place of each output; `ends_at`, the output in place of the loss.
        """
        stepper, _, _, own = self._prepared[arguments["prepared"]]
        asked = json.loads(arguments["prepared"])
        precision = asked["precision"]
        number, tower = arguments["step"], arguments["tower"]
        rank, _, part = tower.partition(".")
        stepper.give({})
        with _computing(asked), stepper.running():
            start = _all(Trace(arguments["start"]).init())
            kept = _kept(own, start)
            stepper.load({**kept, **start})
            stepper.load({**kept, **_all(Trace(arguments["follow"]).step(number))})
            batch = _batch(Trace(arguments["feeds"]).step(number), precision)
            gradients, ends_at = bool(arguments.get("gradients")), arguments.get("ends_at", "")
            passed = stepper.forward(batch, int(part or 0), gradients, ends_at)
        # All ranks made the step, whose collectives need each of them.
        if self._rank.rank == int(rank):
            write_forward(arguments["out"], number, tower, passed)
        return {}

    def train(self, arguments: dict[str, Any], progress: Any) -> dict[str, Any]:
        """Runs the `train` of a program and leaves a trace of each of its optimizers.

        Arguments: `folders` and `program`, name of its module there; the rest is as of `TrainingProgram.run`.
        """
        self._code.enter(arguments["folders"])
        TrainingProgram(self._code, self._rank, self._device, arguments["program"]).run(arguments, progress)
        return {}

    def _run(
        self,
        arguments: dict[str, Any],
        progress: Any,
        stepper: Stepper,
        precision: str,
        known_facts: dict[str, Any],
        own: dict[str, np.ndarray],
        watch: GradientCuts | ForwardWatch | None = None,
    ) -> None:
        self._draws_left.clear()
        feeds = Trace(arguments["feeds"])
        follow = Trace(arguments["follow"]) if arguments["follow"] else None
        keep = set(arguments["quantities"])
        writer = self._writer(arguments["out"], stepper, known_facts)
        left = RunWriter.of(writer, arguments, Trace) if writer else None
        asked = perturbations_of(arguments.get("perturbations", ()))
        if arguments.get("resumed"):
            kept = _kept(own, _all(follow.step(arguments["steps"][0]))) if follow else {}
        else:
            start = _all(Trace(arguments["start"]).init())
            kept = _kept(own, start)
            stepper.give({})
            stepper.load({**kept, **(start if follow else perturb(start, asked, 0, precision))})
            stepper.model.zero_grad(set_to_none=True)  # an optimizer clears only its own, and a run starts with none
        # A state is as large as the model: where only its counters are looked at, nothing else is copied.
        read = stepper.state if kept or arguments.get("partly") else stepper.counters
        state = stepper.state() if left and left.initial else read()
        if left:
            left.init(state)
        numbers, agree = arguments["steps"], True
        # Before each step: `state` is what the step starts from, as the port has it. After it: what the step left.
        for done, number in enumerate(numbers):
            if follow is not None:
                followed = perturb(_all(follow.step(number)), asked, number, precision)
                given = {name: followed.pop(name) for name in select(followed, "act")}
                whole = state if arguments.get("partly") else {name: state[name] for name in kept}
                stepper.load({**whole, **followed}, arguments["recorded_counters"])
                stepper.give(given, bool(arguments.get("cut")))
                state = read()
            before = select(state, "state")
            batch = _batch(feeds.step(number), precision, asked, number)
            with watch.watching() if watch else contextlib.nullcontext():
                recorded = stepper.step(batch)
            state = stepper.state()
            weights = select(state, "var")
            # A collective: every rank calls it in every step, whatever it came to before.
            agree = ranks_agree(weights, self._rank, self._device) and agree
            evaluated = {}
            if "eval" in keep and number == numbers[-1]:
                if follow is not None and number + 1 in follow.step_numbers:
                    following = _all(follow.step(number + 1))
                    stepper.load({**{name: state[name] for name in kept}, **following}, counters=False)
                evaluated = stepper.evaluate(batch, arguments.get("evaluation", "eval"))
            if left and recorded is not None:
                after = {name: value for name, value in state.items() if quantity_of(name) != "state"}
                tensors = {**before, **recorded, **after, **evaluated}
                left.step(number, {name: tensors[name] for name in tensors if quantity_of(name) in keep})
            progress(done + 1, len(numbers))
        if writer:
            told: dict[str, Any] = {"unobserved": sorted(stepper.unobserved), COUNTERS_AFTER: counters_after(state)}
            if self._draws_left:
                told["draws_left"] = self._draws_left[0]
            if isinstance(watch, GradientCuts):
                told["gradient_cuts"] = watch.found
            writer.close(ranks_agree=agree, **told)

    def _noise(self, noise: tuple[float, int] | None) -> contextlib.AbstractContextManager[Any]:
        return RoundingNoise(noise[0], 1000 * noise[1] + self._rank.rank) if noise else contextlib.nullcontext()

    def _writer(self, out: str, stepper: Stepper, known_facts: dict[str, Any]) -> TraceWriter | None:
        if self._rank.rank:
            return None
        producer = {"package": "torch_ddp", "framework": "torch " + torch.__version__}
        return TraceWriter(out, producer, known_facts, describe_variables(stepper.model))

    def _build(
        self,
        case: dict[str, Any],
        folders: list[str],
        precision: str,
        round_hyper_parameters: bool,
        mixed: dict[str, str] | None,
    ) -> Built:
        self._code.enter(folders)
        # What modules made when they were imported in another precision is made anew.
        if precision != self._imported_in and hold_numbers(self._code.modules.values()):
            self._code.forget()
        self._imported_in = precision
        # The same on all ranks, so that what the port draws when it is made is the same, too.
        torch.manual_seed(case["seed"])
        dtype = getattr(torch, precision)
        with cast_before_wrapping(self._device, dtype):
            model = call_as(f"{case['model'].partition(':')[2]}()", self._code.load(case["model"]))
        wrapper = model if isinstance(model, DistributedDataParallel) else None
        if wrapper is not None:
            _refuse_wrapped(mixed)
            model = wrapper.module
        if not isinstance(model, torch.nn.Module):
            raise SideError(
                f"case: expected {case['model']} to make a torch.nn.Module, got {type(model).__name__}. "
                "Name the module's class, or a function that returns one."
            )
        # After wrapping too, for what the port made without DDP; what was cast there stays the same object.
        model = model.to(self._device, dtype)
        for parameter in unregistered(model).values():  # what torch does not move the port computes with all the same
            parameter.data = parameter.data.to(self._device, dtype)
        model = _batch_norm(model, case.get("sync_batch_norm", False))
        # The port's function gets what it would have: where it wraps its own model, the wrapper.
        optimizer = self._optimizer(case, model, wrapper or model)
        if round_hyper_parameters:
            round_to_float32(optimizer, case.get("exact_numbers", ()))
            round_momenta(model, case.get("moved_statistics"))
        half = Mixed(model, optimizer, **mixed) if mixed else None
        stepper = self._stepper(model, optimizer, case, half, round_hyper_parameters, wrapper)
        # What the optimizer itself puts into its slots, before anything is loaded: the smallest and the largest element.
        fresh = {
            name: [float(v.min()), float(v.max())] for name, v in stepper.state().items() if quantity_of(name) == "slot"
        }
        known = facts(stepper, self._rank, case["combine"], self._backend, precision)
        brought = {name: case[name] for name in BROUGHT_BY_THE_PORT if case.get(name)}
        return stepper, {**known, **brought, **(mixed or {})}, fresh, own_values(stepper.model)

    def _optimizer(
        self, case: dict[str, Any], model: torch.nn.Module, wrapped: torch.nn.Module
    ) -> torch.optim.Optimizer:
        described = case["optimizer"]
        if case.get("trained") is not None:
            train_only(model, case["trained"])
        if isinstance(described, str):
            optimizer = call_optimizer(described, self._code.load(described), wrapped)
            make_lazy_state(optimizer)
            return optimizer
        if "recorded" in described:
            return recorded_optimizer(model, described["recorded"]["optimizer"], described["recorded"]["rates"])
        return make_optimizer(described, model, _of_the_first(model, case))

    def _load(self, case: dict[str, Any], name: str) -> Callable[..., Any]:
        """Loads a function that a case names; it is given the draws that come with its inputs, where some were recorded."""
        function: Callable[..., Any] = self._code.load(case[name])
        # Which draws a port leaves is no reason to end: what it computes without them is what differs, and where.
        return with_recorded_draws(function, self._draws_left) if case.get("draws") else function

    def _stepper(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        case: dict[str, Any],
        mixed: Mixed | None,
        rounded: bool,
        wrapper: DistributedDataParallel | None,
    ) -> Stepper:
        described, own_step = case.get("update") or {}, case.get("step")
        decay = Update(model, optimizer, {"weight_decay": described.get("weight_decay")}).decay
        trained = model
        if mixed:
            # Half weights decay in the loss, not their masters; and amp brings its own loss scale.
            once = (described.get("weight_decay") or {}).get("where") == "once"
            described = {**described, "loss_scale": None, "weight_decay": described["weight_decay"] if once else None}
            trained = mixed.trained
        schedule, set_rate = None, None
        if case.get("scheduler"):
            schedule = PortSchedule(self._code.load(case["scheduler"]), optimizer, stepped_by_port=bool(own_step))
            rates = {int(step): float(rate) for step, rate in (case.get("recorded_rates") or {}).items()}
            set_rate = PortRates(schedule, optimizer, rates)
        update = Update(trained, optimizer, described, set_rate)
        combining = Combining(case["combine"], **case.get("combining", {}))
        # A replay goes on where a parameter is reached by no loss, which is a difference to be found; so does a case, once
        # it is known that it would not.
        asked = bool(case.get("lenient"))
        lenient = (bool(case.get("replayed")) or asked) and not own_step
        wrap = OpenWrapper if case.get("reaches_in") else DistributedDataParallel
        wrapped = wrapper or wrap(
            model, bucket_cap_mb=case.get("bucket_cap_mb"), find_unused_parameters=lenient or asked
        )
        port = WrappedPort(wrapped, self._load(case, "loss"), self._rank, combining.uneven)
        if own_step:
            state = TrainingState(model, optimizer, update, mixed)
            own_reduction = case.get("own_reduction") or "mean"
            reduction = own_reduction if own_reduction != "mean" and wrapper is None else None
            function = self._load(case, "step")
            return Stepper.of_parts(
                port, state, UserStep(wrapped, state, function, schedule, case.get("clips") or "", reduction)
            )
        others = (case.get("optimizers") or {}).items()
        parts = [Part(name, described, model, rounded) for name, described in others]
        state = TrainingState(model, optimizer, update, mixed, parts)
        backward = Backward(wrapped, port.loss, combining, update, decay, parts, wrapper is not None)
        backward.zeros = lenient
        observed = None
        if case.get("watch"):
            observed = ObservedGradients(GradientObserver(state.trained, optimizer), case["watch"])
        return Stepper.of_parts(port, state, ToolStep(backward, state, observed))


def _refuse_wrapped(mixed: dict[str, str] | None) -> None:
    if mixed:
        raise SideError(
            "mixed precision: expected a model that is wrapped after amp.initialize, got one that is wrapped already. "
            "Have torch.model return the bare model, or leave level 4 out."
        )


def _of_the_first(model: torch.nn.Module, case: dict[str, Any]) -> list[str] | None:
    taken = {name for described in (case.get("optimizers") or {}).values() for name in described["names"]}
    return [name for name, _ in model.named_parameters() if name not in taken] if taken else None


def _batch_norm(model: torch.nn.Module, over_all_ranks: bool | None) -> torch.nn.Module:
    # None takes the ranks apart where the port itself has joined them: an experiment.
    for module in model.modules() if over_all_ranks is None else []:
        if isinstance(module, SyncBatchNorm):
            module._shared = lambda: False  # type: ignore[method-assign]
    return convert_syncbn_model(model) if over_all_ranks else model


def _kept(own: dict[str, np.ndarray], start: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    # What the port has and the reference has not begins every run as the port made it, and then is left alone.
    return {name: value for name, value in own.items() if name not in start}


def _seed(number: int) -> None:
    random.seed(number)
    np.random.seed(number)
    torch.manual_seed(number)


def _computing(asked: dict[str, Any]) -> contextlib.AbstractContextManager[None]:
    """Has the port of a build compute in the precision that this was asked for."""
    return computing_in(asked["precision"], asked["case"]["trains_in"])


def _same_case(one: str, other: str) -> bool:
    first, second = json.loads(one), json.loads(other)
    return bool(first["case"] == second["case"] and first["folders"] == second["folders"])


def _batch(
    file: TensorFile, precision: str, perturbations: Iterable[Perturbation] = (), step: int = 0
) -> dict[str, np.ndarray]:
    batch = {}
    for name, value in perturb(_all(file), perturbations, step, precision).items():
        batch[batch_input(name)] = value.astype(precision) if value.dtype.name in CAST_DTYPES else value
    return batch


def _all(file: TensorFile) -> dict[str, np.ndarray]:
    return {name: file.read(name) for name in file.names()}
