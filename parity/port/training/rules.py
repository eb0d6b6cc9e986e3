"""Reads an optimizer that a script writes itself as a rule, and writes it: torch's where it is one, else its own class."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from parity.port.source.form import indented
from parity.port.source.functions import Names
from parity.port.tower.ops import CONST, FEED, Op, Tensor
from parity.port.tower.terms import key_of
from parity.port.training.patterns import Anything, Number, close, matches
from parity.port.training.scalars import with_plain_numbers, written_statements
from parity.port.training.values import FED_LEAF, leaves_of, rewritten
from parity.port.training.whole import without_axes
from parity.trace.escape import one_line

OWN_GRADIENT, OWN_WEIGHT, OWN_RATE = "gradient", "weight", "learning_rate"
OWN_SLOT, OWN_COUNTER = "slot ", "counter "  # what leaves are called, before their names
RULE = "rule"  # of several, which one a group of weights has
RESERVED = frozenset(["self", "group", "slots", "closure", "torch", "math", "like_tf"])  # names in the class


class NotWritten(Exception):
    """A rule cannot be written; the message says why."""


@dataclass
class Rule:
    """What a step makes of one weight.

    Attributes:
      weight: the new weight.
      slots: by slot, what is left in it.
      counters: by name, what is left in a counter.
      rate: the learning rate, where it is a factor of what is taken from the weight: of numbers and counters, or fed.
    """

    weight: Tensor
    slots: dict[str, Tensor]
    counters: dict[str, Tensor] = field(default_factory=dict)
    rate: Tensor | None = None

    @property
    def tensors(self) -> list[Tensor]:
        """The new values, the weight's first."""
        return [self.weight, *self.slots.values(), *self.counters.values()]

    def key(self, ids: dict[object, int]) -> tuple[object, ...]:
        """Returns what two rules share that are the same; `ids` is of `key_of`."""
        return (*([*self.slots]), *(key_of(each, ids) for each in without_axes(self.tensors)))


def with_rate(rule: Rule, is_counter: Callable[[str], bool]) -> Rule:
    """Returns a rule with the leaf `OWN_RATE` for the factor that all of what is taken from the weight has.

    Args:
      rule: folded.
      is_counter: whether a leaf counts steps, so that a rate of it is a schedule.
    """
    # A rule that does anything else with the weight than take from it keeps its rate inside, and has no schedule of
    # its own.
    if rule.weight.kind != "Sub" or rule.weight.op.inputs[0].op.name != OWN_WEIGHT:
        return rule
    found = _rate_in(rule.weight.op.inputs[1], is_counter)
    if found is None:
        return rule
    path, rate = found
    leaf = Op(FEED, OWN_RATE, [], {}, [()], ["float32"]).output()
    return Rule(_along(rule.weight, path, leaf), rule.slots, rule.counters, rate)


def _rate_in(tensor: Tensor, is_counter: Callable[[str], bool]) -> tuple[list[tuple[Op, int]], Tensor] | None:
    """The way to the first factor of a product that is a rate, and the rate; None where there is none."""
    if tensor.kind not in ("Mul", "RealDiv"):
        return None
    # What is divided may be a rate; what it is divided by is none.
    taken = tensor.op.inputs if tensor.kind == "Mul" else tensor.op.inputs[:1]
    place = next((place for place, each in enumerate(taken) if _is_rate(each, is_counter)), None)
    if place is not None:
        return [(tensor.op, place)], taken[place]
    for place, each in enumerate(taken):
        found = _rate_in(each, is_counter)
        if found is not None:
            return [(tensor.op, place), *found[0]], found[1]
    return None


def _is_rate(tensor: Tensor, is_counter: Callable[[str], bool]) -> bool:
    # A rate is one number; one for each element would be a preconditioner.
    if tensor.shape != () and not (tensor.kind == CONST and tensor.value.size == 1):
        return False
    leaves = leaves_of(tensor)
    return (tensor.kind == FEED and tensor.op.name.startswith(FED_LEAF)) or all(is_counter(each) for each in leaves)


