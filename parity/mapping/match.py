"""Joins all variables of two sides, or reports exactly what is left."""

import itertools
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from collections.abc import Mapping as Map

from parity.mapping.draft import Draft, draft_mapping
from parity.mapping.entry import MappingEntry
from parity.mapping.fits import BY_NAME, BY_SHAPE, becomes, fits
from parity.mapping.guesses import BY_LIKENESS, UNVERIFIED, Guess, Numbers
from parity.mapping.variable_map import Mapping, Pair, line
from parity.mapping.variables import MappingError, Variable

# Questions fit into the 40 lines of a message, six of three lines at most. Variables left over are all listed, for each
# has to be answered, with four lines at most.
CONSIDERED = 4
IDLE = "neither read nor moved"
WITHOUT = {
    "by hand": "as [mapping] declares",
    IDLE: "and what trains in the script neither reads nor moves it",
}
QUESTIONS = 6
ANSWERS = 2


def describe_problems(problems: Sequence[str], reference: Sequence[Variable], candidate: Sequence[Variable]) -> str:
    """Returns the text of the error for wrong entries and for variables left over on either side."""
    count = len(problems) + len(reference) + len(candidate)
    do = "does" if count == 1 else "do"
    parts = [
        "mapping: expected every variable of each side to have its counterpart on the other, "
        f"got {count} that {do} not. Write the lines that are meant into [mapping], or fix the model."
    ]
    if problems:
        parts += ["wrong in [mapping]:", *(f"  {problem}" for problem in problems)]
    if reference:
        parts += ["left over of the reference:"]
        parts += [text for variable in reference for text in _considered(variable, candidate)]
    if candidate:
        parts += ["left over of the candidate:"]
        parts += [f"  {variable}" + _partners(variable, reference) for variable in candidate]
    return "\n".join(parts)


def describe_questions(guesses: Sequence[Guess]) -> str:
    """Returns the text of the error for pairs that nothing but their order or a likeness of names speaks for."""
    count = len(guesses)
    parts = [
        f"mapping: expected names, shapes or numbers to decide what belongs together, got {count} "
        f"{'pair' if count == 1 else 'pairs'} that {'is' if count == 1 else 'are'} no more than guessed. "
        "Write the lines that are meant into [mapping]; the likeliest come first."
    ]
    for guess in guesses[:QUESTIONS]:
        lines = [line(guess.variable.name, guess.unit.names, guess.text)]
        lines += [line(guess.variable.name, unit.names, text) for unit, text in guess.options]
        shown = [*dict.fromkeys(lines)]
        parts += [f"    {text}" if text is shown[0] else f"    # or {text}" for text in shown[:ANSWERS]]
        if len(shown) > ANSWERS:
            parts.append(f"    # or one of {len(shown) - ANSWERS} more for {guess.variable}")
    if count > QUESTIONS:  # as a comment, so that what is pasted into a case stays TOML
        more = f"{count - QUESTIONS} variable{'s' * (count - QUESTIONS > 1)}"
        parts.append(f"    # and {more} more: `parity map` shows them all")
    return "\n".join(parts)


def leave_idle_out(
    draft: Draft, candidate: Sequence[Variable], entries: Map[str, MappingEntry], idle: Collection[str]
) -> Draft:
    """Returns the draft without the statistics that the port lacks and that the training neither reads nor moves.

    A script that never runs its UPDATE_OPS has them beside each batch norm; in a port such a norm keeps none.

    Args:
      draft: the mapping.
      candidate: the torch side's variables.
      entries: the reference's name to what the case says of it.
      idle: names of the statistics that no step reads or moves.
    """
    lacking = {variable.name for variable in draft.left if variable.name in idle}
    if not lacking:
        return draft
    again = draft_mapping(draft.reference, candidate, {**entries, **{name: MappingEntry(to=()) for name in lacking}})
    return again._replace(
        sure={name: pair._replace(why=IDLE) if name in lacking else pair for name, pair in again.sure.items()}
    )


