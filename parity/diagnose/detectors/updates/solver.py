"""Solves for the formula of an update: what one side's weights moved by, of its own gradient and slots.

``move = sum of share * numerator / denominator + decay * weight``, where a numerator is the gradient or a slot, and the
denominator 1 or the root of a slot with epsilon beside it or inside. Shares and epsilon are linear in products of what is
known, so that the many elements of a variable over-determine them.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from parity.diagnose.agreement import LEFT, ROUNDING, fit
from parity.diagnose.evidence import Evidence
from parity.judge.metrics import is_finite, norm
from parity.trace import key_of, parse_key
from parity.trace.arrays import Array

GRADIENT = "gradient"
MOST_SAMPLED = 20_000  # elements of a variable, evenly spaced: far more than there are unknowns
# Of a move, of each variable, by the formula. Beside it ROUNDING of the weight is allowed, which storing the weight
# costs.
RESIDUAL_OF_MOVE = 1e-6
# Times the largest root: so large an epsilon leaves of the root less than 1e-4 of the sum, and any root would do.
SWAMPS = 1e4


class Move(NamedTuple):
    """How one side moved one variable: flat arrays over the same elements.

    Fields:
      weight: before the step.
      move: the weight before minus the weight after.
      terms: name of a slot to its values after the step, and `GRADIENT` to the gradient that the optimizer was given.
      before: name of a slot to its values before the step, as far as they are known.
    """

    weight: Array
    move: Array
    terms: Mapping[str, Array]
    before: Mapping[str, Array]


class Form(NamedTuple):
    """The shape of a formula.

    Fields:
      numerators: names of terms.
      root: of a term; or of a slot minus the square of another, for two; or nothing.
      inside: whether epsilon is inside the root.
      plain: whether the slot is a size already, not a square (Adamax).
    """

    numerators: tuple[str, ...]
    root: tuple[str, ...] = ()
    inside: bool = False
    plain: bool = False

    def words(self, epsilon: str = "epsilon") -> str:
        """Returns the formula in words."""
        above = " + ".join(self.numerators)
        if not self.root:
            return above
        below = self.root[0] if len(self.root) == 1 else f"{self.root[0]} - {self.root[1]}^2"
        if self.plain:
            return f"{above} / ({below} + {epsilon})"
        if self.inside:
            return f"{above} / sqrt({below} + {epsilon})"
        return f"{above} / (sqrt({below}) + {epsilon})"


class Formula(NamedTuple):
    """A form with its numbers.

    Fields:
      form: the shape.
      shares: the factor of each numerator; one learning rate where there is one.
      epsilon: beside or inside the root.
      decay: the factor of the weight.
    """

    form: Form
    shares: tuple[float, ...]
    epsilon: float = 0.0
    decay: float = 0.0

    def of(self, move: Move) -> Array:
        """Returns what a variable moves by."""
        above = sum(
            (share * move.terms[name] for share, name in zip(self.shares, self.form.numerators, strict=True)),
            np.zeros_like(move.move),
        )
        below = denominator(self.form, move, self.epsilon)
        with np.errstate(divide="ignore", invalid="ignore"):
            moved = np.where(above == 0.0, 0.0, above / below)
        return np.asarray(moved + self.decay * move.weight)

    def words(self) -> str:
        """Returns the formula in words, with its numbers."""
        form = self.form
        if len(form.numerators) == 1:
            text = f"{self.shares[0]:.6g} {form.words(f'{self.epsilon:.6g}')}"
        else:
            above = " + ".join(f"{share:.6g} {name}" for share, name in zip(self.shares, form.numerators, strict=True))
            text = Form((f"({above})" if form.root else above,), form.root, form.inside, form.plain).words(
                f"{self.epsilon:.6g}"
            )
        return f"{text} + {self.decay:.6g} weight" if self.decay else text


def moves_of(evidence: Evidence, step: int, candidate: bool) -> dict[str, Move]:
    """Returns how one side moved each variable whose gradient is known.

    A slot that the sides share goes by the reference's name, any other of the candidate by its own.
    """
    gradients, before = evidence.applied(step), evidence.before
    found = {}
    slots = _slots(evidence, step, candidate)
    for name, one, other in evidence.pairs(step, "var"):
        start, after = before(step, "var", name), other if candidate else one
        if start is None or name not in gradients:
            continue
        own = {slot: values[name] for slot, values in slots.items() if name in values}
        # Every n-th element: which ones does not matter, since each follows the rule by itself.
        cut = slice(None, None, max(1, start.size // MOST_SAMPLED))
        terms = {GRADIENT: gradients[name][candidate], **own}
        # A variable with a slot of another shape, as a factored second moment is, follows none of the forms.
        if any(each.shape != start.shape for each in terms.values()):
            continue
        earlier = {slot: was for slot in own if (was := before(step, "slot", name, slot)) is not None}
        found[name] = Move(
            start.reshape(-1)[cut],
            # weight before minus weight after: positive where the gradient is, as the rule says it.
            (start - after).reshape(-1)[cut],
            {term: value.reshape(-1)[cut] for term, value in terms.items()},
            {slot: value.reshape(-1)[cut] for slot, value in earlier.items()},
        )
    return found


def _slots(evidence: Evidence, step: int, candidate: bool) -> dict[str, dict[str, Array]]:
    names = evidence.slots(step)
    found = {slot: {name: pair[candidate] for name, *pair in evidence.pairs(step, "slot", slot)} for slot in names}
    # Slots that are joined to one of the reference's belong to it, whatever they are called in the port.
    joined = {own for slot, values in found.items() if values for own in _own_names(evidence, slot, step)}
    # A slot that only one side has is read from its file.
    alone = evidence.candidate.facts.get("slots") or () if candidate else names
    for slot in (slot for slot in alone if slot not in joined and not found.get(slot)):
        values = {name: _alone(evidence, step, slot, name, candidate) for name, _, _ in evidence.pairs(step, "var")}
        found[slot] = {name: value for name, value in values.items() if value is not None}
    return {slot: values for slot, values in found.items() if values}


def _alone(evidence: Evidence, step: int, slot: str, name: str, candidate: bool) -> Array | None:
    key = key_of("slot", name, slot=slot, section=evidence.section or "")
    if candidate:
        value = evidence.join.read(key, evidence.candidate.step(step))
    else:
        file = evidence.reference.step(step)
        value = file.read(key) if key in file else None
    return np.asarray(value, np.float64) if value is not None and is_finite(value) else None


def _own_names(evidence: Evidence, slot: str, step: int) -> set[str]:
    name = next((name for name, _, _ in evidence.pairs(step, "var")), None)
    if name is None:
        return set()
    return {
        parse_key(text).slot
        for text in evidence.join.candidates(key_of("slot", name, slot=slot, section=evidence.section or ""))
    }


def forms(slots: Sequence[str]) -> Iterator[Form]:
    """Yields the forms that an update may have, the plainest first."""
    # Forms of few unknowns first: of what fits, the shortest is what is meant.
    for slot in slots:
        yield Form((slot,))
    yield Form((GRADIENT,))
    for slot in slots:
        yield Form((slot, GRADIENT))
    for root in slots:
        above = [slot for slot in slots if slot != root]
        # inside the root and beside it: sqrt(v + e) and sqrt(v) + e, which no other form covers.
        for inside in (False, True):
            for numerator in (*above, GRADIENT):
                yield Form((numerator,), (root,), inside)
        for slot in above:
            yield Form((slot, GRADIENT), (root,))
            yield Form((slot,), (root,), plain=True)
            for inside in (False, True):
                yield Form((GRADIENT,), (root, slot), inside)


def denominator(form: Form, move: Move, epsilon: float) -> Array:
    """Returns what a form divides by, 1 where there is no root."""
    if not form.root:
        return np.ones_like(move.move)
    square = _square(form, move)
    if form.inside:
        # max(..., 0): a square that is negative by rounding has a root of 0, not none.
        return np.asarray(np.sqrt(np.maximum(square + epsilon, 0.0)))
    return np.asarray(np.sqrt(np.maximum(square, 0.0)) + epsilon)


def _square(form: Form, move: Move) -> Array:
    first = move.terms[form.root[0]]
    if form.plain:
        return first**2
    # Centred RMSProp: the mean square less the square of the mean, which is the variance.
    return first - move.terms[form.root[1]] ** 2 if len(form.root) == 2 else first


def solve(form: Form, moves: Sequence[Move], epsilon: float | None = None, decays: bool = False) -> Formula | None:
    """Returns the formula of a form whose numbers fit some variables best, or None where they cannot be told.

    Args:
      form: the shape.
      moves: of the variables.
      epsilon: where it is known; else it is solved for, and then nothing decays.
      decays: whether the weights shrink beside.
    """
    if not moves or any(name not in move.terms for move in moves for name in (*form.numerators, *form.root)):
        return None
    # What is below 0 somewhere is no square, and has no root.
    if form.root and any((_square(form, move) < 0.0).any() for move in moves):
        return None
    if form.root and epsilon is None:
        return None if decays else _with_epsilon(form, moves)
    columns = []
    for move in moves:
        below = denominator(form, move, epsilon or 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            # 0 / 0 is 0: a place without a gradient moves by nothing whatever is below it.
            scaled = [np.where(move.terms[n] == 0.0, 0.0, move.terms[n] / below) for n in form.numerators]
        columns.append([*scaled, move.weight] if decays else scaled)
    # u = sum_k r_k t_k / d + s w with d known: linear in the rates r_k and, where weights decay, in s.
    found = fit(columns, [move.move for move in moves])
    if found is None:
        return None
    shares = found.coefficients[: len(form.numerators)]
    return Formula(form, shares, epsilon or 0.0, found.coefficients[-1] if decays else 0.0)


def _with_epsilon(form: Form, moves: Sequence[Move]) -> Formula | None:
    # Times the denominator the formula is linear:
    #   u = r n / (sqrt(v) + e)   gives   n = (1 / r) u sqrt(v) + (e / r) u        (`whole`, `beside`)
    #   u = r n / sqrt(v + e)     gives   n^2 = (1 / r^2) u^2 v + (e / r^2) u^2
    # so that e = beside / whole, and of the second the sign of r is that of <u, n>.
    columns, targets = [], []
    for move in moves:
        # first: the numerator, to which the equation is solved; others: what stands beside it, as Nesterov's gradient.
        square, first = _square(form, move), move.terms[form.numerators[0]]
        others = [move.terms[name] for name in form.numerators[1:]]
        if form.inside:
            columns.append([move.move**2 * square, move.move**2])
            targets.append(first**2)
        else:
            columns.append([move.move * np.sqrt(square), move.move, *others])
            targets.append(first)
    found = fit(columns, targets)
    if found is None or not found.coefficients[0] or (form.inside and found.coefficients[0] < 0.0):
        # 1 / r^2 must be positive, and 1 / r not 0: a fit of noise is neither.
        return None
    whole, beside, *shares = found.coefficients
    # The largest root of any element, or what is below it, to compare the epsilon with.
    largest = max(float(np.max(_square(form, move), initial=0.0)) for move in moves)
    size, epsilon = largest if form.inside else float(np.sqrt(largest)), beside / whole
    if epsilon > SWAMPS * size:
        return None  # beside that the root counts for nothing, and any would do
    # Where there is none rounding leaves some, or makes it negative: whether 0 fits `holds` says.
    epsilon = epsilon if epsilon > ROUNDING * size else 0.0
    if form.inside:
        sign = np.sign(sum(float(np.vdot(move.move, move.terms[form.numerators[0]])) for move in moves))
        # Of n = u (sqrt(v + e)) / r the sign of r is that of what moves: the square has lost it.
        return Formula(form, (float(sign / np.sqrt(whole)),), epsilon)
    return Formula(form, (1.0 / whole, *(-share / whole for share in shares)), epsilon)


def holds(formula: Formula | None, moves: Sequence[Move], others: Sequence[Move] | None = None) -> bool:
    """Returns whether a formula gives the moves, and where others are given all that the moves differ from them by.

    Args:
      formula: what is tried.
      moves: of one side.
      others: of the other side, the same variables in the same order.
    """
    if formula is None or not np.isfinite([*formula.shares, formula.epsilon, formula.decay]).all():
        return False
    # What is left of every variable, float64 of its sampled elements.
    left = [move.move - formula.of(move) for move in moves]
    rounding = [ROUNDING * norm(move.weight) for move in moves]
    if any(
        not norm(rest) <= RESIDUAL_OF_MOVE * norm(move.move) + room
        for rest, move, room in zip(left, moves, rounding, strict=True)
    ):
        return False
    if others is None:
        return True
    # The difference of the two sides, over all variables together: what is left must be small beside that, not beside
    # the move.
    apart = float(np.sqrt(sum(norm(m.move - o.move) ** 2 for m, o in zip(moves, others, strict=True))))
    rest = float(np.sqrt(sum(norm(each) ** 2 for each in left)))
    return rest <= LEFT * apart + float(np.sqrt(sum(room**2 for room in rounding)))
