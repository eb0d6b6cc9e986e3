"""What a recorded program does that a team, or a port of it, should know: each with its evidence and its meaning."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from parity.record.combination import Combination
from parity.trace import LEARNING_RATE, parse_key, quantity_of, select

SAME_WEIGHT = 1e-3  # as far as ranks that count equally may be from it
NAMED_OF_MANY = 4  # of parameters in one line


class Hazard(NamedTuple):
    """One thing about a program.

    Fields:
      name: short, stable, e.g. "gradients_not_shared".
      evidence: what was seen, with names and numbers.
      meaning: what it means.
    """

    name: str
    evidence: str
    meaning: str


@dataclass(frozen=True)
class Seen:
    """What there is to look at of one optimizer's step.

    Attributes:
      number: of the step, from 0.
      section: name of the optimizer.
      facts: of every rank.
      ranks: of every rank a dict of trace name without section to array.
      digests: of every rank a dict of trace name to digest, of weights, slots, statistics and averages after the step.
      combination: how the gradients were combined.
    """

    number: int
    section: str
    facts: Sequence[Mapping[str, Any]]
    ranks: Sequence[Mapping[str, Any]]
    digests: Sequence[Mapping[str, str]]
    combination: Combination

    @property
    def world_size(self) -> int:
        """Number of ranks."""
        return len(self.ranks)


Look = Callable[[Seen], Iterator[Hazard]]


def hazards_of(seen: Seen) -> list[Hazard]:
    """Returns the hazards that one step of one optimizer shows."""
    return [hazard for look in HAZARDS for hazard in look(seen)]


def _not_shared(seen: Seen) -> Iterator[Hazard]:
    alone = sorted(name for name, kind in seen.combination.of.items() if kind in ("none", "one rank's"))
    if not alone:
        return
    # "one rank's" is not shared either: the others' data moves nothing.
    every = len(alone) == len(seen.combination.of)
    what = "no gradient is" if every else f"{len(alone)} of {len(seen.combination.of)} gradients are not"
    outside = set(seen.facts[0].get("outside_wrapper", ()))
    if not every and set(alone) <= outside:
        return  # parameters_outside_wrapper says why
    yield Hazard(
        "gradients_not_shared",
        f"{what} shared between {seen.world_size} ranks in step {seen.number}: {_named(alone)}",
        "Each rank trains these on its own data: call the wrapper, not its module, or all-reduce them.",
    )


def _summed(seen: Seen) -> Iterator[Hazard]:
    if seen.combination.kind == "sum":
        yield Hazard(
            "gradients_summed",
            f"the gradients of {seen.world_size} ranks are added up in step {seen.number}, and not divided",
            "DistributedDataParallel averages: where the losses are not divided elsewhere, the step grows with the ranks.",
        )


def _combined_otherwise(seen: Seen) -> Iterator[Hazard]:
    kinds = seen.combination.of
    other = sorted(name for name, kind in kinds.items() if kind == "other")
    weights = seen.combination.weights
    # In this order, for each says more than the next: a number for each rank, one for all, none at all.
    if other and weights and max(weights) - min(weights) > SAME_WEIGHT * max(map(abs, weights)):
        parts = " + ".join(f"{weight:.4g} of rank {rank}'s" for rank, weight in enumerate(weights))
        yield Hazard(
            "gradients_weighted",
            f"the combined gradient of step {seen.number} is {parts}",
            "The ranks count differently: each clips or scales its own before the reduction, or they are weighted.",
        )
    elif other and weights:
        yield Hazard(
            "gradients_scaled",
            f"the mean of the ranks' gradients is multiplied by {weights[0] * len(weights):.4g} in step {seen.number}",
            "Scaled or clipped by the program's own code, or divided by another number than that of the ranks.",
        )
    elif other:
        yield Hazard(
            "gradients_combined_otherwise",
            f"{len(other)} of {len(kinds)} gradients are neither mean nor sum of the ranks': {_named(other)}",
            "They are compressed, or changed before or after the reduction: a port has to do the same.",
        )
    elif len(set(kinds.values()) - {"none", "one rank's"}) > 1:
        summed = sorted(name for name, kind in kinds.items() if kind == "sum")
        yield Hazard(
            "gradients_combined_differently",
            f"{len(summed)} of {len(kinds)} gradients are added up, the others averaged: {_named(summed)}",
            "One rule for all parameters is what DistributedDataParallel has.",
        )


def _rounded(seen: Seen) -> Iterator[Hazard]:
    if seen.combination.rounded:
        yield Hazard(
            "gradients_rounded",
            f"a combined gradient of step {seen.number} is {seen.combination.rounded:.1g} of its norm from the ranks' own",
            "They are reduced in half precision: by a communication hook, or because they are half.",
        )


def _outside(seen: Seen) -> Iterator[Hazard]:
    own = set(seen.facts[0]["sections"].get(seen.section, {}).get("parameters", ()))
    outside = [name for name in seen.facts[0].get("outside_wrapper", ()) if name in own]
    # A program may average them by its own collectives: numbers decide, not the wrapper.
    shared = [name for name in outside if seen.combination.of.get(name) in ("mean", "sum")]
    if seen.world_size > 1 and outside and len(shared) < len(outside):
        yield Hazard(
            "parameters_outside_wrapper",
            f"{len(outside)} trained parameters are in no DistributedDataParallel: {_named(outside)}",
            "Nobody averages their gradients, and nobody makes them equal at the beginning: wrap what holds them too.",
        )


def _past_wrapper(seen: Seen) -> Iterator[Hazard]:
    # Rank 0's facts: ranks run one program. Counts are those of all steps so far.
    count = seen.facts[0].get("forwards", {}).get("past_wrapper", 0)
    if seen.world_size > 1 and count:
        yield Hazard(
            "forward_past_wrapper",
            f"{count} forward passes with gradients called the model inside of DistributedDataParallel, not the wrapper",
            "The wrapper prepares its reduction in its own forward: such a backward pass shares no gradient, or waits.",
        )


def _data(seen: Seen) -> Iterator[Hazard]:
    feeds = [select(each, "feed") for each in seen.ranks]
    # Without the scalars, as a temperature or a flag: those may be the same on all ranks by intent.
    batches = [{_place(text): value for text, value in each.items() if np.ndim(value)} for each in feeds]
    if seen.world_size < 2 or not batches[0] or any(set(each) != set(batches[0]) for each in batches):
        return
    same = [rank for rank, each in enumerate(batches) if rank and _equal(each, batches[0])]
    if same and _says_something(batches[0]):
        yield Hazard(
            "same_data",
            f"ranks 0 and {', '.join(map(str, same))} train on the very same batch in step {seen.number}",
            "More ranks see no more data: give the loader a DistributedSampler, or each rank a seed or shard of its own.",
        )
    sizes = [[len(each[place]) for each in batches] for place in batches[0]]
    uneven = next((each for each in sizes if len(set(each)) > 1), None)
    # Where gradients are added up or weighted, the program may count its examples itself.
    if uneven and seen.combination.kind in ("mean", "unknown"):
        yield Hazard(
            "uneven_shards",
            f"the ranks train on {', '.join(map(str, uneven))} examples in step {seen.number}",
            "The mean over ranks is not the mean over examples, where each rank's loss is the mean over its own: "
            "drop the last batch, or weight the losses.",
        )


def _clipped_first(seen: Seen) -> Iterator[Hazard]:
    if seen.combination.clipped_first:
        yield Hazard(
            "clipped_before_reduction",
            f"each rank clips its own gradients, and they are combined after that (step {seen.number})",
            "The norm is that of one rank's gradient, and the mean of clipped gradients is not the clipped mean.",
        )


def _always_reduced(seen: Seen) -> Iterator[Hazard]:
    passes = len(select(seen.ranks[0], "loss"))
    # An option of DistributedDataParallel and of no other wrapper that is followed: who reduces by hand chooses when.
    wrapped = any("broadcast_buffers" in each for each in seen.facts[0].get("wrappers", ()))
    counts = seen.facts[0].get("passes", {})
    if seen.world_size > 1 and passes > 1 and wrapped and not counts.get("no_sync"):
        late = (
            " though some are in no_sync, for their forward passes were not" if counts.get("no_sync_too_late") else ""
        )
        yield Hazard(
            "accumulation_without_no_sync",
            f"each of the {passes} backward passes of step {seen.number} reduces all gradients{late}",
            "The result is the same as with no_sync before the last, at that many times its communication.",
        )


def _rates(seen: Seen) -> Iterator[Hazard]:
    rates = [float(each[LEARNING_RATE]) for each in seen.ranks if LEARNING_RATE in each]
    if len(set(rates)) > 1:
        yield Hazard(
            "learning_rates_differ",
            f"step {seen.number} has the learning rates {', '.join(f'{rate:.6g}' for rate in rates)} on its ranks",
            "The schedule steps differently on the ranks: let it depend on nothing that only one rank knows.",
        )


def _weights(seen: Seen) -> Iterator[Hazard]:
    wrappers = seen.facts[0].get("wrappers", ())
    sent = any(each.get("broadcast_buffers") for each in wrappers)
    of_statistics = (
        "The wrapper overwrites them with rank 0's before the next forward pass: they are those of rank 0's data alone."
        if sent
        else "Each rank keeps those of its own data, and nobody makes them one: which are saved and evaluated matters."
    )
    for quantity, name, meaning in (
        ("var", "weights_differ", "The ranks train models of their own: share initial weights and every gradient."),
        ("stat", "statistics_differ", of_statistics),
    ):
        names = sorted(
            text
            for text in seen.digests[0]
            if quantity_of(text) == quantity and any(each.get(text) != seen.digests[0][text] for each in seen.digests)
        )
        if names:
            what = [parse_key(text).name for text in names]
            yield Hazard(
                name, f"{len(what)} differ between the ranks after step {seen.number}: {_named(what)}", meaning
            )


def _sampler(seen: Seen) -> Iterator[Hazard]:
    for sampler in seen.facts[0].get("samplers", ()):
        epochs = sampler["epochs"]
        if sampler["shuffle"] and len(epochs) > 1 and len(set(epochs)) < len(epochs):
            yield Hazard(
                "sampler_without_set_epoch",
                f"a DistributedSampler began {len(epochs)} epochs as epochs {', '.join(map(str, epochs))}",
                "Every epoch has the same order and the same shards: call sampler.set_epoch(epoch) before each.",
            )


def _unused(seen: Seen) -> Iterator[Hazard]:
    finding = [each for each in seen.facts[0].get("wrappers", ()) if each.get("find_unused_parameters")]
    trained = seen.facts[0]["sections"].get(seen.section, {}).get("parameters", ())
    # Each rank's own gradients, not the combined ones, which DDP leaves also where only another rank used a parameter.
    used = [{parse_key(text).variable for text in select(rank, "tower_grad")} for rank in seen.ranks]
    if finding and trained and all(set(trained) <= own for own in used):
        yield Hazard(
            "nothing_unused",
            f"find_unused_parameters=True, and all {len(trained)} parameters get a gradient in step {seen.number}",
            "It costs a pass over the graph in every step, and hides a layer that is cut off by mistake.",
        )


def _without_gradient(seen: Seen) -> Iterator[Hazard]:
    described = seen.facts[0]["sections"].get(seen.section, {})
    trained, lost = described.get("parameters", ()), described.get("of_no_model", 0)
    used = {parse_key(text).variable for text in select(seen.ranks[0], "grad")}
    given = {parse_key(text).variable for text in select(seen.ranks[0], "clip")}
    # Nothing is recorded as given where it is what was combined: then nothing can be missing.
    dropped = sorted(used - given) if given else []
    if dropped:
        yield Hazard(
            "gradients_dropped",
            f"{len(dropped)} of {len(used)} gradients of step {seen.number} are gone before the update: {_named(dropped)}",
            "The program takes them away after its backward pass: these parameters do not move in such a step.",
        )
    unused = sorted(set(trained) - used)
    if lost:
        yield Hazard(
            "optimizer_holds_other_parameters",
            f"{lost} of the optimizer's parameters belong to no model that there is",
            "It was made before the model was moved, wrapped or rebuilt: make it of the parameters that are trained.",
        )
    if unused:
        yield Hazard(
            "parameters_without_gradient",
            f"{len(unused)} of {len(trained)} parameters have no gradient in step {seen.number}: {_named(unused)}",
            "They do not move, save by weight decay where there is one: cut off, frozen by mistake, or meant so.",
        )


def _place(text: str) -> str:
    key = parse_key(text)
    return f"{key.tower.partition('.')[2]}/{key.name}"


def _equal(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return all(np.array_equal(one[place], other[place]) for place in other)


def _says_something(batch: Mapping[str, Any]) -> bool:
    """Whether a batch is not of one number only, which ranks share by chance."""
    flat = [np.ravel(value) for value in batch.values() if np.size(value)]
    return any((each != each[0]).any() for each in flat)


def _named(names: Sequence[str]) -> str:
    more = len(names) - NAMED_OF_MANY
    return ", ".join(names[:NAMED_OF_MANY]) + (f" and {more} more" if more > 0 else "")


HAZARDS: tuple[Look, ...] = (
    _not_shared,
    _summed,
    _combined_otherwise,
    _rounded,
    _outside,
    _past_wrapper,
    _data,
    _clipped_first,
    _always_reduced,
    _rates,
    _weights,
    _sampler,
    _unused,
    _without_gradient,
)