def _along(weight: Tensor, path: Sequence[tuple[Op, int]], leaf: Tensor) -> Tensor:
    """A weight's new value with another tensor at the end of a path."""
    for op, place in reversed(path):
        inputs = [leaf if number == place else each for number, each in enumerate(op.inputs)]
        leaf = Op(op.kind, op.name, inputs, op.attributes, op.shapes, op.dtypes, op.place).output()
    op = weight.op
    return Op(op.kind, op.name, [op.inputs[0], leaf], op.attributes, op.shapes, op.dtypes, op.place).output()


# Rules that torch has. Of the script's own numbers torch rounds none, as like_tf would.

_G, _W, _LR = Anything(OWN_GRADIENT), Anything(OWN_WEIGHT), Anything(OWN_RATE)
_DECAYED = ("Mul", Number("beta"), Anything("old"))


def raised_rule(rule: Rule, counters: Mapping[str, float]) -> str:
    """Returns the optimizer of torch that a rule is, as a call that begins with its parameters and rate; else "".

    Args:
      rule: with its rate as a leaf.
      counters: by leaf that counts steps, what it is in the first one.
    """
    for raised in (_sgd, _adam):
        found = raised(rule, counters)
        if found:
            return found
    return ""


def _sgd(rule: Rule, counters: Mapping[str, float]) -> str:
    if not rule.slots:
        return "torch.optim.SGD({})" if _is(rule.weight, ("Sub", _W, ("Mul", _LR, _G))) else ""
    if len(rule.slots) != 1:
        return ""
    ((slot, moved),) = rule.slots.items()
    # torch's momentum: v = beta v + g. TensorFlow's MomentumOptimizer has the same; others scale the gradient by 1 -
    # beta.
    for kept in matches(moved, ("Add", _DECAYED, _G)):
        if not _are_leaves(kept, {OWN_GRADIENT: OWN_GRADIENT, "old": OWN_SLOT + slot}):
            continue
        momentum = f"momentum={kept['beta']!r}"
        if _is(rule.weight, ("Sub", _W, ("Mul", _LR, Anything("moved"))), moved=moved):
            return f"torch.optim.SGD({{}}, {momentum})"
        # Nesterov's, as torch has it: the step looks one momentum further.
        ahead = ("Add", _G, ("Mul", kept["beta"], Anything("moved")))
        if _is(rule.weight, ("Sub", _W, ("Mul", _LR, ahead)), moved=moved):
            return f"torch.optim.SGD({{}}, {momentum}, nesterov=True)"
    return ""


def _adam(rule: Rule, counters: Mapping[str, float]) -> str:
    """Adam with the bias of both moments corrected, and epsilon behind that."""
    # By names as well: two moments of other names are written out, and stay the script's own words.
    if {*rule.slots} != {"m", "v"}:
        return ""
    # tf.square(g) and g * g are other ops in the graph.
    squares = (("Square", _G), ("Mul", _G, _G))
    moments = {
        slot: [_moment(rule.slots[slot], OWN_SLOT + slot, each) for each in forms]
        for slot, forms in (("m", (_G,)), ("v", squares))
    }
    beta1, beta2 = (next((each for each in moments[slot] if each is not None), None) for slot in ("m", "v"))
    if beta1 is None or beta2 is None:
        return ""
    first, second = (
        ("RealDiv", Anything(slot), ("Sub", 1.0, ("Pow", beta, Anything("count"))))
        for slot, beta in (("m", beta1), ("v", beta2))
    )
    below = ("Add", ("Sqrt", second), Number("epsilon"))
    for taken in (("RealDiv", ("Mul", _LR, first), below), ("Mul", _LR, ("RealDiv", first, below))):
        for kept in matches(rule.weight, ("Sub", _W, taken), {"m": rule.slots["m"], "v": rule.slots["v"]}):
            count = kept["count"]
            # torch counts from 1, before it computes.
            if isinstance(count, Tensor) and _counts_from(count, counters) == 1:
                betas = "" if (beta1, beta2) == (0.9, 0.999) else f", betas=({beta1!r}, {beta2!r})"
                epsilon = "" if kept["epsilon"] == 1e-8 else f", eps={kept['epsilon']!r}"
                return f"torch.optim.Adam({{}}{betas}{epsilon})"
    return ""


