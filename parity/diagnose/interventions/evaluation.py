"""Tests hypotheses about an evaluation that differs by evaluating once more, from a changed state or in another mode."""

from collections.abc import Callable, Collection, Container
from typing import Protocol, runtime_checkable

import numpy as np

from parity.diagnose.catalogue import build_cause
from parity.judge.metrics import distance
from parity.judge.result import Cause, FirstDifference
from parity.mapping.states import read_all
from parity.mapping.trace_map import Join
from parity.trace import TensorFile, Trace, batch_input, parse_evaluated, parse_key, quantity_of, select
from parity.trace.arrays import Array, Tensors
from parity.worker.failures import SideFailed

CLOSE_EVALUATION = 1e-12  # of each number of two evaluations of one side in float64: the same ops in the same order
Changed = Callable[[Tensors], Tensors]


@runtime_checkable
class Evaluates(Protocol):
    """Evaluates once more with something changed; `parity.experiment.sides.rerun.Rerun` says what each of these does."""

    def state_to_evaluate(self) -> Tensors: ...  # noqa: D102
    def evaluate_again(self, change: Changed = lambda state: state, evaluation: str = "eval") -> Trace: ...  # noqa: D102
    def evaluate_reference_again(self, change: Changed) -> Trace | None: ...  # noqa: D102
    def evaluate_on(self, batch: Changed) -> tuple[Trace, Trace | None]: ...  # noqa: D102
    def reference_batch(self, step: int) -> Tensors: ...  # noqa: D102


def of_the_evaluation(
    first: FirstDifference, recorder: Evaluates, join: Join, reference: Trace, candidate: Trace
) -> list[Cause]:
    """Returns why the sides differ after training only: which of them does not leave the training mode, and where.

    Args:
      first: the first difference, an evaluated tensor in lockstep.
      recorder: has recorded the case; its sides still run.
      join: names and layouts.
      reference: its float64 lockstep trace.
      candidate: its own.
    """
    if parse_evaluated(first.name).averages:
        return []  # with the weights themselves both are the same: the mode is right
    try:
        own = _evaluations(candidate.step(first.check.step))
        causes = of_the_inputs(first, recorder, join, reference) or _of_the_statistics(recorder, own)
        # Training mode that changes nothing means that eval() is ignored; only then are draws looked for.
        if _same(own, _evaluations(recorder.evaluate_again(evaluation="train"))):
            return [*causes, _train_mode()]
        if not _same(own, _evaluations(recorder.evaluate_again(evaluation="other draws"))):
            return [_random(), *causes]
        return causes or _of_the_towers(recorder, _evaluations(reference.step(first.check.step)))
    except SideFailed:
        return []  # the port does not take what was tried: no reason to lose the verdict over


def of_the_inputs(first: FirstDifference, recorder: Evaluates, join: Join, reference: Trace) -> list[Cause]:
    """Returns which inputs of training the port reads in its evaluation, where the towers read none of them.

    With ones in place of a mask, or zeros in place of noise, the port then evaluates to what the towers do.

    Args:
      first: the first difference, an evaluated tensor in lockstep.
      recorder: has recorded the case; its sides still run.
      join: names and layouts.
      reference: its float64 lockstep trace.
    """
    step, own = first.check.step, _evaluations(reference.step(first.check.step))
    given = recorder.reference_batch(step)
    # Each mask by itself, all of them together, then each noise: the first that does it is the least that does.
    masks = [text for text, value in given.items() if _drops(value)]
    noise = [text for text, value in given.items() if value.dtype.kind == "f" and value.ndim and text not in masks]
    tries = [([text], 1.0) for text in masks] + ([(masks, 1.0)] if len(masks) > 1 else [])
    for chosen, neutral in tries + [([text], 0.0) for text in noise]:
        try:
            candidate, followed = recorder.evaluate_on(_filled(chosen, neutral))
        except SideFailed:
            continue
        got = join.read(parse_key(first.check.key), candidate.step(candidate.step_numbers[-1]))
        wanted = own[first.check.key]
        if got is None or got.shape != wanted.shape or not distance(wanted, got) <= first.check.allowed:
            continue
        # The towers' evaluation must not move: else they read the input too, and it is no input of training.
        if followed is not None and not _same(own, _evaluations(followed.step(followed.step_numbers[-1]))):
            continue
        names = " and ".join(batch_input(text) for text in chosen)
        return [_read_in_evaluation(first, names, bool(neutral), followed is not None)]
    return []


