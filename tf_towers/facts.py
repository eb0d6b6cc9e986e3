"""States the facts of a training: everything that may differ from another run on purpose."""

import os

import tensorflow as real

from tf_towers.hazard_facts import hazard_facts
from tf_towers.optimizer import hyper_parameters

FLAGS = ("TF_ENABLE_ONEDNN_OPTS", "TF_DETERMINISTIC_OPS", "TF_USE_LEGACY_KERAS", "NVIDIA_TF32_OVERRIDE")


def facts(training, precision, threads):
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
        "towers": len({replica.name.split(".")[0] for replica in training.towers}),
        "combine": plan.reduce,
        "precision": precision,
        "optimizer": hyper_parameters(getattr(training.optimizer, "first", training.optimizer)),
        "slots": sorted({slot for slot, _ in training.slots}),
        "variables_on": plan.variables,
        "batch_norm_updates": plan.batch_norm_updates if training.statistics else "none",
        "resource_variables": any(variable.op.type == "VarHandleOp" for variable in saved),
        "threads": threads,
        "flags": {name: os.environ[name] for name in FLAGS if name in os.environ},
        "devices": sorted({tower.loss.op.device or "" for tower in training.towers}),
        "gpu": any("gpu" in (tower.loss.op.device or "").lower() for tower in training.towers),
        "plan": {name: value for name, value in plan._asdict().items() if value is not None},
        **_others(training.optimizer),
        **training.known,
        **hazard_facts(training),
    }


def _others(optimizer):
    others = getattr(optimizer, "others", {})
    return {"optimizers": {part: hyper_parameters(other) for part, other in others.items()}} if others else {}


def describe_variables(training):
    """Returns dict of variable name to `shape`, `dtype`, `kind`, `placement`, `use` and `saved_as`.

    `use` joins the types of the ops that consume the variable in tower 0 with a plus sign, e.g. "MatMul" or
    "Conv2D+L2Loss": it decides the layout of a kernel. `saved_as` names what hangs on the variable as a checkpoint does,
    e.g. ``{"slot/m": "conv1/kernel/Adam", "ema": "conv1/kernel/ExponentialMovingAverage"}``, of a further optimizer
    ``{"section/head/slot/m": "w/Adam", "section/head/state/beta1_power": "beta1_power_1"}``.
    """
    described = {}
    saved_as = _saved_as(training)
    for kind, group in (("weight", training.weights), ("statistic", training.statistics)):
        for name, variable in group.items():
            described[name] = {
                "shape": variable.shape.as_list(),
                "dtype": variable.dtype.base_dtype.name,
                "kind": kind,
                "placement": variable.device,
                "use": "+".join(_consumers(variable)),
                "saved_as": saved_as.get(name, {}),
            }
    return described


def _saved_as(training):
    found, parts = {}, training.parts
    for (slot, name), variable in training.slots.items():
        section = f"section/{parts.variables[name]}/" if name in parts.variables else ""
        found.setdefault(name, {})[f"{section}slot/{slot}"] = variable.op.name
    for name, variable in training.averages.items():
        found.setdefault(name, {})["ema"] = variable.op.name
    # What a further optimizer counts for all of its variables hangs on each of them.
    for name, part in parts.variables.items():
        for counted, (owner, counter) in parts.counters.items():
            if owner == part:
                found.setdefault(name, {})[f"section/{part}/state/{counter}"] = counted
    return found


def _consumers(variable):
    # Reads, casts and regrouped shapes only pass the variable on; what computes with it says what it is.
    passing = {"Identity", "ReadVariableOp", "Cast", "Reshape", "ExpandDims", "Squeeze"}
    writing = ("Assign", "Apply", "ResourceApply", "SparseApply", "Save", "VarIsInitialized", "IsVariableInitialized")
    # TensorFlow lists consumers in an order that changes from run to run; that of the graph does not.
    order = {op: place for place, op in enumerate(variable.graph.get_operations())}
    found, seen = [], set()
    pending = list(variable.op.outputs)
    while pending:
        tensor = pending.pop(0)
        for op in sorted(tensor.consumers(), key=order.get):
            if op in seen or op.type.startswith(writing):
                continue
            seen.add(op)
            if op.type in passing:
                pending += op.outputs
            elif op.name.startswith("tower_0/") and "gradients" not in op.name and op.type not in found:
                found.append(op.type)
    return found
