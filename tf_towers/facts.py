"""States the facts of a training: all that may differ from another run on purpose; and the hazards of its graph."""

import os
from typing import AbstractSet, Any, Dict, List, Mapping, Sequence, Set

import tensorflow as real
import tensorflow.compat.v1 as tf

from parity.trace import key_of, parse_key, quantity_of, role_of, trace_name
from tf_towers.graph.op_types import CHOOSING, RANDOM, WRITING
from tf_towers.graph.races import find_races
from tf_towers.graph.tower import Tower
from tf_towers.graph.training import Training
from tf_towers.graph.traversal import ancestors, passes_weights_on
from tf_towers.graph.update.optimizer import hyper_parameters
from tf_towers.tf_types import Operation, Optimizer, Variable

# oneDNN adds in another order; TF32 keeps 10 bits of a product's factors; legacy Keras decides which layers there are.
TENSORFLOW_FLAGS = ("TF_ENABLE_ONEDNN_OPTS", "TF_DETERMINISTIC_OPS", "TF_USE_LEGACY_KERAS", "NVIDIA_TF32_OVERRIDE")


def facts(training: Training, precision: str, threads: int) -> Dict[str, Any]:
    """Returns the facts as a dict of JSON values.

    Args:
      training: a `Training`.
      precision: of the inputs that are floats, "float32" or "float64".
      threads: of the session.
    """
    plan = training.plan
    saved = list(training.weights.values())
    return {
        "side": "tf_towers",
        "framework": "tensorflow " + real.__version__,
        # Without micro-batches: "0.1" is the second one of tower 0.
        "towers": len({replica.name.split(".")[0] for replica in training.towers}),
        "combine": plan.reduce,
        "precision": precision,
        "optimizer": hyper_parameters(getattr(training.optimizer, "first", training.optimizer)),
        "slots": sorted({slot for slot, _ in training.slots}),
        "variables_on": plan.variables,
        "batch_norm_updates": plan.batch_norm_updates if training.statistics else "none",
        "resource_variables": any(variable.op.type == "VarHandleOp" for variable in saved),
        "threads": threads,
        "flags": environment_flags(),
        "devices": sorted({tower.loss.op.device or "" for tower in training.towers}),
        "gpu": any("gpu" in (tower.loss.op.device or "").lower() for tower in training.towers),
        "plan": {name: value for name, value in plan._asdict().items() if value is not None},
        **_others(training.optimizer),
        **training.known,
        **hazard_facts(training),
    }


def environment_flags() -> Dict[str, str]:
    """Returns the environment variables that are set of those that change what TensorFlow computes."""
    return {name: os.environ[name] for name in TENSORFLOW_FLAGS if name in os.environ}


def _others(optimizer: Optimizer) -> Dict[str, Any]:
    others = getattr(optimizer, "others", {})
    return {"optimizers": {part: hyper_parameters(other) for part, other in others.items()}} if others else {}


def describe_variables(training: Training) -> Dict[str, Dict[str, Any]]:
    """Returns dict of variable name to `shape`, `dtype`, `kind`, `placement`, `use` and `saved_as`.

    `use` joins the types of the ops that compute loss and outputs of tower 0 from the variable with a plus sign, e.g.
    "MatMul" or "Conv2D+L2Loss": it decides the layout of a kernel. "" where they are made without it, as a moving mean is
    only moved by a training step. `saved_as` names what hangs on the variable as a checkpoint does,
    e.g. ``{"slot/m": "conv1/kernel/Adam", "ema": "conv1/kernel/ExponentialMovingAverage"}``, of a further optimizer
    ``{"section/head/slot/m": "w/Adam", "section/head/state/beta1_power": "beta1_power_1"}``.
    """
    described = {}
    saved_as = _saved_as(training)
    first = training.towers[0]
    computing = ancestors([tensor.op for tensor in (first.loss, *first.outputs.values())])
    # TensorFlow lists consumers in an order that changes from run to run; that of the graph does not.
    places = {op: place for place, op in enumerate(training.graph.get_operations())}
    for kind, group in (("weight", training.weights), ("statistic", training.statistics)):
        for name, variable in group.items():
            described[name] = {
                "shape": variable.shape.as_list(),
                "dtype": variable.dtype.base_dtype.name,
                "kind": kind,
                "placement": variable.device,
                "use": "+".join(_consumers(variable, computing, places, kind == "weight")),
                "saved_as": saved_as.get(name, {}),
            }
    return described


