"""Finds in the graph what is known to go wrong on the way to DistributedDataParallel."""

import collections

import tensorflow.compat.v1 as tf

from tf_towers.record.races import find_races, unordered_writers, writers_of

Hazard = collections.namedtuple("Hazard", ["name", "evidence", "meaning"])
Hazard.__doc__ = """One thing about a script that its port has to know.

Fields:
  name: short, stable, e.g. "sum_not_mean".
  evidence: what was seen, with names and numbers.
  meaning: what it means for the port.
"""


def hazards_in_graph(plan, variables):
    """Returns the list of `Hazard` that the graph of a training run shows.

    Args:
      plan: the `Plan` of the run.
      variables: the `Variables` of its graph.
    """
    found = []
    for section in plan.sections:
        for look in PER_SECTION:
            found += look(section, plan)
    for look in (_races, _statistics, _averages, _trainable_slots):
        found += look(plan, variables)
    return found


def _sum(section, plan):
    towers = len(section.towers)
    summed = [each for each in section.combinations.values() if each.kind == "sum" and towers > 1]
    if not summed:
        return []
    if _scaled_losses(section):
        return [
            Hazard(
                "sum_of_scaled_losses",
                f"{len(summed)} gradients are summed over {towers} towers whose losses are divided first",
                "The sum is a mean in the end: under DDP use the loss without that division.",
            )
        ]
    dense = [each for each in summed if not _is_sparse(section, each.variable)]
    if not dense:
        return []
    return [
        Hazard(
            "sum_not_mean",
            f"{len(dense)} of {len(section.combinations)} gradients are the sum over {towers} towers, "
            f"e.g. of {dense[0].variable}",
            f"DDP averages: the port's gradients are {towers} times smaller unless it sums too. "
            "A larger learning rate makes up for it with SGD and momentum only.",
        )
    ]


def _scaled_losses(section):
    def divided(loss):
        return loss.op.type in ("RealDiv", "Div", "Mul") and any(each.op.type == "Const" for each in loss.op.inputs)

    return all(divided(loss) for tower in section.towers for loss in tower.losses)


def _sparse_sum(section, plan):
    towers = len(section.towers)
    sparse = [
        each.variable
        for each in section.combinations.values()
        if each.kind == "sum" and towers > 1 and _is_sparse(section, each.variable)
    ]
    mean = any(each.kind == "mean" for each in section.combinations.values())
    if not sparse or not mean:
        return []
    return [
        Hazard(
            "sparse_sum",
            f"the sparse gradient of {sparse[0]} is summed over {towers} towers, the dense ones are averaged",
            f"Under DDP with dense embeddings that gradient is {towers} times smaller.",
        )
    ]


def _pairing(section, plan):
    wrong = [
        (name, tower, source)
        for name, each in section.combinations.items()
        for tower, source in each.sources.items()
        if source != name
    ]
    if not wrong:
        return []
    name, tower, source = wrong[0]
    return [
        Hazard(
            "positional_pairing",
            f"{len(wrong)} pairs are wrong: the gradient applied to {name} takes tower {tower}'s of {source}",
            "Gradients were paired by position after some were left out. A port pairs them by variable, rightly: "
            "it cannot be the same training.",
        )
    ]


def _absent(section, plan):
    if len(section.towers) < 2:
        return []
    names = [name for name in section.combinations if any(name not in tower.gradients for tower in section.towers)]
    if not names:
        return []
    have = sum(names[0] in tower.gradients for tower in section.towers)
    return [
        Hazard(
            "gradient_missing_in_some_towers",
            f"{len(names)} variables have no gradient in every tower, e.g. {names[0]}: "
            f"in {have} of {len(section.towers)}",
            "DDP needs find_unused_parameters=True there, and divides by the number of all ranks.",
        )
    ]


