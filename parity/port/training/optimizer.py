"""Puts together what stands between gradients and weights: an optimizer with its hooks, its schedule, averages."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from parity.experiment.replay.script import Part
from parity.port.errors import PortError
from parity.port.source.code import identifier
from parity.port.source.form import indented, wrapped
from parity.port.source.functions import Names
from parity.port.source.parameters import Parameters
from parity.port.tower.ops import FEED, Op, Tensor
from parity.port.tower.reader import Reader
from parity.port.tower.terms import key_of
from parity.port.training.averages import averages_of
from parity.port.training.clipping import clip_statements
from parity.port.training.rates import RATE_ARGUMENT, Rate, counters_ahead, rate_of
from parity.port.training.rules import (
    OWN_COUNTER,
    OWN_GRADIENT,
    OWN_SLOT,
    OWN_WEIGHT,
    RULE,
    NotWritten,
    Rule,
    class_lines,
    raised_rule,
    with_leaves,
    with_rate,
)
from parity.port.training.values import Values, folded, leaves_of
from parity.port.training.whole import with_whole_reductions
from parity.trace import RecordedGraph, TensorKey, parse_key, trace_name
from parity.trace.as_written import as_written
from parity.trace.escape import is_argument, one_line

LIKE_TF = ("GradientDescent", "Momentum", "Adam", "RMSProp", "Adagrad", "Adadelta", "Ftrl")
TORCH_ARGUMENTS = {"epsilon": "eps", "decay": "alpha", "use_nesterov": "nesterov"}  # as like_tf calls them
ALL_PARAMETERS = "model.parameters()"
MOST_RULES_OF_AN_OPTIMIZER = 4  # of one optimizer: as many as a reader would tell from each other
GROUP_OF_WEIGHTS = "group_"  # what lists of weights are called that have one rule each, before its number
HAND_WRITTEN_CLASS = (
    "Updates"  # what the class of a script's own optimizer is called where the script has no name for it
)


@dataclass
class Training:
    """What stands between gradients and weights, as source.

    Attributes:
      blocks: of lines of the module, in order.
      optimizer: the function that makes the optimizer, "" where it could not be written.
      schedule: the function of the step that gives the learning rate, "" where that does not change or is fed.
      fed: what the script feeds its learning rate by, which the optimizer's function then takes as its second argument.
      averages: the function that makes the moving averages of the weights, "" where the script keeps none.
      averages_count: whether they are updated with the number of the step.
      missing: (what, line, why) of what is left to write by hand.
    """

    blocks: list[list[str]] = field(default_factory=list)
    optimizer: str = ""
    schedule: str = ""
    fed: str = ""
    averages: str = ""
    averages_count: bool = False
    missing: list[tuple[str, str, str]] = field(default_factory=list)


@dataclass(frozen=True)
class Recorded:
    """What was recorded of one optimizer.

    Attributes:
      part: of the trace.
      graph: the script's.
      reader: of it.
      parameters: of the module, complete.
      names: where names and lines come from.
      several: whether the script has several optimizers.
      moved_by: the tower that moves the statistics.
    """

    part: Part
    graph: RecordedGraph
    reader: Reader
    parameters: Parameters
    names: Names
    several: bool
    moved_by: int = 0

    @property
    def section(self) -> str:
        """What the graph calls the optimizer."""
        for run in self.graph.runs:
            for name, described in run.get("sections", {}).items():
                if described.get("prefix", "") == self.part.prefix:
                    return str(name)
        return self.part.name

    def called(self, name: str) -> str:
        """What a function is called: of several optimizers, with the section's name."""
        return f"{name}_{identifier(self.part.name)}" if self.several else name

    def path(self, name: str) -> str:
        """An expression for a variable of the script in the model."""
        return f"model.{self.parameters.mapping()[name][0]}"

    def values(self, leaves: dict[str, str] | None = None) -> Values:
        """Reads tensors of its updates."""
        return Values(self.reader, leaves or {})


