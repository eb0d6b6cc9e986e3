"""Tries what may be meant one after the other, where no state can be chosen: with a recorded reference."""

from collections.abc import Callable, Iterator
from collections.abc import Mapping as Map
from itertools import combinations, islice

from parity.mapping.draft import Draft
from parity.mapping.gradients import Gradients
from parity.mapping.guesses import Guess
from parity.mapping.transforms import Array
from parity.mapping.units import Unit

TRIALS = 48
Choice = tuple[str, tuple[Unit, str]]
Assignment = tuple[tuple[str, Unit, str], ...]


def by_trial(
    draft: Draft,
    reference: Map[str, Array],
    gradients_of: Callable[[Draft], Map[str, Array]],
    tolerance: float = 0.0,
    trials: int = TRIALS,
) -> Draft:
    """Returns the first assignment under which the candidate's gradients are the reference's, or the draft, unverified.

    The gradients of one trial also say what to try next: where variables hold equal numbers, as the gammas and betas of all
    norms do before the first step, the candidate computes the same under each of their assignments.

    Args:
      draft: what is known and guessed.
      reference: the reference's name to its gradient.
      gradients_of: makes the candidate's gradients under an assignment, from the same state as the reference's.
      tolerance: so far apart gradients may be that are called equal, for a reference in float32.
      trials: at most so many are made, those first that differ from the draft in the least.
    """
    tried: set[Assignment] = set()

    def attempt(each: Draft) -> tuple[Draft, Gradients]:
        tried.add(_assignment(each))
        numbers = Gradients(reference, gradients_of(each), tolerance)
        return each.checked(numbers), numbers

    first: Draft | None = None
    most = -1
    for alternative in islice(_alternatives(draft), trials):
        following: Draft | None = alternative
        while following is not None and _assignment(following) not in tried:
            if len(tried) == trials:
                return first or draft
            checked, numbers = attempt(following)
            first = first or checked
            if checked.agrees:
                return checked.as_found_beside(draft)
            agreeing = sum(guess.verified is True for guess in checked.guesses)
            following, most = (checked.by(numbers), agreeing) if agreeing > most else (None, most)
    return first or draft


def _assignment(draft: Draft) -> Assignment:
    return tuple((guess.variable.name, guess.unit, guess.text) for guess in draft.guesses)


def _alternatives(draft: Draft) -> Iterator[Draft]:
    yield from draft.variants()
    singles = [*_choices(draft)]
    for many in (1, 2):
        for chosen in combinations(singles, many):
            if len({name for name, _ in chosen}) == many:
                yield from draft.restricted(dict(chosen)).variants()


def _choices(draft: Draft) -> Iterator[Choice]:
    """What else each kernel may be, other layouts before other partners; vectors follow their kernels."""
    by_layout: list[Choice] = []
    by_partner: list[Choice] = []
    for guess in draft.guesses:
        for unit, text in guess.options:
            if unit == guess.unit and text != guess.text:
                by_layout.append((guess.variable.name, (unit, text)))
            elif unit != guess.unit and _leads(guess):
                by_partner.append((guess.variable.name, (unit, text)))
    yield from by_layout
    yield from by_partner


def _leads(guess: Guess) -> bool:
    return len(guess.variable.shape) > 1 or all(len(unit.parts[0].shape) < 2 for unit, _ in guess.options)