def _drops(value: Array) -> bool:
    """Whether an input holds zeros and one other number, as masks of dropout do."""
    return value.dtype.kind == "f" and value.ndim > 0 and 0.0 in value and len(np.unique(value)) == 2


def _filled(inputs: Collection[str], number: float) -> Changed:
    return lambda batch: {
        text: np.full_like(value, number) if text in inputs else value for text, value in batch.items()
    }


def _read_in_evaluation(first: FirstDifference, names: str, drops: bool, followed: bool) -> Cause:
    key, was = first.check.key, first.check.multiple
    evidence = (
        f"with {'ones' if drops else 'zeros'} for {names} the candidate's {key} is the reference's, within what rounding "
        f"allows, where it was {was:.3g} times off{'; the reference evaluates to the same with them' if followed else ''}"
    )
    if drops:
        return build_cause("dropout_active", "evaluation", evidence=evidence, names=names)
    return build_cause("train_mode_in_evaluation", "tensor", evidence=evidence, names=names)


def _of_the_statistics(recorder: Evaluates, own: Tensors) -> list[Cause]:
    layers: dict[str, set[str]] = {}
    for text in select(recorder.state_to_evaluate(), "stat"):
        name = parse_key(text).name
        layers.setdefault(name.rpartition(".")[0] or name, set()).add(text)
    # Layer by layer: in a port of several norms one of them may have been given training=True.
    unused = [
        layer
        for layer, statistics in layers.items()
        if _same(own, _evaluations(recorder.evaluate_again(_shifting(statistics))))
    ]
    if not unused:
        return []
    names = ", ".join(unused)
    return [
        build_cause(
            "batch_statistics_in_evaluation",
            evidence=f"with the moving statistics of {names} changed, the candidate's evaluation is the same to the bit; "
            f"those of {len(layers) - len(unused)} other layers count",
            names=names,
        )
    ]


def _of_the_towers(recorder: Evaluates, own: Tensors) -> list[Cause]:
    # That the port's statistics count is known here.
    if not select(recorder.state_to_evaluate(), "stat"):
        return []
    moved = recorder.evaluate_reference_again(_shifting())
    if moved is None or not _same(own, _evaluations(moved)):
        return []
    return [
        build_cause(
            "towers_in_train_mode",
            evidence="with all moving statistics changed, the reference's evaluation is the same to the bit; the "
            "candidate's is not",
        )
    ]


def _train_mode() -> Cause:
    return build_cause(
        "train_mode_in_evaluation",
        "eval ignored",
        evidence="after model.train() the candidate evaluates to the same values to the bit; what training=False "
        "changes in the "
        "towers, it does not",
    )


def _random() -> Cause:
    return build_cause(
        "train_mode_in_evaluation",
        "random",
        evidence="after another random seed the candidate evaluates to other values, in evaluation mode and from "
        "the same state",
    )


def _shifting(chosen: Container[str] | None = None) -> Changed:
    def shifted(text: str) -> bool:
        return quantity_of(text) == "stat" and (chosen is None or text in chosen)

    # 2 s + 1 moves means that are 0 and variances that are 1, and keeps a variance above 0.
    return lambda state: {text: 2 * value + 1 if shifted(text) else value for text, value in state.items()}


def _evaluations(file: TensorFile | Trace) -> Tensors:
    found = file.step(file.step_numbers[-1]) if isinstance(file, Trace) else file
    return select(read_all(found), "eval")


def _same(one: Tensors, other: Tensors) -> bool:
    return one.keys() == other.keys() and all(
        np.allclose(other[text], value, rtol=CLOSE_EVALUATION, atol=0.0, equal_nan=True) for text, value in one.items()
    )