def _shape_of_loss(section, plan):
    wide = [loss for tower in section.towers for loss in tower.losses if loss.shape.ndims not in (0, None)]
    if not wide:
        return []
    return [
        Hazard(
            "loss_is_no_scalar",
            f"{wide[0].name} has shape {wide[0].shape}: its gradient is that of the sum of its elements",
            "torch refuses backward() on it: sum it in the port.",
        )
    ]


def _clip_per_tower(section, plan):
    names = [each.variable for each in section.combinations.values() if each.entries]
    if not names:
        return []
    return [
        Hazard(
            "changed_before_combining",
            f"{len(names)} gradients are clipped or scaled in each tower before they are combined, e.g. of {names[0]}",
            "clip_grad_norm_ after backward() comes after DDP's all-reduce: clip in a communication hook instead.",
        )
    ]


def _decay(section, plan):
    towers = len(section.towers)
    graph = section.apply.graph
    # TensorFlow 2 wraps them; asking the wrapper for its tensor would make new ops.
    collected = [getattr(each, "_master_tensor", each) for each in graph.get_collection("regularization_losses")]
    terms = [each.op for each in collected if isinstance(each, tf.Tensor)]
    counts = collections.OrderedDict()
    for ops in section.towers_ops:
        for name in {name for op in ops if op.type == "L2Loss" for name in _read_by(op)}:
            counts[name] = counts.get(name, 0) + 1
    if not counts:
        lost = [op.name for op in terms if not _used(op, section.towers_ops)]
        if not lost:
            return []
        return [
            Hazard(
                "regularisation_lost",
                f"{len(lost)} regularisation terms are in no tower's loss, e.g. {lost[0]}",
                "The script trains without them: the port has to, too.",
            )
        ]
    kinds = {name: section.combinations[name].kind for name in counts if name in section.combinations}
    effective = {name: counts[name] / (towers if kinds[name] in ("mean", "one") else 1) for name in kinds}
    wrong = sorted(name for name, times in effective.items() if times != 1)
    if not wrong or _scaled_losses(section) or towers < 2:
        return []
    return [
        Hazard(
            "decay_counted",
            f"the L2 term of {wrong[0]} is in {counts[wrong[0]]} of {towers} towers and its gradients are combined by "
            f"{kinds[wrong[0]]}: it counts {effective[wrong[0]]:g} times ({len(wrong)} variables)",
            f"Multiply the coefficient by {effective[wrong[0]]:g} in a port that has it once.",
        )
    ]


def _used(term, towers_ops):
    # What TensorFlow 2 adds to a loss is a copy of the term, made below the same name with a number.
    scope = term.name.partition("/Regularizer")[0] + "/Regularizer"
    return any(op is term or op.name.startswith(scope) for ops in towers_ops for op in ops)


def _read_by(op):
    for tensor in op.inputs:
        inner = tensor.op
        while inner.type in ("Identity", "ReadVariableOp", "Cast") and len(inner.inputs):
            inner = inner.inputs[0].op
        if inner.type in ("Variable", "VariableV2", "VarHandleOp"):
            yield inner.name


def _same_source(section, plan):
    if len(section.towers) < 2 or not section.inputs[0]:
        return []
    pieces = [{each.tensor.name for each in tower if each.tensor.shape.ndims != 0} for tower in section.inputs]
    if not pieces[0] or any(piece != pieces[0] for piece in pieces):
        return []
    return [
        Hazard(
            "same_data",
            f"all {len(section.towers)} towers read {', '.join(sorted(pieces[0]))} whole",
            "The towers compute the same gradient: more of them do not make the batch larger. "
            "Feed every rank the same batch.",
        )
    ]


def _reported_loss(section, plan):
    if len(section.towers) < 2:
        return []
    fetched = [name for name in plan.fetched if ":" in name]
    shown = [
        number for number, tower in enumerate(section.towers) if any(loss.name in fetched for loss in tower.losses)
    ]
    if len(shown) != 1:
        return []
    which = "the last" if shown[0] == len(section.towers) - 1 else "one"
    return [
        Hazard(
            "last_towers_loss",
            f"the script fetches the loss of tower {shown[0]} only, {which} of {len(section.towers)}",
            "What it prints is the loss of one shard: compare it with one rank's, not with the mean.",
        )
    ]


