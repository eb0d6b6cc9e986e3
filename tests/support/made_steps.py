"""Steps made of arrays, and the causes of what differs between them."""

from parity.diagnose import Evidence, find_causes
from parity.judge import Check, FirstDifference, Join
from parity.mapping import Mapping, Pair, parse_transform
from parity.trace import Trace, TraceWriter, parse_key


def trace(folder, steps, kinds, facts):
    """Returns a float64 trace of steps, dicts of name to array."""
    variables = {name: {"kind": kind} for name, kind in kinds.items()}
    writer = TraceWriter(folder, {}, {"precision": "float64", **facts}, variables)
    writer.init({})
    for number, tensors in enumerate(steps):
        writer.step(number, tensors)
    writer.close()
    return Trace(folder)


def evidence_between(folder, reference, candidate, states, kinds, facts=None, sums=None, facts_of_candidate=None):
    """Returns the evidence about two towers that steps of both sides are; one dict stands for one step.

    `sums` says which variables of the reference are the sum of several of the candidate.
    """
    one, other, before = ([each] if isinstance(each, dict) else each for each in (reference, candidate, states))
    sizes = {parse_key(text).name: value.shape for text, value in (*before[0].items(), *one[0].items())}
    keys = [parse_key(text) for text in (*one[0], *before[0])]
    names = dict.fromkeys(key.name for key in keys if key.name and key.quantity not in ("act", "feed", "state"))
    sums = sums or {}
    pairs = [
        Pair(name, sums.get(name, (name,)), parse_transform("sum" if name in sums else "identity"), "", sizes[name])
        for name in names
    ]
    slots = sorted({key.slot for key in keys if key.slot})
    return Evidence(
        Join(Mapping(pairs), {}, slots),
        trace(folder / "reference", one, kinds, facts or {}),
        trace(folder / "candidate", other, kinds, facts_of_candidate or facts or {}),
        trace(folder / "states", before, kinds, {}),
        2,
    )


def first_at(key, step=0):
    """Returns the first difference at `key` in a step."""
    parsed = parse_key(key)
    check = Check("lockstep", step, key, "different", 1.0, 1e-15)
    return FirstDifference(check, parsed.quantity, parsed.name, parsed.tower, None)


def causes_between(folder, key, *sides, step=0, **options):
    """Returns name and title of the causes of the first difference at `key` in a step, see `evidence_between`."""
    evidence = evidence_between(folder, *sides, **options)
    return [(cause.name, cause.title) for cause in find_causes(first_at(key, step), evidence)]
