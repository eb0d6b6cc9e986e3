"""Tests hypotheses by running a step again: one thing changed, does the candidate then give what the reference gives?

For causes that no trace can show alone, such as what the port does to its inputs before the first recorded layer.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from parity.judge.join import Join
from parity.judge.numbers import Array, distance
from parity.judge.result import Cause, FirstDifference
from parity.run.plan import Recorder
from parity.run.states import Tensors
from parity.sides import SideFailed
from parity.trace import Trace, parse_key

MOST_EXCHANGES = 24
SCALES = ((255.0, "255", "1/255"), (1 / 255.0, "1/255", "255"), (2.0, "2", "1/2"), (0.5, "1/2", "2"))


class Change(NamedTuple):
    """One thing that is changed for a step.

    Fields:
      name, title, fix: of the cause, where the change turns out to be the mend.
      what: what is done, for the evidence: "with ... the candidate gives ...".
      batch: what becomes of a whole batch, dict of input name to array ``[batch, ...]`` in the candidate's layout.
      state: what becomes of the state, dict of trace name to array in the candidate's layout.
      twice: whether the batch is fed once before, in a step whose result does not count.
    """

    name: str
    title: str
    fix: str
    what: str
    batch: Callable[[Tensors], Tensors] = lambda batch: batch
    state: Callable[[Tensors], Tensors] = lambda state: state
    twice: bool = False


POLICIES = {
    "first": "the first tower's",
    "last": "the last tower's",
    "all_ordered": "all towers', one after the other",
}


def find_by_experiment(
    first: FirstDifference, recorder: Recorder, join: Join, reference: Trace, candidate: Trace
) -> list[Cause]:
    """Returns the cause whose opposite makes the first difference go away, or nothing.

    Args:
      first: the first difference, found in lockstep.
      recorder: has recorded the case; its sides still run.
      join: names and layouts.
      reference: its float64 lockstep trace.
      candidate: its own.
    """
    if first.quantity == "stat" and first.check.run == "lockstep":
        return _of_the_statistics(first, recorder, join, candidate)
    if first.check.run != "lockstep" or first.quantity not in ("act", "loss", "tower_grad", "metric"):
        return []
    wanted = reference.step(first.check.step).read(first.check.key)
    joined = _of_the_batch_norm(first, recorder, join, reference)
    if joined:
        return joined
    for change in _changes(first, recorder, reference):
        try:
            traced = recorder.repeat(first.check.step, change.batch, change.state, change.twice)
        except SideFailed:
            return []  # the port does not take what was tried: no reason to lose the verdict over
        got = join.read(parse_key(first.check.key), traced.step(traced.step_numbers[-1]))
        if got is None or got.shape != wanted.shape or not np.isfinite(got).all():
            continue
        left = distance(wanted, got)
        if left <= first.check.allowed:
            evidence = (
                f"{change.what}, the candidate gives the reference's {first.check.key}: {left / first.check.allowed:.2g} "
                f"times what rounding allows, where it was {first.check.multiple:.3g} times"
            )
            return [Cause(change.name, change.title, evidence, change.fix)]
    return []


def _changes(first: FirstDifference, recorder: Recorder, reference: Trace) -> Iterator[Change]:
    batch = recorder.batch(first.check.step)
    yield from _of_the_order(recorder.towers)
    yield Change(
        "stale_batch",
        "the port works on the batch of the step before",
        "use the batch of this step: check prefetching and where next() is called",
        "fed with this step's batch once more",
        twice=True,
    )
    yield from _of_the_inputs(batch)
    state = recorder.state(first.check.step)
    yield from _of_the_flatten(first, reference, state)
    yield from _of_the_state(first, state)


def _of_the_statistics(first: FirstDifference, recorder: Recorder, join: Join, candidate: Trace) -> list[Cause]:
    step = first.check.step
    got = join.read(parse_key(first.check.key), candidate.step(step))
    if recorder.towers == 1 or got is None:
        return []
    asked = recorder.batch_norm_updates
    for policy, survivor in POLICIES.items():
        if policy == asked:
            continue
        traced = recorder.repeat_reference(step, policy)
        if traced is None:
            return []
        wanted = traced.step(step).read(first.check.key)
        if wanted.shape == got.shape and distance(wanted, got) <= first.check.allowed:
            return [
                Cause(
                    "statistics_of_another_tower",
                    f"the statistics that survive are {survivor}, not {POLICIES.get(asked, asked)}",
                    f'with [tf] batch_norm_updates = "{policy}" the towers give the candidate\'s {first.check.key}',
                    "keep the statistics of the rank that stands for the surviving tower: rank 0 under DDP's broadcast",
                )
            ]
    return []


def _of_the_batch_norm(first: FirstDifference, recorder: Recorder, join: Join, reference: Trace) -> list[Cause]:
    kinds = {entry.get("kind") for entry in reference.variables.values()}
    if recorder.towers == 1 or "statistic" not in kinds or first.quantity not in ("act", "loss"):
        return []
    step = first.check.step
    wanted = reference.step(step).read(first.check.key)
    for over_all_ranks, whose, where in ((None, "the port", "each rank's own shard"), (True, "the graph", "all ranks")):
        try:
            traced = recorder.repeat_with_batch_norm(step, over_all_ranks)
        except SideFailed:
            return []
        got = join.read(parse_key(first.check.key), traced.step(step))
        if got is not None and got.shape == wanted.shape and distance(wanted, got) <= first.check.allowed:
            mend = (
                "leave SyncBatchNorm out, as towers do" if over_all_ranks is None else "[torch] sync_batch_norm = true"
            )
            return [
                Cause(
                    "sync_batch_norm",
                    f"{whose} normalises over the whole batch, the other side over each of the {recorder.towers} shards",
                    f"with batch norm over {where} the candidate gives the reference's {first.check.key}: "
                    f"{distance(wanted, got) / first.check.allowed:.2g} times what rounding allows, where it was "
                    f"{first.check.multiple:.3g} times",
                    mend,
                )
            ]
    return []


def _of_the_order(towers: int) -> Iterator[Change]:
    if towers > 1:
        yield Change(
            "order_of_examples",
            "the examples are dealt out in turn (rank, rank + world size, ...)",
            "cut the batch into contiguous pieces as tf.split does: torch_ddp.shard",
            "fed with the batch in the order that undoes dealing it out",
            batch=lambda batch: {name: _dealt_back(value, towers) for name, value in batch.items()},
        )


def _of_the_inputs(batch: Tensors) -> Iterator[Change]:
    for name, value in batch.items():
        plain = name.removeprefix("feed/")

        def only(change: Callable[[Array], Array], name: str = name) -> Callable[[Tensors], Tensors]:
            return lambda batch: {**batch, name: np.ascontiguousarray(change(batch[name]))}

        if value.ndim == 4 and value.dtype.kind == "f":
            image = "check the order of the axes where the port reads its images"
            # The batch is the candidate's: channels may come first or last, two neighbouring axes are height and width.
            for axes in ((1, 2), (2, 3)):
                if value.shape[axes[0]] == value.shape[axes[1]]:
                    yield Change(
                        "transposed_input",
                        f"the port exchanges height and width of {plain}",
                        image,
                        f"with axes {axes[0]} and {axes[1]} of {plain} exchanged",
                        batch=only(lambda x, axes=axes: np.swapaxes(x, *axes)),  # type: ignore[misc]
                    )
            for axis in (1, 2, 3):
                if value.shape[axis] > 1:
                    yield Change(
                        "reversed_input",
                        f"the port reverses axis {axis} of {plain}",
                        "check flips and the order of the channels (RGB, BGR)",
                        f"with axis {axis} of {plain} reversed",
                        batch=only(lambda x, axis=axis: np.flip(x, axis)),  # type: ignore[misc]
                    )
        if value.dtype.kind == "f":
            for factor, text, inverse in SCALES:
                yield Change(
                    "input_scale",
                    f"the port multiplies {plain} by {inverse}",
                    "scale the inputs once, where the graph does",
                    f"with {plain} times {text}",
                    batch=only(lambda x, factor=factor: (x * factor).astype(x.dtype)),  # type: ignore[misc]
                )
        elif value.dtype.kind in "iu" and value.ndim == 1:
            for step in (-1, 1):
                classes = int(value.max()) + 1
                yield Change(
                    "labels_shifted",
                    f"the port shifts {plain} by {-step:+d}",
                    "count the classes from where the graph does",
                    f"with {plain} shifted by {step:+d}",
                    batch=only(lambda x, step=step, n=classes: ((x.astype(np.int64) + step) % n).astype(x.dtype)),  # type: ignore[misc]
                )


def _of_the_flatten(first: FirstDifference, reference: Trace, state: Tensors) -> Iterator[Change]:
    file = reference.step(first.check.step)
    images = {
        file.shape(text)[1:]
        for text in file.names()
        if text.startswith(("act/", "feed/")) and len(file.shape(text)) == 4
    }
    for text, weight in state.items():
        if not text.startswith("var/") or weight.ndim != 2:
            continue
        for h, w, c in sorted(image for image in images if int(np.prod(image)) == weight.shape[1]):
            order = np.arange(h * w * c).reshape(h, w, c).transpose(2, 0, 1).reshape(-1)
            yield Change(
                "flatten_order",
                f"the flatten before {text[4:]} counts channels first in the port, last in the towers",
                f'map its kernel with transform = "flatten_hwc({h}, {w}, {c})", or flatten in the order of the towers '
                "(torch_ddp.like_tf.flatten)",
                f"with the inputs of {text[4:]} taken from the order {h}, {w}, {c} to {c}, {h}, {w}",
                state=lambda state, text=text, order=order: {
                    **state,
                    text: np.ascontiguousarray(state[text][:, order]),
                },  # type: ignore[misc]
            )


def _of_the_state(first: FirstDifference, state: Tensors) -> Iterator[Change]:
    weights = {text: value for text, value in state.items() if text.startswith("var/")}
    near = [text for text in weights if first.name and first.name.split("/")[0] in text] or list(weights)
    for text in near:
        value = weights[text]
        if value.ndim >= 2 and value.shape[0] == value.shape[1]:
            yield Change(
                "transposed_kernel",
                f"the square kernel {text[4:]} is used transposed",
                f'map it the other way round: [mapping] … = {{ to = "{text[4:]}", transform = … }} (identity or transpose)',
                f"with {text[4:]} transposed",
                state=lambda state, text=text: {**state, text: np.ascontiguousarray(np.swapaxes(state[text], 0, 1))},  # type: ignore[misc]
            )
    for one, other in list(_alike(near, weights))[:MOST_EXCHANGES]:
        yield Change(
            "swapped_variables",
            f"{one[4:]} and {other[4:]} stand for each other",
            f"exchange {one[4:]} and {other[4:]} in the mapping, or where the port uses them",
            f"with {one[4:]} and {other[4:]} exchanged",
            state=lambda state, one=one, other=other: {**state, one: state[other], other: state[one]},  # type: ignore[misc]
        )
    layers = {text.rpartition(".")[0] for text in near}
    for one, other in list(_layers_alike(sorted(layers), weights))[:MOST_EXCHANGES]:
        yield Change(
            "swapped_variables",
            f"the layers {one[4:]} and {other[4:]} stand for each other",
            f"exchange {one[4:]} and {other[4:]} in the mapping, or where the port uses them",
            f"with all variables of {one[4:]} and {other[4:]} exchanged",
            state=lambda state, one=one, other=other: _exchanged(state, one, other),  # type: ignore[misc]
        )


def _alike(near: Sequence[str], weights: Tensors) -> Iterator[tuple[str, str]]:
    seen = set()
    for one in near:
        for other in weights:
            pair = frozenset((one, other))
            if one != other and pair not in seen and weights[one].shape == weights[other].shape:
                seen.add(pair)
                yield one, other


def _layers_alike(near: Sequence[str], weights: Tensors) -> Iterator[tuple[str, str]]:
    layers: dict[str, dict[str, tuple[int, ...]]] = {}
    for text, value in weights.items():
        layer, _, part = text.rpartition(".")
        layers.setdefault(layer, {})[part] = value.shape
    for place, one in enumerate(near):
        for other, shapes in layers.items():
            if other != one and len(shapes) > 1 and layers.get(one) == shapes and other not in near[:place]:
                yield one, other


def _exchanged(state: Tensors, one: str, other: str) -> Tensors:
    renamed = {}
    for text, value in state.items():
        layer, dot, part = text.rpartition(".")
        renamed[{one: other, other: one}.get(layer, layer) + dot + part] = value
    return renamed


def _dealt_back(value: Array, towers: int) -> Array:
    dealt = np.concatenate([np.arange(tower, len(value), towers) for tower in range(towers)])
    back = np.empty_like(value)
    back[dealt] = value
    return back