def mapping_notes(draft: Draft, among: Collection[str] | None = None) -> list[str]:
    """Returns what a report is to say of a mapping: how pairs were found, which of them nothing verified, what has none.

    Args:
      draft: the mapping.
      among: the reference's names that numbers could say something of; None for all.
    """
    mapping = draft.mapping()
    notes = []
    if draft.guesses:
        # By how the pairs were found: what no guess is part of needs no line.
        counts = Counter(_short(pair.why.removesuffix(UNVERIFIED)) for pair in mapping.pairs if pair.candidate)
        notes.append(f"mapping: {', '.join(f'{count} {why}' for why, count in counts.items())}; --verbose lists them")
    guesses = [guess for guess in draft.guesses if among is None or guess.variable.name in among]
    unverified = [str(guess.pair) for guess in guesses if guess.consequential and guess.verified is not True]
    if unverified:
        shown = ", ".join(unverified[:CONSIDERED])
        more = f" and {len(unverified) - CONSIDERED} more" if len(unverified) > CONSIDERED else ""
        notes.append(
            f"mapping: guessed, and no numbers agree with it: {shown}{more}; where something differs look here first, "
            "and write the lines that are meant into [mapping]"
        )
    notes += _permuted(mapping.pairs)
    notes += [
        f"{pair.reference} has no counterpart in the port, {WITHOUT[pair.why]}: it was not compared"
        for pair in mapping.pairs
        if not pair.candidate and pair.why in WITHOUT
    ]
    return notes


def _permuted(pairs: Sequence[Pair]) -> Iterator[str]:
    """Says of every layout that was found, and not written by hand, that the weights are the same only once permuted."""
    for pair in pairs:
        text = pair.transform.text.split(" | ")[0]
        if pair.why == "by hand" or not text.startswith(("flatten_hwc", "unflatten_hwc")):
            continue
        flattens = text.startswith("flatten_hwc")
        which = "elements" if len(pair.shape) < 2 else "rows" if flattens else "columns"
        does = "is given a map flattened" if flattens else "makes a map"
        yield (
            f"mapping: the {which} of {pair.reference} are permuted for {' + '.join(pair.candidate)}: the reference {does} "
            "in the order (row, column, channel), the port in the order (channel, row, column). What loads the reference's "
            f'weights into the port must permute them so: transform = "{pair.transform.text}"'
        )


def _short(why: str) -> str:
    return {BY_NAME: "by name", BY_SHAPE: "by shape", BY_LIKENESS: "by similar name"}.get(why, why)


def _considered(variable: Variable, candidate: Sequence[Variable]) -> list[str]:
    lines = list(_lines(variable, candidate))
    shown = [f"    {text}" for text in lines[:CONSIDERED]]
    if len(lines) > CONSIDERED:
        shown.append(f"    and {len(lines) - CONSIDERED} lines more that fit by shape")
    if not lines:
        shown = [
            f'    nothing left over fits; "{variable.name}" = {{ to = "...", transform = "..." }} names it by hand'
        ]
    return [f"  {variable}", *shown]


def _lines(variable: Variable, candidate: Sequence[Variable]) -> Iterator[str]:
    for other in candidate:
        for text in fits(variable, other):
            yield line(variable.name, [other.name], text)
    for text, first, second in (
        ("lstm_gates", "weight_ih", "weight_hh"),
        ("lstm_bias(1.0)", "bias_ih", "bias_hh"),
    ):
        for one, other in itertools.product(candidate, repeat=2):
            # The two halves of one layer: layer2 of weight_ih_layer2 belongs to weight_hh_layer2.
            if (
                first in one.name
                and one.name.replace(first, second) == other.name
                and becomes(text, variable, one, other)
            ):
                yield line(variable.name, [one.name, other.name], text)


def _partners(variable: Variable, reference: Sequence[Variable]) -> str:
    names = [other.name for other in reference if fits(other, variable)]
    return f", which may be {' or '.join(names[:CONSIDERED])}" if names else ", which nothing left over fits"


def build_mapping(
    reference: Sequence[Variable],
    candidate: Sequence[Variable],
    entries: Map[str, MappingEntry],
    numbers: Numbers | None = None,
) -> Mapping:
    """Joins every variable of each side with its counterpart on the other; see `draft_mapping`.

    A guess that rests on order, or on names that are only similar, is in force only where numbers agree with it.

    Args:
      reference: the TensorFlow side's variables; the result keeps their order.
      candidate: the torch side's.
      entries: the reference's name to what the case says of it.
      numbers: what the numbers of two traces say, or None.

    Raises:
      MappingError: an entry is wrong, a variable is left over, or a guess is not verified; the text lists what is open, with
        lines to write.
    """
    draft = draft_mapping(reference, candidate, entries)
    require_total(draft)  # before any numbers: a run costs minutes, and could not decide what has no partner
    draft = draft.by(numbers) if numbers else draft
    open_ = [guess for guess in draft.guesses if guess.consequential and guess.verified is not True]
    if open_:
        raise MappingError(describe_questions(open_), draft.mapping().toml())
    return draft.mapping()


def require_total(draft: Draft) -> None:
    """Checks that every variable of each side has a counterpart, if only a guessed one.

    Raises:
      MappingError: an entry is wrong, or a variable is left over; the text lists them with the lines to write.
    """
    if not draft.total:
        raise MappingError(describe_problems(draft.problems, draft.left, draft.free), draft.mapping().toml())