def _moment(tensor: Tensor, slot: str, taken: object) -> float | None:
    """The decay of a moving average of something, None where it is none."""
    for kept in matches(tensor, ("Add", _DECAYED, ("Mul", Number("rest"), taken))):
        beta, rest = kept["beta"], kept["rest"]
        own = _are_leaves(kept, {OWN_GRADIENT: OWN_GRADIENT, "old": slot})
        # A script that writes 0.1 for 1 - 0.9 means it; one that writes 0.11 has a rule of its own.
        if own and isinstance(beta, float) and isinstance(rest, float) and close(1 - beta, rest):
            return beta
    return None


def _counts_from(tensor: Tensor, counters: Mapping[str, float]) -> float | None:
    """What a count of steps is in the first one."""
    if tensor.kind == FEED:
        return counters.get(tensor.op.name)
    for kept in matches(tensor, ("Add", Anything("count"), Number("more"))):
        count, more = kept["count"], kept["more"]
        if isinstance(count, Tensor) and isinstance(more, float) and count.op.name in counters:
            return counters[count.op.name] + more
    return None


def _is(tensor: Tensor, form: object, **known: Tensor) -> bool:
    called = {OWN_GRADIENT: OWN_GRADIENT, OWN_WEIGHT: OWN_WEIGHT, OWN_RATE: OWN_RATE}
    return any(_are_leaves(kept, called) for kept in matches(tensor, form, dict(known)))


def _are_leaves(kept: Mapping[str, "Tensor | float"], called: Mapping[str, str]) -> bool:
    """Whether what was kept is the leaf that it stands for."""
    for name, leaf in called.items():
        found = kept.get(name)
        if isinstance(found, Tensor) and (found.kind != FEED or found.op.name != leaf):
            return False
    return True


# Any other rule, op by op.


def class_lines(
    rules: Sequence[Rule], name: str, first: Mapping[str, tuple[float, float]], names: Names, line: str = ""
) -> list[str]:
    """Returns the class of an optimizer that a script writes itself.

    Args:
      rules: for each weight; of several, of the same slots and counters, each group of weights names its own.
      name: of the class.
      first: by slot or counter, the smallest and the largest number that is in it before the first step.
      names: where the script's own names come from.
      line: of the script, where it writes the weights; "" where that is not known.

    Raises:
      NotWritten: an op is not known, or a slot begins with different numbers.
    """
    rule, several = rules[0], len(rules) > 1
    counters = [*rule.counters]
    called = _called(rule)
    updates = [_update(each, called, names) for each in rules]
    slots = {slot: _filled(slot, *first[slot]) for slot in rule.slots}
    # Slots are made in the constructor, as TensorFlow makes them before the first step: a checkpoint of step 0 has
    # them.
    given = "gradient, slots = weight.grad, self.state[weight]" if slots else "gradient = weight.grad"
    groups = "dict[str, Any]" if several else "nn.Parameter"
    body = updates[0].statements if not several else _by_rule([each.statements for each in updates])
    lines = [
        f"class {name}(torch.optim.Optimizer):{f'  # {one_line(line)}' if line else ''}",
        f"    def __init__(self, parameters: Iterable[{groups}], lr: float) -> None:",
        f"        super().__init__(parameters, {{{', '.join(_defaults(rule, first))}}})",
        *_slots_made(slots),
        "",
        "    @torch.no_grad()",
        "    def step(self, closure: object = None) -> None:  # type: ignore[override]",
        "        for group in self.param_groups:",
        f"            {_read_from('group', {OWN_RATE: 'lr', **{each: each for each in counters}})}",
        '            for weight in group["params"]:',
        f"                {given}",
        *([f"                {_read_from('slots', {each: each for each in slots})}"] if slots else []),
        *(f"                {each}" for each in body),
        *(f'            group["{each}"] = {text}' for each, text in zip(counters, updates[0].counters, strict=True)),
    ]
    return [*indented(lines, 0)]


class _Update(NamedTuple):
    """What a rule does to one weight.

    Fields:
      statements: of it.
      counters: expressions of what is left in the counters.
    """

    statements: list[str]
    counters: list[str]


