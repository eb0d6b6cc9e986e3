"""Writes a port as source: its module, losses and optimizers, and the mapping of its parameters."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from parity.experiment.replay.script import Part, parts_of
from parity.port.source import expressions, image_ops, layer_calls, loops, rearranging  # noqa: F401  fill `WRITERS`
from parity.port.source.code import identifier
from parity.port.source.functions import Function, Written, write_part
from parity.port.source.names import names_of
from parity.port.source.parameters import Parameters
from parity.port.source.writer import Refused
from parity.port.tower.ops import Reader
from parity.port.tower.shapes import shapes_of
from parity.trace import RecordedGraph, Trace, read_graph
from parity.trace.as_written import as_written
from parity.trace.escape import in_docstring, is_argument, one_line, python_string, toml_string

RENAMED = {"learning_rate": "lr"}  # of the script's optimizers, in torch's words


class Missing(NamedTuple):
    """What could not be written.

    Fields:
      what: the op, or the part of the training.
      where: the line of the script, "" where it is not known.
      why: in words, with shapes.
    """

    what: str
    where: str
    why: str


class Port(NamedTuple):
    """A port that was written.

    Fields:
      script: name of the recorded script.
      body: the source, without its docstring.
      mapping: the text of the file that maps the script's variables to its parameters.
      parts: of the trace.
      ops: number of recorded ops behind it.
      losses: by section, the function that computes its loss.
      optimizers: by section, the function that makes its optimizer.
      missing: what raises in it.
      parameters: of its module.
      graph: of the script.
    """

    script: str
    body: str
    mapping: str
    parts: list[Part]
    ops: int
    losses: dict[str, str]
    optimizers: dict[str, str]
    missing: list[Missing]
    parameters: Parameters
    graph: RecordedGraph

    def source(self, docstring: str) -> str:
        """Returns the whole source."""
        return f'"""{in_docstring(docstring)}"""\n\n{self.body}'


def port_of(directory: Path) -> Port:
    """Returns the port of a recorded script.

    Args:
      directory: a trace as `parity record` leaves it.

    Raises:
      PortError: it lacks something, or its towers differ.
      ReplayError, TraceError: it is no trace of a script, or cannot be replayed.
    """
    trace = Trace(directory, whole=False)
    parts, graph = parts_of(trace), read_graph(directory)
    parameters = Parameters(
        {name: tuple(entry["shape"]) for name, entry in trace.variables.items()},
        {name: "stat" if entry["kind"] == "statistic" else "var" for name, entry in trace.variables.items()},
    )
    names, shapes, several = names_of(graph), shapes_of(trace, graph), len(parts) > 1
    written = [
        write_part(Reader(graph, part, shapes), part.name, several, parameters, part.towers, names) for part in parts
    ]
    optimizers = [_optimizer(part, several) for part in parts]
    refused = [each for one in written for each in one.refused]
    return Port(
        Path(str(trace.facts.get("script", "a recorded script"))).name,
        _body(parameters, written, optimizers),
        _mapping(parameters),
        parts,
        sum(one.ops for one in written),
        {part.name: one.loss.name for part, one in zip(parts, written, strict=True)},
        {part.name: function.name for part, function in zip(parts, optimizers, strict=True) if function},
        [Missing(f"{each.kind} {each.name}", each.line, _shapes_in_words(each)) for each in refused]
        + [each for part in parts for each in _training_left(part)],
        parameters,
        graph,
    )


def _training_left(part: Part) -> Iterator[Missing]:
    """What of a part's training is not written."""
    if part.by_hand:
        yield Missing("the optimizer", "", "is written by hand in the script")
    elif part.facts.get("clipped"):
        yield Missing("the clipping", "", "of the combined gradients changes what the optimizer is given")


def _mapping(parameters: Parameters) -> str:
    found = parameters.mapping().items()
    lines = [
        f'{toml_string(name)} = {{ to = ["{own}"], transform = "{transform}" }}' for name, (own, transform) in found
    ]
    return "\n".join(["[mapping]", *lines]) + "\n"


def _body(parameters: Parameters, written: list[Written], optimizers: Iterable[Function | None]) -> str:
    blocks = [list(_module(parameters, written))]
    for one in written:
        blocks += [list(_refusing(refused)) for refused in one.refused]
        blocks.append(list(_defined(one.loss)))
    blocks += [list(_defined(function)) for function in optimizers if function]
    text = "\n\n\n".join("\n".join(block) for block in blocks)
    return "\n".join([*_imports(text), "", "", text]) + "\n"


def _imports(text: str) -> Iterator[str]:
    if "torch." in text.replace("like_tf.", ""):
        yield "import torch"
    yield "from torch import nn"
    if "F." in text:
        yield "from torch.nn import functional as F"
    if "like_tf." in text:
        yield ""
        yield "from torch_ddp import like_tf"


def _module(parameters: Parameters, written: list[Written]) -> Iterator[str]:
    yield from ("class Model(nn.Module):", "    def __init__(self):", "        super().__init__()")
    yield from (f"        {line}" for line in parameters.statements())
    if len(written) > 1:
        yield from ("", "    def forward(self, which, *inputs):", "        return getattr(self, which)(*inputs)")
    for one in written:
        yield ""
        yield from (f"    {line}" for line in _defined(one.forward))


def _defined(function: Function) -> Iterator[str]:
    yield f"def {function.name}({', '.join(function.arguments)}):"
    yield from (f"    {line}" for line in function.body)


def _refusing(refused: Refused) -> Iterator[str]:
    where = one_line(f" at {refused.line}") if refused.line else ""
    yield f"def {refused.function}(*taken):"
    yield f"    # {one_line(refused.name)}{where}: {_shapes_in_words(refused)}"
    yield f"    raise NotImplementedError({python_string(f'{refused.kind}{where}: write it by hand')})"


def _shapes_in_words(refused: Refused) -> str:
    return f"takes {', '.join(map(str, refused.taken)) or 'nothing'}, gives {refused.given}"


def _optimizer(part: Part, several: bool) -> Function | None:
    """The function that makes the script's optimizer; None where its rate changes, or it is written by hand."""
    described: dict[str, Any] = dict(part.facts["optimizer"])
    kind = identifier_of(str(described.pop("name", "")))
    if part.by_hand or part.facts.get("clipped") or "learning_rate" not in described or not kind:
        return None
    if not all(map(is_argument, described)):
        return None
    settings = {"learning_rate": described.pop("learning_rate"), **described}
    written = ", ".join(f"{RENAMED.get(name, name)}={_setting(value)}" for name, value in settings.items())
    name = f"optimizer_{identifier(part.name)}" if several else "optimizer"
    return Function(name, ["model"], [f"return like_tf.{kind}(model.parameters(), {written})"])


def identifier_of(name: str) -> str:
    """Returns the class of `like_tf` that is an optimizer of TensorFlow's, "" where its name is none."""
    found = name.removesuffix("Optimizer")
    return found if found.isidentifier() and found.isascii() else ""


def _setting(value: Any) -> str:
    return repr(float(as_written(np.float32(value)))) if isinstance(value, float) else repr(value)
