"""Finds the recurrent layers among the variables, and what may go into them and come out, in two forward passes."""

from collections.abc import Collection, Iterator, Mapping

import numpy as np

from parity.diagnose import Evidence
from parity.diagnose.agreement import same_in_order
from parity.diagnose.layers.recurrent import Recurrent
from parity.judge.metrics import is_finite
from parity.locate import Location
from parity.locate.downstream import active, behind_difference
from parity.locate.matching import Pass
from parity.trace import parse_key
from parity.trace.arrays import Array

MOST_LAYERS = 12  # those whose scopes the op is in come first
MOST_SEQUENCES = 12  # outputs of three or four axes that are taken for sequences
MOST_CUT = 24  # sequences in all, from which on no more are cut out of outputs of two axes
MOST_LENGTHS = 8  # whole numbers of examples that are made of data
LEAST_STEPS = 3  # of as many ops of one kind: two may be two layers
MOST_KERNELS = 4  # of a scope that holds an embedding, or a product behind it, beside the cell


def recurrent_layers(place: Location, evidence: Evidence, step: int, tower: str) -> Iterator[Recurrent]:
    """Yields the layers that may be recurrent, with what is known of them.

    Args:
      place: where the passes part.
      evidence: the float64 lockstep traces.
      step: of the passes.
      tower: of the passes.
    """
    file = evidence.reference.step(step)
    keys = {text: parse_key(text) for text in file.names()}
    feeds = {key.name: file.read(text) for text, key in keys.items() if (key.quantity, key.tower) == ("feed", tower)}
    (one, other), known = place.passes, (place.reached.reference, place.reached.candidate)
    # [examples, steps, features]; of a graph with time_major [steps, examples, features].
    sequences = {name: value for name, value in feeds.items() if value.ndim == 3 and value.dtype.kind == "f"}
    examples = {len(value) for value in feeds.values() if value.ndim}
    here, there = (sequences_of(passed, set(n), examples) for passed, n in zip((one, other), known, strict=True))
    sequences.update({**here, **there, **_in_steps_of(here, there)})
    states = {name: value for name, value in feeds.items() if value.ndim == 2 and value.dtype.kind == "f"}
    states.update(_outputs(one, set(known[0]), 2))
    lengths = {n: v.reshape(-1) for n, v in feeds.items() if v.ndim in (1, 2) and v.dtype.kind in "iu"}
    for passed in (one, other):
        lengths.update(_whole_numbers(passed))
    # [examples, steps] of zeros and ones: where a sequence goes on, or where another begins.
    marks = {name: _float(v) for name, v in feeds.items() if v.ndim == 2 and np.isin(v, (0, 1)).all()}
    behind = [
        behind_difference(passed.ops, told, own)
        for passed, told, own in zip((one, other), place.reached.told, known, strict=True)
    ]
    wrong = [
        [value for ndim in (2, 3) for value in _outputs(passed, numbers, ndim).values()]
        for passed, numbers in zip((one, other), behind, strict=True)
    ]
    read = behind[1] & {each for number in behind[1] for each in other.ops[number].inputs}
    starts = (place.parting.reference, place.parting.candidate)
    of_one, of_other = (_at(passed, number) for passed, number in zip((one, other), starts, strict=True))
    of_read = list(_outputs(other, read, 2).values())
    of_layers = list(_layers(evidence, step))
    for name, variables in sorted(of_layers, key=lambda each: -shared_scopes(each[0], place.op.name))[:MOST_LAYERS]:
        yield Recurrent(
            name, variables, sequences, states, lengths, marks, wrong[0], wrong[1], (of_one, of_other), of_read
        )


def shared_scopes(layer: str, op: str) -> int:
    """Returns how many of a layer's scopes, from the outermost on, an op is in.

    Args:
      layer: its name.
      op: name of the op.
    """
    scopes = layer.split("/")
    inside = (f"/{'/'.join(scopes[:count])}/" in f"/{op}/" for count in range(len(scopes), 0, -1))
    return next((len(scopes) - skipped for skipped, each in enumerate(inside) if each), 0)


def _layers(evidence: Evidence, step: int) -> Iterator[tuple[str, Mapping[str, Array]]]:
    """Yields the groups of variables of one scope, or of the scopes right inside one, that may be a cell's."""
    groups: dict[str, dict[str, Array]] = {}
    for name, entry in evidence.reference.variables.items():
        scopes = name.split("/")[:-1]
        value = evidence.before(step, "var", name) if 1 <= len(entry["shape"]) <= 2 else None
        for scope in dict.fromkeys(["/".join(scopes), "/".join(scopes[:-1])]) if value is not None else ():
            groups.setdefault(scope, {})[name] = value  # type: ignore[assignment]
    for scope, variables in groups.items():
        kernels = [value for value in variables.values() if value.ndim == 2 and value.shape[1] != 1]
        if scope and 1 <= len(kernels) <= MOST_KERNELS:
            yield from _of_cells(scope, variables)