def _called(rule: Rule) -> dict[str, str]:
    """By leaf what it is called in the class."""
    called = {
        OWN_GRADIENT: OWN_GRADIENT,
        OWN_WEIGHT: OWN_WEIGHT,
        OWN_RATE: OWN_RATE,
        **{OWN_SLOT + each: each for each in rule.slots},
        **{OWN_COUNTER + each: each for each in rule.counters},
    }
    # A slot called "group" would hide what the class itself calls so.
    if len({*called.values()} | RESERVED) < len(called) + len(RESERVED):
        raise NotWritten("has slots or counters whose names stand for something else in an optimizer")
    return called


def _update(rule: Rule, called: dict[str, str], names: Names) -> _Update:
    foreign = sorted({leaf for each in rule.tensors for leaf in leaves_of(each)} - set(called))
    if foreign:
        raise NotWritten(f"takes {', '.join(foreign)}, which is neither the weight's own nor a counter")
    marked = with_plain_numbers(rule.tensors, lambda leaf: leaf == OWN_RATE or leaf.startswith(OWN_COUNTER))
    taken = _taken_from(marked[0])
    statements, found, unknown = written_statements([taken or marked[0], *marked[1:]], called, names)
    if unknown:
        raise NotWritten(f"has ops that are not known: {', '.join(unknown)}")
    texts = [each.text for each in found]
    return _Update([*statements, *_stores(rule, texts, bool(taken))], texts[1 + len(rule.slots) :])


def _by_rule(updates: Sequence[Sequence[str]]) -> Iterator[str]:
    """Each rule's statements, where a group names it."""
    for number, statements in enumerate(updates):
        last = number == len(updates) - 1
        yield "else:" if last else f'{"elif" if number else "if"} group["{RULE}"] == {number}:'
        yield from (f"    {each}" for each in statements)


def _defaults(rule: Rule, first: Mapping[str, tuple[float, float]]) -> list[str]:
    return ['"lr": lr', *(f'"{each}": {first[each][0]!r}' for each in rule.counters)]


def _filled(slot: str, smallest: float, largest: float) -> str:
    # zeros_like and full_like are what a slot begins with; anything else would have to be copied from the trace.
    if smallest != largest:
        raise NotWritten(f"begins with different numbers in its slot {slot}")
    return "torch.zeros_like(weight)" if not smallest else f"torch.full_like(weight, {smallest!r})"


def _slots_made(slots: Mapping[str, str]) -> list[str]:
    if not slots:
        return []
    listed = ", ".join(f'"{slot}": {made}' for slot, made in slots.items())
    return [
        "        for group in self.param_groups:",
        '            for weight in group["params"]:',
        f"                self.state[weight] = {{{listed}}}",
    ]


def _read_from(table: str, keys: Mapping[str, str]) -> str:
    """The statement that reads names from a table, by name its key there."""
    values = [f'{table}["{key}"]' for key in keys.values()]
    return f"{', '.join(keys)} = {', '.join(values)}"


def _taken_from(weight: Tensor) -> Tensor | None:
    """What is taken from a weight, where its new value is the old one less that."""
    if weight.kind == "Sub" and weight.op.inputs[0].op.name == OWN_WEIGHT:
        return weight.op.inputs[1]
    return None


def _stores(rule: Rule, texts: Sequence[str], is_taken: bool) -> list[str]:
    """Statements that leave the new values: what takes from what another one overwrites is computed before the first."""
    slots = dict(zip(rule.slots, texts[1 : 1 + len(rule.slots)], strict=True))
    early = [slot for slot, text in slots.items() if _words(text) & ({OWN_WEIGHT, *slots} - {slot})]
    return [
        *(f"new_{slot} = {slots[slot]}" for slot in early),
        f"weight.{'sub_' if is_taken else 'copy_'}({texts[0]})",
        *(f"{slot}.copy_({f'new_{slot}' if slot in early else text})" for slot, text in slots.items()),
    ]


def _words(text: str) -> set[str]:
    return {*re.findall(r"\w+", text)}


def with_leaves(tensors: Sequence[Tensor], replaced: Mapping[str, Tensor]) -> list[Tensor]:
    """Returns expressions with others for some of their leaves."""
    return rewritten(tensors, lambda op: replaced.get(op.name) if op.kind == FEED else None)
