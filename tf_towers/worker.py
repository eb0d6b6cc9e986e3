"""Plays the TensorFlow side of a case: a long-lived process that is told what to build and which steps to run."""

import functools
import json
import os
import warnings
from typing import Any, Callable, Dict, Iterable, List, Mapping, NamedTuple, Optional

import numpy as np
import tensorflow as real
import tensorflow.compat.v1 as tf

from parity.trace import (
    COUNTERS_AFTER,
    Perturbation,
    RunWriter,
    TensorFile,
    Trace,
    TraceWriter,
    batch_input,
    counters_after,
    is_computed,
    perturb,
    perturbations_of,
    quantity_of,
    write_forward,
)
from parity.trace.arrays import Tensors
from parity.worker.protocol import PROTOCOL_VERSION, Handler, SideError, claim_standard_streams, serve
from parity.worker.user_code import UserCode, call_as
from tf_towers.checkpoint import start_from_checkpoint
from tf_towers.facts import describe_variables, facts
from tf_towers.graph.build import build
from tf_towers.graph.options import TABLES, Plan
from tf_towers.graph.tower import with_loss_factor
from tf_towers.graph.training import Training
from tf_towers.graph.update.optimizer import Part, make_optimizer, names_slots_as_tensorflow
from tf_towers.session import perturbed, session
from tf_towers.step import Pace, Stepper, in_order

IN_RUN_PRECISION = ("float32", "float64")
# They travel as JSON in one answer: a table of an embedding would not.
MOST_VALUES_LISTED = 4096  # elements of a statistic or constant that are told one by one
OPTIONS_IN_OPTIMIZER = tuple(TABLES)  # keys of a case's [optimizer] that say more than what optimizer it is


class Prepared(NamedTuple):
    """A case in one precision.

    Fields:
      training: its graph.
      stepper: its session.
      facts: of it.
      variables: their descriptions, which a graph of many takes long to say and every run writes down.
    """

    training: Training
    stepper: Stepper
    facts: Dict[str, Any]
    variables: Dict[str, Dict[str, Any]]