def training_of(recorded: Recorded) -> Training:
    """Returns the source of one optimizer's training."""
    found = Training()
    try:
        read = _by_hand if recorded.part.by_hand else _of_tensorflow
        _write_optimizer(recorded, found, *read(recorded, found))
    except (NotWritten, PortError) as error:
        found.missing.append(("the optimizer", "", str(error)))
    averages = averages_of(recorded.reader, recorded.values(), recorded.graph)
    # The reason why there are none: "" where the script keeps none.
    if isinstance(averages, str):
        found.missing += [("the moving averages", "", averages)] if averages else []
    else:
        found.averages, found.averages_count = recorded.called("averages"), averages.counted
        own = _chosen(recorded, averages.variables)
        made = f"like_tf.ExponentialMovingAverage({own.expression}, {averages.decay!r})"
        usage = "update(step)" if averages.counted else "update()"
        head = f"def {found.averages}(model: Model) -> like_tf.ExponentialMovingAverage:"
        found.blocks.append([head, f"    # {usage} after each step of the optimizer", *own.lines, f"    return {made}"])
    # Names of a trace are anybody's text.
    found.missing = [(what, one_line(line), one_line(why)) for what, line, why in found.missing]
    return found


# The optimizer's function.


def _write_optimizer(recorded: Recorded, found: Training, call: str, rate: Rate, groups: "_Chosen | None") -> None:
    if rate.missing:
        found.missing.append(("the learning rate", "", rate.missing))
        return
    own = _chosen(recorded, _trained(recorded))
    hooks = [*_hooks(recorded, found, own.expression), *sharing_of(recorded)]
    if groups:
        lines = own.lines if hooks and own.expression != ALL_PARAMETERS else []
        own = _Chosen(groups.expression, [*lines, *groups.lines])
    if found.missing:
        return
    if rate.block:
        found.blocks.append([*rate.block])
    found.schedule, found.fed, found.optimizer = rate.schedule, rate.fed, recorded.called("optimizer")
    arguments = "model: Model" + (f", {RATE_ARGUMENT}: float" if rate.fed else "")
    comment = f"  # the script feeds it: {identifier(rate.fed)}" if rate.fed else ""
    made = call.format(f"{own.expression}, lr={rate.first}")
    body = [f"optimizer = {made}", *hooks, "return optimizer"] if hooks else [f"return {made}"]
    head = f"def {found.optimizer}({arguments}) -> torch.optim.Optimizer:{comment}"
    lines = [*wrapped(head), *own.lines, *indented(body)]
    found.blocks.append(lines)


def _hooks(recorded: Recorded, found: Training, parameters: str) -> Iterator[str]:
    """What is done to the combined gradients first."""
    rule = recorded.graph.clipping.get(recorded.section)
    others = [*_combined_otherwise(recorded, found)]
    # Not guessed: a wrong limit trains, and is found weeks later.
    if recorded.part.facts.get("clipped") and not rule:
        # A trace that was recorded before rules were kept.
        found.missing.append(
            ("the clipping", "", "is by a rule that this trace does not keep: record the script again")
        )
        return
    if rule and others:
        found.missing.append(("the clipping", "", "comes after gradients that are combined in different ways"))
    elif rule:
        subset = [recorded.reader.variable(each) for each in rule.get("variables") or []]
        names = [key.name for key in subset if key is not None]
        clipped = f"[{', '.join(map(recorded.path, names))}]" if names else parameters
        statements = clip_statements(rule, clipped)
        if isinstance(statements, str):
            found.missing.append(("the clipping", _clipping_line(recorded), statements))
            return
        yield from _hook("clip", statements, _clipping_line(recorded))
    elif others:
        yield from others


def _hook(name: str, statements: Sequence[str], comment: str, when: str = "pre") -> Iterator[str]:
    yield ""
    yield f"def {name}(*_: object) -> None:{f'  # {one_line(comment)}' if comment else ''}"
    yield from (f"    {each}" for each in statements)
    yield ""
    yield f"optimizer.register_step_{when}_hook({name})"


