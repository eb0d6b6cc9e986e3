"""How weight decay is written: as a sum over the parameters that it is of, by the shortest rule that they follow."""

from collections.abc import Callable, Iterable, Mapping

from parity.port.source.code import Code, call, infix, method, number
from parity.port.source.parameters import Parameters
from parity.port.source.writer import Writer, writes
from parity.port.tower.ops import Op
from parity.port.tower.terms import DECAY

MOST_DECAYED_LISTED = 3  # weights that are named one by one on the line of the sum
# A parameter by its name and its number of axes, and how the rule that it follows is written.
Rule = Callable[[str, int], bool]
DECAY_RULES: tuple[tuple[str, Rule], ...] = (
    ("weight in {}.parameters()", lambda name, axes: True),
    ("weight in {}.parameters() if weight.dim() > 1", lambda name, axes: axes > 1),
    ("weight in {}.parameters() if weight.dim() == 4", lambda name, axes: axes == 4),
    ("weight in {}.parameters() if weight.dim() == 2", lambda name, axes: axes == 2),
    ('name, weight in {}.named_parameters() if "norm" not in name', lambda name, axes: "norm" not in name),
    ('name, weight in {}.named_parameters() if name.endswith("weight")', lambda name, axes: name.endswith("weight")),
)


@writes(DECAY)
def _weight_decay(writer: Writer, op: Op) -> Code:
    computed = op.attributes["factor"] is None
    names = [each.op.name for each in op.inputs[computed:]]
    writer.assign(op.inputs[:computed])
    factor = writer.code(op.inputs[0]) if computed else number(op.attributes["factor"])
    plainly = writer.parameters.in_plain_torch is not None
    if len(names) == 1:
        return _times(factor, half_squared_norm(writer.parameters.whole(names[0], writer.owner), plainly))
    decay = writer.new_name("decay")
    written = _by_rule(names, writer.parameters, writer.owner)
    if not written:
        listed = [writer.parameters.whole(each, writer.owner).text for each in names]
        written = f"weight in ({', '.join(listed)})"
        if len(listed) > MOST_DECAYED_LISTED:
            decayed = writer.new_name("decayed")
            writer.statements.append(f"{decayed} = [{', '.join(listed)}]")
            written = f"weight in {decayed}"
    writer.statements.append(f"{decay} = sum({half_squared_norm(Code('weight'), plainly).text} for {written})")
    return _times(factor, Code(decay))


def half_squared_norm(of: Code, plainly: bool) -> Code:
    """Returns half the squared norm of a tensor, in torch's own words or like_tf's."""
    if not plainly:
        return call("like_tf.l2_loss", of)
    return infix(method(method(of, "square"), "sum"), "/", Code("2"))


def _times(factor: Code, norm: Code) -> Code:
    return norm if factor.text == "1" else infix(factor, "*", norm)


def _by_rule(names: Iterable[str], parameters: Parameters, owner: str) -> str:
    """The rule that exactly the parameters of these variables follow, in the module or one of its blocks; "" for none."""
    wanted = set(names)
    if parameters.is_whole:
        found = _rule_of(wanted, parameters.mapping(), parameters, owner)
        if found:
            return found
    for block in parameters.blocks.values():
        if wanted <= block.parameters.own and not block.chained:
            return _rule_of(wanted, block.parameters.mapping(), parameters, f"{owner}.{block.attribute}")
    return ""


def _rule_of(wanted: set[str], mapping: Mapping[str, tuple[str, str]], parameters: Parameters, owner: str) -> str:
    trained = {name: path for name, (path, _) in mapping.items() if parameters.kinds.get(name) == "var"}
    for text, rule in DECAY_RULES:
        if {name for name, path in trained.items() if rule(path, len(parameters.shapes[name]))} == wanted:
            return text.format(owner)
    return ""