class Side:
    """Serves the requests of one comparison after the other.

    A prepared case is a graph and a session per precision; they are kept until another case is prepared.
    """

    def __init__(self) -> None:
        self._code = UserCode()
        # As JSON with sorted keys, in which two dicts of the same content are the same text.
        self._case: Optional[str] = None
        self._prepared: Dict[str, Prepared] = {}
        self._paces: Dict[str, Pace] = {}

    def handlers(self) -> Dict[str, Handler]:
        """Returns the table of requests."""
        names = ("hello", "prepare", "initialize", "run", "forward")
        return {name: getattr(self, name) for name in names}

    def hello(self, arguments: Dict[str, Any], progress: Callable[[int, int], None]) -> Dict[str, Any]:
        """Answers with the versions."""
        versions = {"framework": "tensorflow " + real.__version__, "numpy": np.__version__}
        return dict(versions, protocol=PROTOCOL_VERSION)

    def prepare(self, arguments: Dict[str, Any], progress: Callable[[int, int], None]) -> Dict[str, Any]:
        """Builds the graph of a case in one precision.

        Arguments: `case` (dict), `folders`, `inputs` (name to dtype and shape of the whole batch), `precision`.
        """
        case = {name: arguments[name] for name in ("case", "folders", "inputs")}
        if json.dumps(case, sort_keys=True) != self._case:
            # Another case: its graphs, sessions and threads go before the next one takes memory.
            self.close()
            self._case = json.dumps(case, sort_keys=True)
        precision = arguments["precision"]
        if precision not in self._prepared:
            self._prepared[precision] = self._build(precision, **case)
        training, _, known, variables = self._prepared[precision]
        return {
            "facts": known,
            "variables": variables,
            "activations": list(training.towers[0].outputs),
            "inference": training.inference is not None,
        }

    def initialize(self, arguments: Dict[str, Any], progress: Callable[[int, int], None]) -> Dict[str, Any]:
        """Leaves a trace whose init is the state that training starts from: `precision`, `init`, `seed`, `out`.

        Answers with what the optimizer itself puts into its slots, trace name to the smallest and the largest element, with
        the elements of what the graph itself starts statistics and constants at, random ones left out, and with what a
        checkpoint did not hold.
        """
        training, stepper, _, variables = self._prepared[arguments["precision"]]
        stepper.initialize()
        state = stepper.state()
        fresh = {name: [float(np.min(v)), float(np.max(v))] for name, v in state.items() if quantity_of(name) == "slot"}
        kind, _, path = arguments["init"].partition(":")
        missing: List[str] = []
        told: Dict[str, List[float]] = {}
        if kind != "checkpoint" and any(quantity_of(name) == "stat" for name in state):
            stepper.initialize()  # once more: what is drawn at random is another number then
            told = _constants(state, stepper.state())
        if kind == "perturbed":
            state = perturbed(state, arguments["seed"], names_slots_as_tensorflow(training.optimizer))
        elif kind == "checkpoint":
            state, missing = start_from_checkpoint(path, state, variables)
        writer = TraceWriter(arguments["out"], {"package": "tf_towers"})
        writer.init(state)
        writer.close()
        return {"initial_slots": fresh, "own_values": told, "not_in_checkpoint": missing}

    def run(self, arguments: Dict[str, Any], progress: Callable[[int, int], None]) -> Dict[str, Any]:
        """Runs steps and leaves a trace.

        Arguments: `precision`; `feeds`, a trace whose steps hold ``feed/<input>``, the whole batch; `start`, a trace
        whose init is the first state; `follow`, a trace whose step k holds the state that replaces ours before step k
        (or null); `recorded_counters`, whether counters are taken from it too; `steps`, the step numbers; `quantities`
        to keep; `out`. With "eval" among the quantities the last step also gets an evaluation of its batch, with the state
        that `follow` holds after it, or with ours. `perturbations` change the batches, and `follow`, or `start` where there
        is none, see `perturb`. With `resumed` nothing is loaded first: the run goes on where the last one of this precision
        ended. What is written are all steps, or the numbers in `written`; with `measured_from`, a trace, of each tensor only
        its distance from that trace's; without `initial` not the state before the first step.
        """
        training, stepper, known, variables = self._prepared[arguments["precision"]]
        feeds = Trace(arguments["feeds"])
        follow = Trace(arguments["follow"]) if arguments["follow"] else None
        writer = TraceWriter(
            arguments["out"],
            {"package": "tf_towers", "framework": "tensorflow " + real.__version__},
            known,
            variables,
            list(training.towers[0].outputs),
        )
        keep = set(arguments["quantities"])
        precision, asked = arguments["precision"], perturbations_of(arguments.get("perturbations", ()))
        left = RunWriter.of(writer, arguments, Trace)
        if not arguments.get("resumed"):
            begun = _variables(Trace(arguments["start"]).init(), counters=True)
            stepper.load(begun if follow else perturb(begun, asked, 0, precision))
        # A state is as large as the model: where only its counters are looked at, nothing else is fetched.
        state = stepper.state() if left.initial else stepper.counters()
        left.init(state)
        numbers = arguments["steps"]
        for done, number in enumerate(numbers):
            if follow is not None:
                known = _variables(follow.step(number), arguments["recorded_counters"])
                stepper.load(perturb(known, asked, number, precision))
                state = stepper.counters()
            batch = _batch(feeds.step(number), precision, asked, number)
            # Counters as the step reads them, all else as it leaves it.
            tensors = {name: value for name, value in state.items() if quantity_of(name) == "state"}
            tensors.update(stepper.step(batch))
            state = stepper.state()
            tensors.update((name, value) for name, value in state.items() if quantity_of(name) != "state")
            if "eval" in keep and number == numbers[-1]:
                # The state that `follow` holds before a step is the one after the step before it.
                if follow is not None and number + 1 in follow.step_numbers:
                    stepper.load(_variables(follow.step(number + 1), counters=False))
                tensors.update(stepper.evaluate(batch))
            left.step(number, in_order({name: tensors[name] for name in tensors if quantity_of(name) in keep}))
            progress(done + 1, len(numbers))
        writer.close(**{COUNTERS_AFTER: counters_after(state)})
        return {}

    def forward(self, arguments: Dict[str, Any], progress: Callable[[int, int], None]) -> Dict[str, Any]:
        """Leaves the forward pass of one tower in one step, see `write_forward`; updates nothing.

        Arguments: `precision`, `feeds`, `start`, `follow` as of `run`; `step`, its number; `tower`, its name; `out`; `most`,
        bytes of outputs to keep, or nothing; `gradients`, whether to keep the gradient of the loss in place of each output;
        `ends_at`, the output in place of the loss.
        """
        stepper = self._prepared[arguments["precision"]].stepper
        number, tower = arguments["step"], arguments["tower"]
        stepper.load(_variables(Trace(arguments["start"]).init(), counters=True))
        stepper.load(_variables(Trace(arguments["follow"]).step(number), counters=True))
        batch = _batch(Trace(arguments["feeds"]).step(number), arguments["precision"])
        kept = {"most": arguments["most"]} if "most" in arguments else {}
        passed = stepper.forward(batch, tower, bool(arguments.get("gradients")), arguments.get("ends_at", ""))
        write_forward(arguments["out"], number, tower, passed, **kept)
        return {}

    def _build(self, precision: str, case: Dict[str, Any], folders: List[str], inputs: Mapping[str, Any]) -> Prepared:
        self._code.enter(folders)
        tower = self._code.load(case["tower"])
        if case.get("loss_factor") is not None:
            losses = [part.get("loss") for part in (case.get("optimizers") or {}).values()]
            tower = with_loss_factor(tower, case["loss_factor"], losses)
        described = case["optimizer"]
        options = {name: case[name] for name in Plan._fields if name in case}
        if isinstance(described, str):
            written = "%s()" % described.partition(":")[2]
            optimizer = functools.partial(call_as, written, self._code.load(described))
        else:
            options.update((name, described[name]) for name in OPTIONS_IN_OPTIMIZER if name in described)
            rest = {name: value for name, value in described.items() if name not in OPTIONS_IN_OPTIMIZER}
            optimizer = functools.partial(make_optimizer, rest)
        # Asked of a build with CUDA alone: to list devices initialises them.
        gpus = tf.config.experimental.list_logical_devices("GPU") if tf.test.is_built_with_cuda() else []
        training = build(
            tower,
            {
                name: (precision if dtype in IN_RUN_PRECISION else dtype, shape)
                for name, (dtype, shape) in inputs.items()
            },
            case["towers"],
            optimizer,
            case["combine"],
            options.pop("variables"),
            options.pop("batch_norm_updates"),
            [device.name for device in gpus],
            case["seed"],
            {name: _part(described) for name, described in (case.get("optimizers") or {}).items()},
            **options,
        )
        _require_precision(training, precision)
        threads = case.get("threads", 1)
        known = facts(training, precision, threads)
        # By tower and inputs: another precision or optimizer of them takes about as long.
        pace = self._paces.setdefault(json.dumps([case["tower"], folders, inputs], sort_keys=True), Pace())
        stepper = Stepper(training, session(training.graph, case["towers"], threads), pace)
        return Prepared(training, stepper, known, describe_variables(training))

    def close(self) -> None:
        """Closes the sessions, and ends what reads for their towers."""
        for prepared in self._prepared.values():
            prepared.stepper.close()
        self._prepared = {}