def _of_cells(scope: str, variables: Mapping[str, Array]) -> Iterator[tuple[str, Mapping[str, Array]]]:
    kernels = {name: value for name, value in variables.items() if value.ndim == 2}
    biases = {name: value for name, value in variables.items() if value.ndim == 1}
    if len(kernels) <= 2:
        yield scope, variables
    if len(kernels) > 1:
        for name, kernel in kernels.items():
            fitting = [bias for bias, value in biases.items() if value.shape == kernel.shape[1:]]
            yield name, {name: kernel, **{bias: biases[bias] for bias in fitting[:1]}}


def sequences_of(passed: Pass, known: Collection[int], examples: Collection[int]) -> dict[str, Array]:
    """Returns what both sides have of three axes, in both orders of the first two, and what of each step, stacked.

    Of four axes the first two may be one, and the first of two may be two: sentences of documents.

    Args:
      passed: a side's pass.
      known: numbers of the ops whose output the other side has too.
      examples: how many examples there may be.
    """
    found = {**_outputs(passed, known, 3, MOST_SEQUENCES), **_taken(passed, known)}
    joined = _outputs(passed, known, 4, MOST_SEQUENCES)
    found.update((name, value.reshape(-1, *value.shape[2:])) for name, value in joined.items())
    for name, value in _outputs(passed, known, 2).items():
        for count in examples:
            if len(value) % count == 0 and len(value) >= LEAST_STEPS * count and len(found) < MOST_CUT:
                # [examples * steps, features], as in front of a dense layer: cut back into its steps.
                found[f"{name}, cut into {count}"] = value.reshape(count, -1, value.shape[1])
    turned = {f"{name}, turned": value.swapaxes(0, 1) for name, value in found.items()}
    steps: dict[str, list[int]] = {}
    # A loop that is written out has an op for each step, of one kind and one source: stacked, they are a sequence.
    for number in sorted(known):
        op = passed.ops[number]
        if len(op.shape) == 2:
            source = op.weights or op.inputs
            steps.setdefault(f"{op.kind} of {source}, {op.shape}", []).append(number)
    for of, numbers in steps.items():
        values = [passed.value(number) for number in numbers]
        arrays = [_float(value) for value in values if value is not None]
        if len(numbers) >= LEAST_STEPS and len(arrays) == len(numbers) and all(is_finite(each) for each in arrays):
            found[f"the steps of {passed.ops[numbers[0]].name or of}"] = np.stack(arrays, axis=1)
    return {**found, **turned}


def _in_steps_of(reference: Mapping[str, Array], candidate: Mapping[str, Array]) -> dict[str, Array]:
    """Sequences of the reference in other steps, which the candidate has of the same numbers: pairs of frames as one."""
    found: dict[str, Array] = {}
    for value in candidate.values():
        for name, own in reference.items():
            cut = f"{name}, cut into steps of {value.shape[-1]}"
            fits = (value.size, len(value)) == (own.size, len(own)) and value.shape != own.shape
            if fits and cut not in found and same_in_order(np.sort(value, axis=None), np.sort(own, axis=None)):
                found[cut] = own.reshape(value.shape)
    return found


def _taken(passed: Pass, known: Collection[int]) -> dict[str, Array]:
    """What ops take of three axes that others gave of other sizes: a map whose columns are steps, frames joined in pairs."""
    found: dict[str, Array] = {}
    for number, op in enumerate(passed.ops):
        for at, operand in enumerate(op.operands):
            if operand.op is None or operand.op not in known or len(found) >= MOST_SEQUENCES:
                continue
            laid_out = len(operand.shape) == 3 and list(operand.shape) != list(passed.ops[operand.op].shape)
            value = passed.operand(number, at) if laid_out else None
            if value is not None and value.dtype.kind == "f" and value.size > 1 and is_finite(value):
                found[f"what {op.name or op.kind} takes"] = _float(value)
    return found


def _whole_numbers(passed: Pass) -> dict[str, Array]:
    """Whole numbers, one for each of several, that a pass makes of data: lengths of what is left of sequences.

    As floats too: what is masked by lengths is divided by them.
    """
    found: dict[str, Array] = {}
    of_weights = active(passed.ops)
    for number, op in enumerate(passed.ops):
        value = passed.value(number) if len(op.shape) == 1 and number not in of_weights else None
        if value is None or value.dtype.kind not in "iuf" or value.size < 2 or len(found) >= MOST_LENGTHS:
            continue
        whole = is_finite(value) and bool((value == np.round(value)).all())
        found.update({op.name or f"{op.kind} {number}": value.astype(np.int64)} if whole else {})
    return found


def _outputs(passed: Pass, numbers: Collection[int], ndim: int, most: int = 2000) -> dict[str, Array]:
    found: dict[str, Array] = {}
    for number in sorted(numbers):
        op = passed.ops[number]
        value = passed.value(number) if len(op.shape) == ndim else None
        if value is None or value.dtype.kind != "f" or value.size < 2 or len(found) >= most or not is_finite(value):
            continue
        found[f"{op.name or op.kind} {number}" if op.name in found or not op.name else op.name] = _float(value)
    return found


def _at(passed: Pass, number: int | None) -> list[Array]:
    """What an op takes and gives, of two axes."""
    near = {number, *passed.ops[number].inputs} if number is not None else set()
    return list(_outputs(passed, near, 2).values())


def _float(value: Array) -> Array:
    return np.asarray(value, np.float64)