def sharing_of(recorded: Recorded) -> Iterator[str]:
    """Yields the hook that gives every rank the statistics of the one whose tower moves them; DDP would send rank 0's."""
    if recorded.moved_by:
        # The last one where it is: the port may be trained on more ranks than the script had towers.
        last = recorded.moved_by == recorded.part.towers - 1
        rank = "torch.distributed.get_world_size() - 1" if last else str(recorded.moved_by)
        statements = ["for buffer in model.buffers():", f"    torch.distributed.broadcast(buffer, {rank})"]
        yield from _hook("share", statements, f"tower {recorded.moved_by} of the script moves the statistics", "post")


def _combined_otherwise(recorded: Recorded, found: Training) -> Iterator[str]:
    """Brings the gradients of variables that the script adds up, where it averages the others, or the reverse."""
    base = recorded.part.facts["combine"]
    kinds = recorded.graph.combinations.get(recorded.section, {})
    named = {recorded.reader.variable(op): kind for op, kind in kinds.items()}
    # A script that forgets to combine a variable trains it on one tower's data: a fault to look at, not to copy unseen.
    of_one = [key.name for key, kind in named.items() if key and kind == "one" and recorded.part.towers > 1]
    if of_one:
        found.missing.append(("the combination", "", f"takes one tower's gradient of {', '.join(of_one)}"))
    names = [key.name for key, kind in named.items() if key and kind in ("sum", "mean") and kind != base]
    if not names:
        return
    # Behind DDP's reduction and in front of the step, where every rank has the same numbers.
    change = "mul_" if base == "mean" else "div_"
    why = "the script adds these up, and DDP averages all" if base == "mean" else "the script averages these"
    yield from _hook(
        "rescale",
        [
            f"for weight in [{', '.join(map(recorded.path, names))}]:",
            "    if weight.grad is not None:",
            f"        weight.grad.{change}(torch.distributed.get_world_size())",
        ],
        why,
    )


def _clipping_line(recorded: Recorded) -> str:
    for text, described in recorded.reader.values.items():
        own = recorded.part.own(text)
        if own is not None and parse_key(own).quantity == "clip":
            return recorded.names.lines(_named(described["tensor"].partition(":")[0]))
    return ""


def _named(name: str, shape: tuple[int, ...] = ()) -> Op:
    return Op(FEED, name, [], {}, [shape], ["float32"])


@dataclass(frozen=True)
class _Chosen:
    """Parameters: an expression, and the lines before it that it needs."""

    expression: str
    lines: list[str]


def _chosen(recorded: Recorded, names: Sequence[str], all_named: bool = False) -> _Chosen:
    """The parameters of some variables; all of a model's by its own method, unless all are to be named."""
    known = recorded.parameters.mapping()
    paths = [*dict.fromkeys(known[name][0] for name in names if name in known)]
    everything = {path for name, (path, _) in known.items() if recorded.parameters.kinds.get(name) == "var"}
    # Written so, layers that are added to the model later are trained too.
    if set(paths) == everything and not all_named:
        return _Chosen(ALL_PARAMETERS, [])
    listed = ", ".join(f"model.{path}" for path in paths)
    return _Chosen("parameters", [*indented([f"parameters = [{listed}]"])])


def _trained(recorded: Recorded) -> list[str]:
    if recorded.part.trained is None:
        return [name for name, kind in recorded.parameters.kinds.items() if kind == "var"]
    return [name for name in recorded.parameters.kinds if name in recorded.part.trained]


# Optimizers of TensorFlow's.


def _of_tensorflow(recorded: Recorded, found: Training) -> tuple[str, Rate, _Chosen | None]:
    described: dict[str, Any] = dict(recorded.part.facts["optimizer"])
    kind = str(described.pop("name", "")).removesuffix("Optimizer")
    if kind not in LIKE_TF:
        raise NotWritten(f"is {identifier(kind)}, which like_tf has none like")
    rate = described.pop("learning_rate", None)
    held = recorded.graph.hyper_parameters.get(recorded.section, {})
    # A hyper-parameter that is a tensor's name is computed in the graph; only the learning rate has a place for that.
    changing = [name for name, value in held.items() if isinstance(value, str) and name != RATE_ARGUMENT]
    if changing:
        raise NotWritten(f"changes {', '.join(map(identifier, changing))} from step to step")
    # What is written as an argument comes from the trace: no text of it becomes code.
    strange = [name for name in described if not is_argument(name)]
    if strange:
        raise NotWritten(f"has a hyper-parameter {one_line(strange[0])}")
    settings = "".join(f", {TORCH_ARGUMENTS.get(name, name)}={_setting(value)}" for name, value in described.items())
    call = f"like_tf.{kind}({{}}{settings})"
    if rate is not None:
        return call, Rate(_setting(rate)), None
    if not isinstance(held.get(RATE_ARGUMENT), str):
        raise NotWritten("has a learning rate that this trace does not keep: record the script again")
    (tensor,) = folded([recorded.values().tensor(held[RATE_ARGUMENT])])
    return call, rate_of(tensor, counters_ahead(recorded.part), recorded.called("schedule"), recorded.names), None


