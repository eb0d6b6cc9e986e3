"""Variables that one side holds and the other does not: what the port trains more, lacks, has in another size or untied."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from parity.diagnose.agreement import CLOSE
from parity.diagnose.catalogue import build_cause
from parity.diagnose.evidence import Evidence
from parity.judge.metrics import is_finite, norm
from parity.judge.result import Cause, Check, Explained
from parity.mapping import Pair, Structure, Variable
from parity.trace import ForwardOp, key_of, trace_name

KEY = trace_name("state", "parameters")
NOTHING_BUT_ROUNDING = 1e-9  # of the largest gradient: so much has a bias in front of a batch norm


class Read(NamedTuple):
    """What the ops read at which two forward passes part.

    Fields:
      reference: names of the variables that the reference's op there, or its layer, reads.
      candidate: names of the parameters that the port's function there reads.
      key: name of the difference.
      step: its step.
    """

    reference: frozenset[str]
    candidate: frozenset[str]
    key: str
    step: int


def trained_extras(structure: Structure, evidence: Evidence) -> list[Variable]:
    """Returns the parameters that only the port has and that get a gradient which is more than rounding."""
    files = [evidence.candidate.step(step) for step in evidence.candidate.step_numbers]
    # A gradient that is not finite anywhere leaves no scale: then whatever is not zero trains.
    largest = max((norm(file.read(text)) for file in files for text in file.names("grad")), default=0.0)
    least = NOTHING_BUT_ROUNDING * (largest if largest < float("inf") else 0.0)

    def trains(part: Variable) -> bool:
        key = key_of("grad", part.name)
        # Turned round, so that NaN counts as training.
        return any(key in file and not norm(file.read(key)) <= least for file in files)

    return [
        part for part in {part.name: part for part in structure.extra if part.kind == "weight"}.values() if trains(part)
    ]


def read_in_place(structure: Structure, read: Read) -> Structure:
    """Returns a structure in which two parameters are one in two sizes, if they alone are read where the passes part.

    Args:
      structure: what one side holds and the other does not.
      read: what is read there.
    """
    missing = [one for one in structure.missing if one.name in read.reference]
    extra = _read_by(structure.extra, read.candidate)
    # Only one of each: of several, which belong together is not known.
    if len(missing) != 1 or len(extra) != 1 or len(missing[0].shape) != len(extra[0].shape):
        return structure
    return structure._replace(
        missing=tuple(one for one in structure.missing if one is not missing[0]),
        extra=tuple(part for part in structure.extra if part is not extra[0]),
        resized=(*structure.resized, (missing[0], extra[0])),
    )


def structural_check(structure: Structure, evidence: Evidence) -> Check | None:
    """Returns the check that says which parameters are more or fewer; None where the port only has some that do nothing."""
    causes = structural_causes(structure, evidence, None)
    if not causes:
        return None
    return Check("fresh", 0, KEY, "different", note="; ".join(cause.title for cause in causes))


def structural_causes(structure: Structure, evidence: Evidence, read: Read | None) -> list[Cause]:
    """Returns what is not the same of the variables themselves.

    Args:
      structure: what one side holds and the other does not.
      evidence: the float64 lockstep traces.
      read: what is read where the forward passes part; causes are of that difference then, and only what is read there
        makes one. None: all of it, of the parameters as such.
    """
    explains = Explained(read.step, read.key) if read else Explained(0, KEY)
    causes = [_untied(one, parts, evidence, explains) for one, parts in structure.untied if read is None]
    causes += [
        _resized(one, other, explains)
        for one, other in structure.resized
        if read is None or one.name in read.reference or other.name in read.candidate
    ]
    missing = [one for one in structure.missing if read is None or one.name in read.reference]
    causes += [_missing(missing, evidence, read, explains)] if missing else []
    trained = trained_extras(structure, evidence)
    extra = trained if read is None else _read_by(structure.extra, read.candidate)
    causes += [_extra(extra, trained, explains)] if extra else []
    return causes


def shared_by_uses(
    structure: Structure,
    evidence: Evidence,
    passes: tuple[Sequence[ForwardOp], Sequence[ForwardOp]],
    explains: Explained,
) -> Cause | None:
    """Returns the cause where the port uses a parameter also where the reference uses each variable that nothing belongs to.

    Args:
      structure: what one side holds and the other does not.
      evidence: the float64 lockstep traces.
      passes: ops of both sides' forward passes.
      explains: the difference that it is the cause of.
    """
    own, other = (Counter(name for op in ops for name in set(op.weights)) for ops in passes)
    shared = dict[str, str]()
    for missing in structure.missing:
        # A loop reads a variable once in a graph and in every step in torch: only exact sums are uses of two variables.
        found = (
            part
            for pair in evidence.join.mapping.pairs
            for part in pair.candidate
            if pair.shape == missing.shape and part not in shared and own[missing.name]
            if other[part] == own[pair.reference] + own[missing.name]
        )
        part = next(found, None)
        if part is None:
            return None
        shared[part] = missing.name
    if not shared:
        return None
    return build_cause(
        "shared_parameter",
        evidence="each is read as often in the port as two variables in the reference, to one of which nothing belongs",
        explains=explains,
        shared=", ".join(shared),
        names=", ".join(f"{one.name} {list(one.shape)}" for one in structure.missing),
    )


def shared_where_read(
    names: Collection[str],
    evidence: Evidence,
    passes: tuple[Sequence[ForwardOp], Sequence[ForwardOp]],
    explains: Explained,
) -> Cause | None:
    """Returns the cause where the port reads in one variable's place the parameter of another of its shape once more.

    Args:
      names: of the reference's variables that are read where the passes part.
      evidence: the float64 lockstep traces.
      passes: ops of both sides' forward passes.
      explains: the difference that it is the cause of.
    """
    own, other = (Counter(name for op in ops for name in set(op.weights)) for ops in passes)
    pairs = [pair for pair in evidence.join.mapping.pairs if len(pair.candidate) == 1]
    # By how many times more the port reads each: a loop reads it once in a graph, and in every step in torch.
    more = {pair.reference: other[pair.candidate[0]] - own[pair.reference] for pair in pairs}
    found = list(_read_in_place_of(pairs, more, names))
    if len(found) != 1:
        return None
    pair, lacking = found[0]
    parameter = pair.candidate[0]
    less = ", ".join(
        f"{each.candidate[0]} less than the reference reads {each.reference} "
        f"({other[each.candidate[0]]} times for {own[each.reference]})"
        for each in lacking
    )
    return build_cause(
        "shared_parameter",
        evidence=f"as often as the port reads {parameter} more than the reference reads {pair.reference} ("
        f"{other[parameter]} times for {own[pair.reference]}) it reads {less}",
        explains=explains,
        shared=parameter,
        names=" and ".join(each.reference for each in lacking),
    )


def _read_in_place_of(
    pairs: Sequence[Pair], more: Mapping[str, int], names: Collection[str]
) -> Iterator[tuple[Pair, Sequence[Pair]]]:
    """Yields what is read more often, and what of its shape is read as much less often: one, or all that is."""
    for pair in pairs:
        if more[pair.reference] > 0:
            lacking = [each for each in pairs if each.shape == pair.shape and more[each.reference] < 0]
            ones = [[each] for each in lacking if more[each.reference] == -more[pair.reference]]
            for among in ones or [lacking]:
                if sum(more[each.reference] for each in (pair, *among)) == 0 and _reads_one(among, names):
                    yield pair, among


def _reads_one(pairs: Sequence[Pair], names: Collection[str]) -> bool:
    return any(pair.reference in names for pair in pairs)


def _read_by(parts: Sequence[Variable], names: frozenset[str]) -> list[Variable]:
    return [part for part in parts if part.name in names]


def _untied(one: Variable, parts: Sequence[Variable], evidence: Evidence, explains: Explained) -> Cause:
    names = " and ".join(part.name for part in parts)
    step = evidence.candidate.step_numbers[0]
    pair = next(((a, b) for name, a, b in evidence.pairs(step, "grad") if name == one.name), None)
    told = "each of them gets a gradient of its own, and moves by that"
    if pair is not None and is_finite(pair[1]) and norm(pair[1] - pair[0]) <= CLOSE * norm(pair[0]):
        told = f"their gradients together are the gradient of {one.name}, to the last digits; each moves by its own"
    return build_cause(
        "untied_weights", evidence=told, explains=explains, names=names, variable=one.name, parameter=parts[0].name
    )


def _resized(one: Variable, other: Variable, explains: Explained) -> Cause:
    return build_cause(
        "parameter_shape",
        evidence="no order of axes makes one of the other: they hold different numbers of elements",
        explains=explains,
        parameter=other.name,
        shape=list(other.shape),
        variable=one.name,
        wanted=list(one.shape),
    )


def _missing(variables: Sequence[Variable], evidence: Evidence, read: Read | None, explains: Explained) -> Cause:
    names = ", ".join(f"{one.name} {list(one.shape)}" for one in variables)
    # A variable without a parameter may be one that the port shares: what it reads there belongs to another variable of
    # that shape.
    joined = {part: pair.shape for pair in evidence.join.mapping.pairs for part in pair.candidate}
    there = sorted(read.candidate & joined.keys()) if read else []
    shared = [name for name in there if any(joined[name] == one.shape for one in variables)]
    if shared:
        of = evidence.join.mapping.pair_of(shared[0]).reference
        return build_cause(
            "shared_parameter",
            evidence=f"{shared[0]} is {of}; nothing in the port belongs to {variables[0].name}",
            explains=explains,
            shared=shared[0],
            names=names,
        )
    hidden = evidence.candidate.facts.get("unregistered") or []
    if hidden:
        told = (
            f"the port holds {', '.join(hidden)} in plain lists or dicts, where neither DDP nor the optimizer sees them"
        )
    else:
        told = "no parameter of the port has such a shape or name; what was joined is all that it has"
    return build_cause("missing_parameter", "hidden" if hidden else "", evidence=told, explains=explains, names=names)


def _extra(parts: Sequence[Variable], trained: Sequence[Variable], explains: Explained) -> Cause:
    names = ", ".join(f"{part.name} {list(part.shape)}" for part in parts)
    gets = "it gets a gradient, and is updated" if any(part in trained for part in parts) else "it is not trained"
    return build_cause(
        "extra_parameter",
        evidence=f"no variable of the reference belongs to it; {gets}",
        explains=explains,
        names=names,
    )
