"""Joins all variables of two sides, or says exactly why not."""

from collections.abc import Mapping as Map
from collections.abc import Sequence

from parity.mapping.draft import Draft, draft_mapping
from parity.mapping.entry import MappingEntry
from parity.mapping.errors import MappingError
from parity.mapping.guesses import Numbers
from parity.mapping.mapping import Mapping
from parity.mapping.report import describe_problems, describe_questions
from parity.mapping.variable import Variable


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
    require_total(draft)
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