def _setting(value: Any) -> str:
    # TensorFlow rounds hyper-parameters to float32 when it makes constants of them: like_tf does so itself.
    return repr(float(as_written(np.float32(value)))) if isinstance(value, float) else repr(value)


# Optimizers that the script writes itself.


def _by_hand(recorded: Recorded, found: Training) -> tuple[str, Rate, _Chosen | None]:
    """The call that makes the optimizer, its rate, and of several rules the groups of weights that have them."""
    counted = counters_ahead(recorded.part).items()
    ahead = {OWN_COUNTER + identifier(parse_key(leaf).name): offset for leaf, offset in counted}
    rules, members = _rules(recorded, lambda leaf: leaf in ahead)
    rule = rules[0]
    if rule.rate is None:
        rate = Rate("1.0")  # the script has none: what it takes from the weight is taken whole
    else:
        rate = rate_of(rule.rate, ahead, recorded.called("schedule"), recorded.names)
    first = _first_values(recorded, rule)
    counts = {
        leaf: first[leaf.removeprefix(OWN_COUNTER)][0] for leaf in ahead if leaf.removeprefix(OWN_COUNTER) in first
    }
    raised = raised_rule(rule, counts) if len(rules) == 1 else ""
    if raised:
        return raised, rate, None
    name = HAND_WRITTEN_CLASS + identifier(recorded.part.name).title() if recorded.several else HAND_WRITTEN_CLASS
    used = {leaf for one in rules for each in one.tensors[: 1 + len(one.slots)] for leaf in _counters_in(each)}
    for each in rules:
        each.counters = {name: value for name, value in each.counters.items() if name in used}
    found.blocks.append(class_lines(rules, name, first, recorded.names, recorded.names.lines(rule.weight.op)))
    return f"{name}({{}})", rate, _groups(recorded, members) if len(rules) > 1 else None


def _groups(recorded: Recorded, members: Sequence[Sequence[str]]) -> _Chosen:
    """Groups of weights, each with the number of its rule: by their axes where these tell them from each other."""
    shapes = recorded.parameters.shapes
    # AdamW and LAMB leave biases and norms out of decay: weights of one axis.
    axes = [{len(shapes[name]) > 1 for name in group} for group in members]
    listed = [_chosen(recorded, group, all_named=True).lines for group in members]
    everything = _chosen(recorded, [name for group in members for name in group]).expression == ALL_PARAMETERS
    if everything and len(members) == 2 and sorted(axes, key=str) == [{False}, {True}]:
        signs = [">" if each == {True} else "<=" for each in axes]
        chosen = [f"[weight for weight in {ALL_PARAMETERS} if weight.dim() {sign} 1]" for sign in signs]
        lines = []
    else:
        chosen = [f"{GROUP_OF_WEIGHTS}{number}" for number in range(len(members))]
        lines = [
            line.replace("parameters = ", f"{name} = ", 1)
            for name, own in zip(chosen, listed, strict=True)
            for line in own
        ]
    groups = ", ".join(f'{{"params": {each}, "{RULE}": {number}}}' for number, each in enumerate(chosen))
    return _Chosen("groups", [*lines, *indented([f"groups = [{groups}]"])])


def _counters_in(tensor: Tensor) -> set[str]:
    return {leaf.removeprefix(OWN_COUNTER) for leaf in leaves_of(tensor) if leaf.startswith(OWN_COUNTER)}


