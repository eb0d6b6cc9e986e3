"""Hazards in how the towers' gradients are made and combined."""

from typing import AbstractSet, List

import tensorflow.compat.v1 as tf

from tf_towers.record.hazards.losses import scaled_losses
from tf_towers.record.hazards.types import Hazard
from tf_towers.record.plan import RecordPlan, Section
from tf_towers.record.towers import suggested_towers
from tf_towers.tf_types import Operation, Tensor


def _sum(section: Section, plan: RecordPlan) -> List[Hazard]:
    towers = len(section.towers)
    if section.loss_factor is not None and abs(section.loss_factor - 1) < 1e-6 and not scaled_losses(section):
        return [
            Hazard(
                "sum_not_mean",
                f"the losses of {towers} towers are added up and differentiated at once",
                f"DDP averages: the port's gradients are {towers} times smaller unless it sums too.",
            )
        ]
    summed = [each for each in section.combinations.values() if each.kind == "sum" and towers > 1]
    if not summed:
        return []
    if scaled_losses(section):
        return [
            Hazard(
                "sum_of_scaled_losses",
                f"{len(summed)} gradients are summed over {towers} towers whose losses are divided first",
                "The sum is a mean in the end. `parity replay` sums too, and compares each rank's loss with its tower's: "
                "keep the division in the loss there. DDP's mean needs the loss without it, for the same update.",
            )
        ]
    # Sparse ones beside dense means have a hazard of their own.
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


def _sparse_sum(section: Section, plan: RecordPlan) -> List[Hazard]:
    towers = len(section.towers)
    # rafaljozefowicz/lm's average_sparse concatenates without dividing; of ten copies that were found six do.
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


def _pairing(section: Section, plan: RecordPlan) -> List[Hazard]:
    # google/youtube-8m drops None in each tower and then zips. Measured on 1.15 and 2.21: with B's missing in tower 0
    # and A's in tower 1, A is given both, B none, and nothing fails where the shapes are equal.
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


def _absent(section: Section, plan: RecordPlan) -> List[Hazard]:
    # Losses that are differentiated at once leave no gradients of single towers.
    if len(section.towers) < 2 or section.loss_factor is not None:
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


def _clip_per_tower(section: Section, plan: RecordPlan) -> List[Hazard]:
    # Five of 58 codebases clip there. Measured on two vectors, limit 1: (0.45, 0.20) so, (0.68, 0.74) after the mean.
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


def _norm_of_rows(section: Section, plan: RecordPlan) -> List[Hazard]:
    names = [
        variable.op.name
        for gradient, variable in section.apply.pairs
        if isinstance(gradient, tf.IndexedSlices)
        and _in_a_norm(section.combinations[variable.op.name].combined, plan.ops)
    ]
    if not names:
        return []
    return [
        Hazard(
            "norm_of_repeated_rows",
            f"{len(names)} sparse gradients are in a norm as they are, one row for each time that it was looked up, "
            f"e.g. of {names[0]}",
            "A row that is there twice counts twice in that norm; a dense gradient, as DDP's, has it added up first, "
            "and another norm: keep the rows (sparse=True) and clip with torch_ddp.like_tf.clip_grads_by_global_norm_.",
        )
    ]


def _in_a_norm(values: Tensor, ops: AbstractSet[Operation]) -> bool:
    # tf.global_norm takes L2Loss of .values: 2.0 for four look-ups of one row, where the dense norm is 4.0 (measured).
    # bilm-tf adds repeated rows up by a segment sum first.
    return "SegmentSum" not in values.op.type and any(op.type == "L2Loss" and op in ops for op in values.consumers())


def _same_source(section: Section, plan: RecordPlan) -> List[Hazard]:
    if len(section.towers) < 2 or not section.inputs[0]:
        return []
    if any(each.share for tower in section.inputs for each in tower):
        return []
    # arashno/tensorflow_multigpu_imagenet has every tower read one placeholder. Scalars, as a keep probability, are the
    # same for all towers in any script.
    pieces = [{each.tensor.name for each in tower if each.tensor.shape.ndims != 0} for tower in section.inputs]
    if not pieces[0] or any(piece != pieces[0] for piece in pieces) or cut_behind(section):
        return []
    return [
        Hazard(
            "same_data",
            f"all {len(section.towers)} towers read {', '.join(sorted(pieces[0]))} whole",
            "The towers compute the same gradient: more of them do not make the batch larger. "
            "Feed every rank the same batch.",
        )
    ]


def cut_behind(section: Section) -> bool:
    """Tells whether towers that read one batch whole go on with different pieces of what is made of it together."""
    shared = set.intersection(*(set(ops) for ops in section.towers_ops))
    along = {each.tensor.name for tower in section.inputs for each in tower}
    # In the order of making, inputs come before readers.
    for op in sorted(shared, key=lambda op: op._id):
        if any(each.name in along for each in op.inputs):
            along.update(out.name for out in op.outputs)
    own = [
        {each.name for op in set(ops) - shared for each in op.inputs if each.name in along}
        for ops in section.towers_ops
    ]
    return any(names != own[0] for names in own)


def _not_separated(section: Section, plan: RecordPlan) -> List[Hazard]:
    found, suggested = len(section.towers), suggested_towers(set().union(*section.towers_ops))
    if not 0 < found < suggested:
        return []
    return [
        Hazard(
            "towers_not_separated",
            f"devices or name scopes suggest {suggested} towers, {found} could be separated behind "
            f"{section.towers[0].losses[0].name}",
            f"The replay compares {found} rank{'s' * (found > 1)} on all that these towers read: how {suggested} towers are "
            "combined is not judged. Compare the port's gradients on several ranks with those on one.",
        )
    ]


def _is_sparse(section: Section, name: str) -> bool:
    return any(
        variable.op.name == name and isinstance(gradient, tf.IndexedSlices)
        for gradient, variable in section.apply.pairs
    )


HAZARDS_OF_GRADIENTS = (
    _sum,
    _sparse_sum,
    _pairing,
    _absent,
    _clip_per_tower,
    _norm_of_rows,
    _same_source,
    _not_separated,
)
