"""How losses are written, and the draws and candidates that they take."""

from parity.port.source.code import ATOM, Code, call, infix, method
from parity.port.source.ops.decay import half_squared_norm
from parity.port.source.plain import LABELS
from parity.port.source.writer import Writer, scalar, writes
from parity.port.tower.ops import CONST, VARIABLE, Op
from parity.port.tower.simplify import HITS


@writes("L2Loss")
def _l2_loss(writer: Writer, op: Op) -> Code:
    taken, plainly = op.inputs[0], writer.parameters.in_plain_torch is not None
    if taken.kind == VARIABLE:
        return half_squared_norm(writer.parameters.whole(taken.op.name, writer.owner), plainly)
    return half_squared_norm(writer.as_it_is(taken), plainly)


@writes("SparseSoftmaxCrossEntropyWithLogits")
def _sparse_cross_entropy(writer: Writer, op: Op) -> Code:
    return call("F.cross_entropy", *_logits_and_classes(writer, op), reduction='"none"')


def _logits_and_classes(writer: Writer, op: Op) -> tuple[Code, Code]:
    logits, labels = op.inputs
    number = scalar(labels) if labels.kind == CONST else None
    if number is None:
        return writer.code(logits), method(writer.code(labels), "long")
    writer.assign([logits])
    found = writer.code(logits)
    same = method(found, "new_full", f"({call('len', found).text},)", number.text)
    return found, method(same, "long")


@writes("CrossEntropy")
def _mean_cross_entropy(writer: Writer, op: Op) -> Code:
    reduction = '"sum"' if op.attributes["reduction"] == "Sum" else None
    return call("F.cross_entropy", *_logits_and_classes(writer, op), reduction=reduction)


@writes("SoftmaxCrossEntropyWithLogits")
def _cross_entropy(writer: Writer, op: Op) -> Code:
    logits, labels = op.inputs
    if writer.parameters.in_plain_torch is not None and len(logits.shape) == 2:
        writer.parameters.in_plain_torch.differs(LABELS)
        return call("F.cross_entropy", writer.code(logits), writer.code(labels), reduction='"none"')
    return call("like_tf.softmax_cross_entropy_with_logits", writer.code(labels), writer.code(logits))


@writes(HITS)
def _accidental_hits(writer: Writer, op: Op) -> Code:
    """The lowest number of float32 for candidates that are a true class, which the softmax leaves out so; 0 for others."""
    true, candidates = op.inputs
    several = true.shape[1] > 1
    classes = Code(f"{writer.code(true).within(ATOM)}[..., None]") if several else writer.code(true)
    compared = infix(classes, "==", writer.code(candidates))
    compared = method(compared, "any", "1") if several else compared
    return infix(compared, "*", Code("torch.finfo(torch.float32).min"))


@writes("RandomUniform", "RandomStandardNormal")
def _drawn(writer: Writer, op: Op) -> Code:
    name = {"RandomUniform": "rand", "RandomStandardNormal": "randn"}[op.kind]
    like = writer.parameters.example(writer.owner)
    return call(f"torch.{name}", str(op.output().shape), dtype=f"{like}.dtype", device=f"{like}.device")