def _rules(recorded: Recorded, is_counter: Callable[[str], bool]) -> tuple[list[Rule], list[list[str]]]:
    """The rules that weights are updated by, each with its weights: most have one.

    Raises:
      NotWritten: there are many, with other slots or another rate, or a gradient is sparse.
    """
    ids: dict[object, int] = {}
    rules: dict[object, Rule] = {}
    members: dict[object, list[str]] = {}
    for name in _trained(recorded):
        rule = with_rate(_rule_of(recorded, name), is_counter)
        key = (rule.key(ids), key_of(rule.rate, ids) if rule.rate else None)
        rules.setdefault(key, rule)
        members.setdefault(key, []).append(name)
    if not rules:
        raise NotWritten("is written by hand in the script, and updates no weight")
    own = {(*rule.slots, *rule.counters, key[1]) for key, rule in rules.items()}  # type: ignore[index]
    # Rules with other slots or another rate would be several optimizers, whose order in a step is not known.
    if len(rules) > MOST_RULES_OF_AN_OPTIMIZER or len(own) > 1:
        raise NotWritten("is written by hand in the script, with another rule for some of the weights")
    return [*rules.values()], [*members.values()]


def _rule_of(recorded: Recorded, name: str) -> Rule:
    part, reader = recorded.part, recorded.reader
    texts = [trace_name(quantity, name, section=part.name) for quantity in ("clip", "grad")]
    known = [reader.values[text]["tensor"] for text in texts if text in reader.values]
    if not known:
        raise NotWritten(f"is given rows of the gradient of {identifier(name)}")
    values = recorded.values({known[0]: OWN_GRADIENT})
    ops = {key: op for op, key in ((op, _own(part, text)) for text, op in recorded.graph.variables.items()) if key}
    tensors: dict[str, Tensor] = {}
    for key, op in ops.items():
        if (key.quantity in ("var", "slot") and key.name == name) or key.quantity == "state":
            written = values.written(op)
            if written is not None:
                tensors[_called(key, name)] = written
    called = {str(key): _called(key, name) for key in ops}
    shape = tuple(recorded.parameters.shapes.get(name, ()))
    shapes = {own: shape if own == OWN_WEIGHT or own.startswith(OWN_SLOT) else () for own in called.values()}
    renamed = {text: _named(own, shapes[own]).output() for text, own in called.items() if text != own}
    renamed |= {part.prefix + text: leaf for text, leaf in renamed.items()}
    read = folded(with_leaves([*tensors.values()], renamed)) if tensors else []
    found = dict(zip(tensors, with_whole_reductions(read), strict=True))
    if OWN_WEIGHT not in found:
        raise NotWritten(f"writes {identifier(name)} by an op that is not known")
    return Rule(
        found[OWN_WEIGHT],
        {each.removeprefix(OWN_SLOT): tensor for each, tensor in sorted(found.items()) if each.startswith(OWN_SLOT)},
        {
            each.removeprefix(OWN_COUNTER): tensor
            for each, tensor in sorted(found.items())
            if each.startswith(OWN_COUNTER)
        },
    )


def _own(part: Part, text: str) -> TensorKey | None:
    own = part.own(text)
    return parse_key(own) if own is not None else None


def _called(key: TensorKey, weight: str) -> str:
    """What a variable is called in the rule of a weight."""
    if key.quantity == "var" and key.name == weight:
        return OWN_WEIGHT
    if key.quantity == "slot" and key.name == weight:
        return OWN_SLOT + identifier(key.slot)
    return OWN_COUNTER + identifier(key.name) if key.quantity == "state" else str(key)


def _first_values(recorded: Recorded, rule: Rule) -> dict[str, tuple[float, float]]:
    """By slot and counter, the smallest and the largest number in it before the first recorded step."""
    found: dict[str, tuple[float, float]] = {}
    for text, value in recorded.part.before(recorded.part.steps[0]).items():
        key = parse_key(text)
        if key.quantity in ("slot", "state") and value.size:
            called = identifier(key.slot if key.quantity == "slot" else key.name)
            smallest, largest = found.get(called, (np.inf, -np.inf))
            found[called] = (min(smallest, float(value.min())), max(largest, float(value.max())))
    return found