def _saved_as(training: Training) -> Dict[str, Dict[str, str]]:
    parts = training.parts
    found: Dict[str, Dict[str, str]] = {}
    for (slot, name), variable in training.slots.items():
        key = key_of("slot", name, slot=slot, section=parts.variables.get(name, ""))
        found.setdefault(name, {})[role_of(key)] = variable.op.name
    for name, variable in training.averages.items():
        found.setdefault(name, {})["ema"] = variable.op.name
    # What a further optimizer counts for all of its variables hangs on each of them.
    for name, part in parts.variables.items():
        for counted, (owner, counter) in parts.counters.items():
            if owner == part:
                found.setdefault(name, {})[trace_name("state", counter, section=part)] = counted
    return found


def _consumers(
    variable: Variable, computing: AbstractSet[Operation], places: Mapping[Operation, int], trained: bool
) -> List[str]:
    # What moves a copy of a weight says nothing of what the weight is; what moves an average, nothing of a use of it.
    ops = _reading(variable, places)
    used = [op for op in ops if op in computing]
    return list(dict.fromkeys(op.type for op in used or (ops if trained else [])))


def _reading(variable: Variable, places: Mapping[Operation, int]) -> List[Operation]:
    # What only passes the variable on says nothing of it; what computes with it says what it is.
    left_out = (*WRITING, "Save", "VarIsInitialized", "IsVariableInitialized")
    found, seen = [], set()
    pending = list(variable.op.outputs)
    while pending:
        tensor = pending.pop(0)
        for op in sorted(tensor.consumers(), key=lambda op: places[op]):
            if op in seen or op.type.startswith(left_out):
                continue
            seen.add(op)
            if passes_weights_on(op, tensor):
                pending += op.outputs
            elif op.name.startswith("tower_0/") and "gradients" not in op.name:
                found.append(op)
    return found


# States what goes wrong in many graphs of towers, where a built one has it: counters that race, updates by mistake.


def hazard_facts(training: Training) -> Dict[str, Any]:
    """Returns the facts, a dict of JSON values.

    `racing_counters`: counters that the update reads and writes in no order, as hand-made optimizers do, so that weights
    move by the old count or the new one, differently in every run; not looked for in a step that may be skipped.
    `trainable_counters`: what an optimizer keeps that is in `TRAINABLE_VARIABLES` by mistake.
    `step_counted`: how many ops of an update write the step count.
    `statistics_written`: dict of moving statistic to how many ops of an update write it, whatever collection they are in.
    `gradients_in_towers`: dict of variable to the towers that have a gradient of it, where not all have.
    `random_ops`: the first tower's draws; other towers draw other numbers, unless the op itself is seeded.

    Args:
      training: a `Training`.
    """
    run = ancestors([training.train_op])
    counters = training.counters
    watched = {trace_name("state", name): variable for name, variable in counters.items()}
    watched.update((trace_name("var", name), variable) for name, variable in training.weights.items())
    races = [race for race in find_races(watched, run, []) if any(quantity_of(key) == "var" for key in race.reaches)]
    racing = [parse_key(race.variable) for race in races]
    trainable = {variable.op.name for variable in training.graph.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES)}
    return {
        "racing_counters": sorted({key.name for key in racing if key.quantity == "state"}),
        "trainable_counters": sorted(name for name, one in counters.items() if one.op.name in trainable),
        "step_counted": len(_writers(training.global_step, run)),
        "statistics_written": {name: len(_writers(one, run)) for name, one in training.statistics.items()},
        "gradients_in_towers": _partly_missing(training.towers),
        "random_ops": sorted(op.name for op in run if op.type in RANDOM and op.name.startswith("tower_0/")),
    }


def _writers(variable: Variable, run: AbstractSet[Operation]) -> Set[Operation]:
    found, pending = set(), list(variable.op.outputs)
    while pending:
        tensor = pending.pop()
        for op in tensor.consumers():
            if op not in run:
                continue
            if op.type in CHOOSING:  # into the branch of a step that a loss scale does not skip
                pending += op.outputs
            elif op.type.startswith(WRITING) and op.inputs[0] is tensor:
                found.add(op)
    return found


def _partly_missing(towers: Sequence[Tower]) -> Dict[str, List[str]]:
    found = {}
    for place, (_, variable) in enumerate(towers[0].gradients):
        # By place: all towers' lists are in the order of tower 0's variables.
        having = [tower.name for tower in towers if tower.gradients[place][0] is not None]
        if len(having) < len(towers):
            found[variable.op.name] = having
    return found
