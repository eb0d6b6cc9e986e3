"""Hazards in what a step leaves behind: races, statistics, averages, slots."""

from typing import List, Optional

import tensorflow.compat.v1 as tf

from parity.trace import parse_key, quantity_of
from tf_towers.graph.races import READ_BY_UPDATES_ALONE, WRITTEN_BY_UPDATES, find_races, unordered_writers
from tf_towers.graph.traversal import ancestors
from tf_towers.graph.value_flow import writers_of
from tf_towers.record.hazards.types import Hazard
from tf_towers.record.plan import RecordPlan
from tf_towers.record.variables import Variables
from tf_towers.tf_types import Operation


def _races(plan: RecordPlan, variables: Variables) -> List[Hazard]:
    losses = [loss for section in plan.sections for tower in section.towers for loss in tower.losses]
    races = [race for race in find_races(variables.keys, plan.ops, losses) if quantity_of(race.variable) == "var"]
    # An average that reads its weight too early or too late has a line of its own.
    updates = [race for race in races if any(quantity_of(key) == "var" for key in race.reaches)]
    of_loss = [race for race in races if race not in updates and "loss" in race.reaches]
    found = []
    # tf.gradients and apply_gradients in one run, with reference variables: wrong gradients in 46 of 60 runs of 1.15
    # and 60 of 60 of 2.21, up to 130 % off, with one thread too. Resource variables and compute_gradients: in none.
    if updates:
        first = updates[0]
        found.append(
            Hazard(
                "ungated_update",
                f"{len(updates)} reads may come after the update of what they read: {first.reader} of "
                f"{parse_key(first.variable).name} against {first.writer}; it flows into {first.reaches[0]}",
                "The script races: its gradients may be computed from weights that are half updated, differently in "
                "every run. No port can be the same: gate the gradients (compute_gradients does) first.",
            )
        )
    if of_loss:
        first = of_loss[0]
        found.append(
            Hazard(
                "ungated_loss",
                f"{first.reader} reads {parse_key(first.variable).name} for a loss, "
                f"and nothing keeps {first.writer} from coming first",
                "The loss that the script fetches beside its train op may be that of the updated weights. "
                "The gradients are not concerned.",
            )
        )
    return found


def _counters(plan: RecordPlan, variables: Variables) -> List[Hazard]:
    """A counter or a slot that an update reads, written by another op of the same run."""
    found = [
        race for race in find_races(variables.keys, plan.ops, []) if quantity_of(race.variable) in READ_BY_UPDATES_ALONE
    ]
    # Optimizers that assign t + 1 beside reads of t, as finetune-transformer-lm's, pixel-cnn's and glow's.
    races = [race for race in found if any(quantity_of(key) in WRITTEN_BY_UPDATES for key in race.reaches)]
    if not races:
        return []
    first = races[0]
    flows = next(key for key in first.reaches if quantity_of(key) in WRITTEN_BY_UPDATES)
    return [
        Hazard(
            "ungated_state",
            f"{len(races)} reads may come before or after the update of what they read: {first.reader} of "
            f"{first.variable} against {first.writer}; it flows into {flows}",
            "The script races: which value an update gets is left to the threads. The port is judged by both orders; "
            "read the counter before it is counted, or after, and keep to it.",
        )
    ]


def _statistics(plan: RecordPlan, variables: Variables) -> List[Hazard]:
    racing, still, several, elsewhere = [], [], [], []
    for name, variable in variables.statistics.items():
        writers = writers_of(variable, plan.ops)
        if not writers:
            still.append(name)
        # All towers' updates in one run, as 11 of 25 codebases with them: 4 towers gave five results in six runs, 2.26
        # to 2.80.
        elif unordered_writers(variable, plan.ops):
            racing.append((name, len(writers)))
        # In an order, then: the decay is applied once for each tower.
        elif len(writers) > 1:
            several.append((name, len(writers)))
        # The last tower's in tf/models' inception and in EAST.
        elif _tower_behind(writers[0], plan):
            elsewhere.append((name, _tower_behind(writers[0], plan)))
    found = []
    if racing:
        found.append(
            Hazard(
                "unordered_statistics",
                f"{len(racing)} moving statistics are updated by several ops of one run in no order, "
                f"e.g. {racing[0][0]} by {racing[0][1]}",
                "Which update survives changes from run to run: do not compare these.",
            )
        )
    if several:
        found.append(
            Hazard(
                "statistics_of_all_towers",
                f"{len(several)} moving statistics are updated {several[0][1]} times a step, e.g. {several[0][0]}",
                "DDP keeps rank 0's statistics, updated once a step.",
            )
        )
    if elsewhere:
        found.append(
            Hazard(
                "statistics_of_another_tower",
                f"{len(elsewhere)} moving statistics are updated from the batch of tower {elsewhere[0][1]} alone, "
                f"e.g. {elsewhere[0][0]}",
                "DDP keeps rank 0's statistics, and saves them: the script's are those of another shard. Broadcast that "
                f"rank's ({elsewhere[0][1]}) before the moving averages are updated.",
            )
        )
    if still:
        found.append(
            Hazard(
                "statistics_not_updated",
                f"{len(still)} non-trainable variables are not updated by the train op, e.g. {still[0]}",
                "If they are moving statistics, the script never moves them (UPDATE_OPS was not run).",
            )
        )
    return found


def _tower_behind(writer: Operation, plan: RecordPlan) -> Optional[int]:
    """The number of the one tower, not the first, whose own ops a written value comes from; else None."""
    behind = ancestors([writer])
    for section in plan.sections:
        # Ops that only some towers need: what all of them need, as reading the batch, says nothing of whose value it is.
        shared = set.intersection(*(set(ops) for ops in section.towers_ops)) if section.towers_ops else set()
        towers = [number for number, ops in enumerate(section.towers_ops) if behind & (set(ops) - shared)]
        if len(section.towers_ops) > 1 and len(towers) == 1 and towers[0]:
            return towers[0]
    return None


def _averages(plan: RecordPlan, variables: Variables) -> List[Hazard]:
    averages = {key: variable for key, variable in variables.keys.items() if quantity_of(key) == "ema"}
    if not averages:
        return []
    watched = dict(averages)
    watched.update((key, each) for key, each in variables.keys.items() if quantity_of(key) == "var")
    # 18 of 58 codebases keep averages, most in one group with the update: on 1.15 all of 40 runs took the old weight,
    # on 2.21 some took the one and some the other.
    races = [race for race in find_races(watched, plan.ops, []) if any(key in averages for key in race.reaches)]
    if not races:
        return []
    return [
        Hazard(
            "unordered_average",
            f"{len(races)} moving averages read their weight in no order with its update, "
            f"e.g. {parse_key(races[0].variable).name}",
            "The average is of the weight before or after the update, by chance: allow for one update.",
        )
    ]


def _trainable_slots(plan: RecordPlan, variables: Variables) -> List[Hazard]:
    graph = plan.sections[0].apply.graph
    trainable = {each.op.name for each in graph.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES) if hasattr(each, "op")}
    own = [
        key
        for key, each in variables.keys.items()
        if quantity_of(key) in READ_BY_UPDATES_ALONE and each.op.name in trainable
    ]
    slots = [variables.keys[key].op.name for key in own]
    if not slots:
        return []
    return [
        Hazard(
            "trainable_slots",
            f"{len(slots)} of an optimizer's slots and counters are in TRAINABLE_VARIABLES, e.g. {slots[0]}",
            "Leave them out of weight decay, averages and parameter counts of the port.",
        )
    ]


HAZARDS_OF_STATE = (_races, _counters, _statistics, _averages, _trainable_slots)