def _step_counter(section, plan):
    if section.apply.global_step is not None:
        return []
    return [
        Hazard(
            "global_step_not_counted",
            f"apply_gradients got no global_step for {section.apply.op.name}",
            "A schedule that reads the step stands still, unless the script counts by itself.",
        )
    ]


def _is_sparse(section, name):
    return any(
        variable.op.name == name and isinstance(gradient, tf.IndexedSlices)
        for gradient, variable in section.apply.pairs
    )


def _races(plan, variables):
    losses = [loss for section in plan.sections for tower in section.towers for loss in tower.losses]
    races = [race for race in find_races(variables.keys, plan.ops, losses) if race.variable.startswith("var/")]
    # An average that reads its weight too early or too late has a line of its own.
    updates = [race for race in races if any(key.startswith("var/") for key in race.reaches)]
    of_loss = [race for race in races if race not in updates and "loss" in race.reaches]
    found = []
    if updates:
        first = updates[0]
        found.append(
            Hazard(
                "ungated_update",
                f"{len(updates)} reads may come after the update of what they read: {first.reader} of "
                f"{first.variable[4:]} against {first.writer}; it flows into {first.reaches[0]}",
                "The script races: its gradients may be computed from weights that are half updated, differently in "
                "every run. No port can be the same: gate the gradients (compute_gradients does) first.",
            )
        )
    if of_loss:
        first = of_loss[0]
        found.append(
            Hazard(
                "ungated_loss",
                f"{first.reader} reads {first.variable[4:]} for a loss, and nothing keeps {first.writer} from coming first",
                "The loss that the script fetches beside its train op may be that of the updated weights. "
                "The gradients are not concerned.",
            )
        )
    return found


def _statistics(plan, variables):
    racing, still, several = [], [], []
    for name, variable in variables.statistics.items():
        writers = writers_of(variable, plan.ops)
        if not writers:
            still.append(name)
        elif unordered_writers(variable, plan.ops):
            racing.append((name, len(writers)))
        elif len(writers) > 1:
            several.append((name, len(writers)))
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
    if still:
        found.append(
            Hazard(
                "statistics_not_updated",
                f"{len(still)} non-trainable variables are not updated by the train op, e.g. {still[0]}",
                "If they are moving statistics, the script never moves them (UPDATE_OPS was not run).",
            )
        )
    return found


def _averages(plan, variables):
    averages = {key: variable for key, variable in variables.keys.items() if key.startswith("ema/")}
    if not averages:
        return []
    watched = dict(averages)
    watched.update((key, each) for key, each in variables.keys.items() if key.startswith("var/"))
    races = [race for race in find_races(watched, plan.ops, []) if any(key in averages for key in race.reaches)]
    if not races:
        return []
    return [
        Hazard(
            "unordered_average",
            f"{len(races)} moving averages read their weight in no order with its update, e.g. {races[0].variable[4:]}",
            "The average is of the weight before or after the update, by chance: allow for one update.",
        )
    ]


def _trainable_slots(plan, variables):
    graph = plan.sections[0].apply.graph
    trainable = {each.op.name for each in graph.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES) if hasattr(each, "op")}
    slots = [each.op.name for key, each in variables.keys.items() if "slot/" in key and each.op.name in trainable]
    if not slots:
        return []
    return [
        Hazard(
            "trainable_slots",
            f"{len(slots)} optimizer slots are in TRAINABLE_VARIABLES, e.g. {slots[0]}",
            "Leave them out of weight decay, averages and parameter counts of the port.",
        )
    ]


PER_SECTION = (
    _sum,
    _sparse_sum,
    _pairing,
    _absent,
    _shape_of_loss,
    _clip_per_tower,
    _decay,
    _same_source,
    _reported_loss,
    _step_counter,
)
