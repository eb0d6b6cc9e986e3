"""States the facts of a recorded script."""

import os
import sys

import tensorflow as real

from tf_towers.record.hyper_parameters import hyper_parameters
from tf_towers.record.plan import changed_after_combining
from tf_towers.record.towers import suggested_towers

FLAGS = ("TF_ENABLE_ONEDNN_OPTS", "TF_DETERMINISTIC_OPS", "TF_USE_LEGACY_KERAS", "NVIDIA_TF32_OVERRIDE")


def facts_of(sections, variables, combined, session, soft_placement):
    """Returns the facts as a dict of JSON values.

    Args:
      sections: list of `Section` that trained; the first one's are the facts.
      variables: the `Variables`.
      combined: dict of section name to what the numbers say: "mean", "sum", "other" or "unknown".
      session: that trains.
      soft_placement: who turned it on.
    """
    first = facts_of_section(sections[0], combined[sections[0].name])
    dtypes = sorted({variable.dtype.base_dtype.name for variable in variables.weights.values()})
    config = session._config
    facts = {
        "side": "tf_towers.record",
        "script": sys.argv[0],
        "framework": "tensorflow " + real.__version__,
        "precision": dtypes[0] if len(dtypes) == 1 else "+".join(dtypes),
        "slots": variables.slots,
        "resource_variables": any(variable.op.type == "VarHandleOp" for variable in variables.weights.values()),
        "threads": {
            "inter_op": config.inter_op_parallelism_threads if config else 0,
            "intra_op": config.intra_op_parallelism_threads if config else 0,
        },
        "queue_runners": len(session.graph.get_collection("queue_runners")),
        "soft_placement": soft_placement,
        "graph_seed": session.graph.seed,
        "flags": {name: os.environ[name] for name in FLAGS if name in os.environ},
    }
    facts.update(first)
    return facts


def combine_of_losses(section):
    """Returns how the towers' losses are added up before one differentiation: "mean", "sum" or "scaled"."""
    towers = len(section.towers)
    if abs(section.loss_factor * towers - 1) < 1e-6:
        return "mean"
    return "sum" if abs(section.loss_factor - 1) < 1e-6 else "scaled"


def facts_of_section(section, from_values):
    """Returns what is known of one optimizer's part as a dict of JSON values; `from_values` as in `facts_of`."""
    kinds = sorted({each.kind for each in section.combinations.values()})
    from_graph = kinds[0] if len(kinds) == 1 else "+".join(kinds)
    sure = from_values if from_values in ("mean", "sum") else from_graph
    if section.loss_factor is not None:
        sure = from_graph = combine_of_losses(section)
    return {
        "towers": max(1, len(section.towers)),
        "towers_suggested": suggested_towers(set().union(*section.towers_ops)),
        "combine": "mean" if len(section.towers) < 2 else sure,
        "combine_in_graph": from_graph,
        "combine_in_values": from_values,
        "optimizer": hyper_parameters(section.apply.optimizer),
        "towers_found_by": sorted({tower.made_by for tower in section.towers}),
        "tower_scopes": [tower.scope for tower in section.towers],
        "devices": [tower.device for tower in section.towers],
        "losses": [[loss.name for loss in tower.losses] for tower in section.towers],
        "train_op": section.apply.op.name,
        "inputs": {
            each.name: [own.tensor.name for inputs in section.inputs for own in inputs if own.name == each.name]
            for inputs in section.inputs
            for each in inputs
        },
        "input_sources": {each.name: each.source.name for inputs in section.inputs for each in inputs},
        "clipped": changed_after_combining(section),
    }