def _part(described: Mapping[str, Any]) -> Part:
    rest = {name: value for name, value in described.items() if name not in ("only", "loss")}
    return Part(functools.partial(make_optimizer, rest), described["only"], described.get("loss"))


def _require_precision(training: Training, precision: str) -> None:
    # A tower takes its dtype from its inputs; one that is fed integers alone cannot know it, and stays in float32.
    for name, variable in training.weights.items():
        if precision == "float64" and variable.dtype.base_dtype == tf.float32:
            raise SideError(
                f"tower: expected the variable {name} to be float64 in the float64 run, got float32. "
                "No input is a float that could tell the tower its dtype: feed it one more, e.g. example weights of 1, and "
                "take the dtype from that."
            )


def _batch(file: TensorFile, precision: str, perturbations: Iterable[Perturbation] = (), step: int = 0) -> Tensors:
    batch = {}
    fed = {name: file.read(name) for name in file.names()}
    for name, value in perturb(fed, perturbations, step, precision).items():
        batch[batch_input(name)] = value.astype(precision) if value.dtype.name in IN_RUN_PRECISION else value
    return batch


def _constants(once: Tensors, again: Tensors) -> Dict[str, List[float]]:
    """Returns by trace name the elements of variables that nobody trains and whose initial values repeat."""
    return {
        name: np.ravel(value).astype(float).tolist()
        for name, value in once.items()
        if quantity_of(name) == "stat" and value.dtype.kind == "f" and value.size <= MOST_VALUES_LISTED
        if np.array_equal(value, again[name])
    }


def _variables(file: TensorFile, counters: bool) -> Tensors:
    quantities = ("var", "stat", "slot", "ema", "state") if counters else ("var", "stat", "slot", "ema")
    names = [name for name in file.names() if quantity_of(name) in quantities and not is_computed(name)]
    return {name: file.read(name) for name in names}


def main() -> None:
    """Serves requests on the standard streams until they end."""
    channel = claim_standard_streams()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    tf.disable_v2_behavior()
    tf.logging.set_verbosity(tf.logging.ERROR)
    warnings.filterwarnings("ignore", r"`tf\.layers\.", UserWarning)  # each layer of the old code, in every tower
    side = Side()
    try:
        serve(channel, side.handlers())
    finally:
        side.close()


if __name__ == "__main__":
    main()
