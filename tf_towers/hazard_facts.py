"""States what goes wrong in many graphs of towers, where a built one has it: counters that race, updates by mistake."""

import tensorflow.compat.v1 as tf

from tf_towers.record.ancestry import ancestors
from tf_towers.record.inputs import RANDOM, WRITING
from tf_towers.record.races import find_races

BRANCHING = ("Switch", "RefSwitch")  # into the branch of a step that a loss scale does not skip


def hazard_facts(training):
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
    watched = {f"state/{name}": variable for name, variable in counters.items()}
    watched.update((f"var/{name}", variable) for name, variable in training.weights.items())
    races = [race for race in find_races(watched, run, []) if any(key.startswith("var/") for key in race.reaches)]
    trainable = {variable.op.name for variable in training.graph.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES)}
    return {
        "racing_counters": sorted({race.variable[len("state/") :] for race in races if race.variable[:6] == "state/"}),
        "trainable_counters": sorted(name for name, one in counters.items() if one.op.name in trainable),
        "step_counted": len(_writers(training.global_step, run)),
        "statistics_written": {name: len(_writers(one, run)) for name, one in training.statistics.items()},
        "gradients_in_towers": _partly_missing(training.towers),
        "random_ops": sorted(op.name for op in run if op.type in RANDOM and op.name.startswith("tower_0/")),
    }


def _writers(variable, run):
    found, pending = set(), list(variable.op.outputs)
    while pending:
        tensor = pending.pop()
        for op in tensor.consumers():
            if op not in run:
                continue
            if op.type in BRANCHING:
                pending += op.outputs
            elif op.type.startswith(WRITING) and op.inputs[0] is tensor:
                found.add(op)
    return found


def _partly_missing(towers):
    found = {}
    for place, (_, variable) in enumerate(towers[0].gradients):
        having = [tower.name for tower in towers if tower.gradients[place][0] is not None]
        if len(having) < len(towers):
            found[variable.op.name] = having
    return found
