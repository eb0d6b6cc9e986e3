"""Writes a port as source: its module, losses and optimizers, and the mapping of its parameters."""

import os
import traceback
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from parity.experiment.diagnosis import DEBUG
from parity.experiment.replay.script import Part, parts_of
from parity.mapping.variable_map import line, table
from parity.port.errors import PortError
from parity.port.source.blocks import BlocksDiffer
from parity.port.source.citations import Citations, comment
from parity.port.source.classes import Class, Classes
from parity.port.source.form import TENSOR, indented, typed, wrapped
from parity.port.source.functions import Function, Names, Written, write_part
from parity.port.source.input_names import input_names
from parity.port.source.names import names_of
from parity.port.source.ops import (  # noqa: F401  they fill the tables of writers
    arithmetic,
    decay,
    images,
    layers,
    loops,
    losses,
    rearranging,
    reductions,
    reshaping,
)
from parity.port.source.parameters import Parameters
from parity.port.source.plain import Plain
from parity.port.source.writer import Refused
from parity.port.tower.reader import Reader
from parity.port.tower.regions import Frame
from parity.port.tower.shapes import shapes_of
from parity.port.training.optimizer import Recorded, Training, training_of
from parity.trace import RecordedGraph, Trace, read_graph
from parity.trace.arrays import Array
from parity.trace.as_written import as_written
from parity.trace.escape import in_docstring, one_line, python_string
from parity.worker.protocol import is_refusal

# A docstring that lists more is not read; the rest stands in `--json`.
MOST_LINES_LISTED = 8  # of the script, in the docstring
# Three are read at a glance; a reader of more wants them one below the other.
MOST_TYPES_LISTED = 3  # of what a function returns


class Missing(NamedTuple):
    """What could not be written.

    Fields:
      what: the op, or the part of the training.
      where: the line of the script, "" where it is not known.
      why: in words, with shapes.
      kind: what parts of a kind are counted by: the type of an op.
    """

    what: str
    where: str
    why: str
    kind: str = ""

    @property
    def counted_as(self) -> str:
        """What it is counted under."""
        return self.kind or self.what


class Port(NamedTuple):
    """A port that was written.

    Fields:
      script: name of the recorded script.
      body: the source, without its docstring.
      mapping: the text of the file that maps the script's variables to its parameters.
      parts: of the trace.
      ops: number of recorded ops behind it.
      losses: by section, the function that computes its loss.
      trainings: by section, what stands between its gradients and its weights.
      missing: what raises in it.
      parameters: of its module.
      graph: of the script.
      inputs: by recorded name of an input, what it is called, where that is another name.
      assumed: sentences on what holds of the recorded steps, and need not of others.
      plainly: sentences on how what is in plain torch differs from the script; none where like_tf stands.
    """

    script: str
    body: str
    mapping: str
    parts: list[Part]
    ops: int
    losses: dict[str, str]
    trainings: dict[str, Training]
    missing: list[Missing]
    parameters: Parameters
    graph: RecordedGraph
    inputs: Mapping[str, str]
    assumed: Sequence[str] = ()
    plainly: Sequence[str] = ()

    def source(self, docstring: str) -> str:
        """Returns the whole source."""
        return f'"""{in_docstring(docstring)}"""\n\n{self.body}'


def port_of(directory: Path, in_plain_torch: bool = False) -> Port:
    """Returns the port of a recorded script; see `_port_of`, whose arguments it takes.

    Raises:
      PortError: it lacks something, its towers differ, or its ops do not fit together.
      ReplayError, TraceError: it is no trace of a script, or cannot be replayed.
      Exception: what the writer met in a graph whose ops do not fit together, where the environment has `PARITY_DEBUG`.
    """
    try:
        return _port_of(directory, in_plain_torch)
    # What each op takes, TensorFlow alone could check: a graph that it has not made meets the rule of an op anywhere, or
    # what is written of it is no Python, as of a model that gives nothing.
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, SyntaxError, TypeError, ValueError) as error:
        if is_refusal(error) or os.environ.get(DEBUG):
            raise
        where = traceback.extract_tb(error.__traceback__)[-1]
        raise PortError(
            f"port: expected a graph in {directory} whose ops fit together, got {type(error).__name__} ({str(error)[:80]}) "
            f"in {Path(where.filename).name}, line {where.lineno}. Record the script again; if you have, report it."
        ) from error


def _port_of(directory: Path, in_plain_torch: bool) -> Port:
    """Returns the port of a recorded script.

    Args:
      directory: a trace as `parity record` leaves it.
      in_plain_torch: whether like_tf is left out where torch has what is nearly the same.

    Raises:
      PortError: it lacks something, or its towers differ.
      ReplayError, TraceError: it is no trace of a script, or cannot be replayed.
    """
    trace = Trace(directory, whole=False)
    parts, graph = parts_of(trace), read_graph(directory)
    names, shapes = names_of(graph), shapes_of(trace, graph)
    readers = [Reader(graph, part, shapes) for part in parts]
    names = replace(names, inputs={name: own for each in readers for name, own in input_names(graph, each).items()})
    plain = Plain() if in_plain_torch else None
    parameters, written = _written(trace, readers, parts, names, plain)
    trainings = [
        training_of(Recorded(part, graph, reader, parameters, names, len(parts) > 1, one.moved_by))
        for reader, part, one in zip(readers, parts, written, strict=True)
    ]
    for each in trainings if plain is not None else ():
        each.blocks = plain.optimizers(each.blocks) if plain is not None else each.blocks
    body = _body(parameters, written, trainings)
    refused = [each for one in written for each in one.refused]
    return Port(
        Path(str(trace.facts.get("script", "a recorded script"))).name,
        body,
        _mapping(parameters, names.inputs),
        parts,
        sum(one.ops for one in written),
        {part.name: one.loss.name for part, one in zip(parts, written, strict=True)},
        {part.name: training for part, training in zip(parts, trainings, strict=True)},
        [Missing(f"{each.kind} {each.name}", each.line, _shapes_in_words(each), each.kind) for each in refused]
        + [Missing(*each) for training in trainings for each in training.missing]
        + [*_statistics_left(trace, parameters, parts[0].idle())],
        parameters,
        graph,
        names.inputs,
        [*_assumed(written)],
        plain.sentences(body) if plain is not None else [],
    )


def _mapping(parameters: Parameters, inputs: Mapping[str, str]) -> str:
    variables = table((name, [own], transform) for name, (own, transform) in parameters.mapping().items())
    if not inputs:
        return variables
    return "\n".join(
        [variables, "[mapping.feed]", *(line(name, [own], "identity") for name, own in inputs.items()), ""]
    )


def _assumed(written: Sequence[Written]) -> Iterator[str]:
    """What no replay of the recorded steps can find wrong: numbers that are the same in all of them."""
    numbers = {one_line(name): value for one in written for name, value in one.numbers.items()}
    if numbers:
        listed = ", ".join(f"{name} = {_as_written(value)!r}" for name, value in sorted(numbers.items()))
        yield f"Fed the same in every recorded step, and constants here: {listed}."
    lines = [one_line(each) for each in dict.fromkeys(line for one in written for line in one.lengths)]
    if lines:
        more = f" and {len(lines) - MOST_LINES_LISTED} more" if len(lines) > MOST_LINES_LISTED else ""
        yield (
            "For the recorded lengths alone, which the script leaves open and which are numbers here: what is of "
            f"{', '.join(lines[:MOST_LINES_LISTED])}{more}."
        )


def _as_written(value: Array) -> object:
    return (as_written(value) if value.dtype == np.float32 else value).item()


def _written(
    trace: Trace, readers: Sequence[Reader], parts: Sequence[Part], names: Names, plain: Plain | None
) -> tuple[Parameters, list[Written]]:
    """Writes all parts; once more without a block where that turns out to be none."""
    no_blocks: set[frozenset[str]] = set()
    while True:
        parameters = Parameters(
            {name: tuple(entry["shape"]) for name, entry in trace.variables.items()},
            {name: "stat" if entry["kind"] == "statistic" else "var" for name, entry in trace.variables.items()},
            no_blocks=frozenset(no_blocks),
            in_plain_torch=plain,
        )
        try:
            return parameters, [
                write_part(reader, part.name, len(parts) > 1, parameters, part.towers, names)
                for reader, part in zip(readers, parts, strict=True)
            ]
        except BlocksDiffer as differ:
            no_blocks.add(differ.variables)


def _statistics_left(trace: Trace, parameters: Parameters, idle: Collection[str]) -> Iterator[Missing]:
    """The moving statistics that no layer of the port has, but for those that the training neither reads nor moves."""
    mapped = parameters.mapping()
    for name, entry in trace.variables.items():
        if entry["kind"] == "statistic" and name not in mapped and name not in idle:
            yield Missing(f"the statistic {name}", "", "is moved in a way that no layer has", "statistic")


def _body(parameters: Parameters, written: list[Written], trainings: Iterable[Training]) -> str:
    classes = Classes()
    classes.add(parameters)
    texts = [[*_class(each)] for each in classes.found]
    frame = written[0].frame if len(written) == 1 else None
    texts.append([*_module(parameters, classes, written, frame)])
    for one in written:
        texts += [[*_refusing(refused)] for refused in one.refused]
        texts.append([*_defined(one.loss, "model: DistributedDataParallel")])
    texts += [block for training in trainings for block in training.blocks]
    text = "\n\n\n".join("\n".join(each) for each in texts)
    return "\n".join([*_imports(text), "", "", text]) + "\n"


def _imports(text: str) -> Iterator[str]:
    standard = []
    if "math." in text:
        standard.append("import math")
    if "Iterable[" in text:
        standard.append("from collections.abc import Iterable")
    if any(each in text for each in ("Any:", ": Any", ", Any]")):
        standard.append("from typing import Any")
    yield from (*standard, *([""] if standard else []))
    yield from ("import torch", "from torch import nn")
    if "F." in text:
        yield "from torch.nn import functional as F"
    if "DistributedDataParallel" in text:
        yield "from torch.nn.parallel import DistributedDataParallel"
    if "like_tf." in text:
        yield "from torch_ddp import like_tf"


def _class(one: Class) -> Iterator[str]:
    yield from wrapped(f"class {one.name}(nn.Module):{comment(one.frame)}")
    arguments = ["self", *(f"{name}: {kind}" for name, kind in one.arguments)]
    made = [f"def __init__({', '.join(arguments)}) -> None:", "    super().__init__()"]
    yield from indented([*made, *indented(one.made)])
    yield ""
    yield from indented([*_defined(Function("forward", ["self", *one.taken], one.body, one.gives), "self")])


def _module(parameters: Parameters, classes: Classes, written: list[Written], frame: Frame | None) -> Iterator[str]:
    yield from wrapped(f"class Model(nn.Module):{comment(frame)}")
    buffers = parameters.buffers()
    yield from (f"    {name}: {TENSOR}" for name in buffers)
    if buffers:
        yield ""
    held = classes.statements(parameters, citations=Citations(frame, classes.named))
    made = ["def __init__(self) -> None:", "    super().__init__()", *indented(held)]
    yield from indented(made)
    if len(written) > 1:
        yield ""
        yield from indented(["def forward(self, which: str, *inputs: torch.Tensor) -> Any:"])
        yield "        return getattr(self, which)(*inputs)"
    for one in written:
        yield ""
        yield from indented([*_defined(one.forward, "self")])


def _defined(function: Function, first: str, gives: str = "") -> Iterator[str]:
    own = function.arguments[1:]
    each = ", ".join([TENSOR] * function.gives) if function.gives <= MOST_TYPES_LISTED else f"{TENSOR}, ..."
    gives = gives or (TENSOR if function.gives == 1 else f"tuple[{each}]")
    arguments = ", ".join([first, *(f"{name}: {TENSOR}" for name in own)])
    yield from wrapped(f"def {function.name}({arguments}) -> {gives}:{comment(function.frame)}")
    yield from indented(typed(function.body, own, function.returned))


def _refusing(refused: Refused) -> Iterator[str]:
    where = one_line(f" at {refused.line}") if refused.line else ""
    yield f"def {refused.function}(*taken: torch.Tensor) -> torch.Tensor:"
    yield f"    # {one_line(refused.name)}{where}: {_shapes_in_words(refused)}"
    yield f"    raise NotImplementedError({python_string(f'{refused.kind}{where}: write it by hand')})"


def _shapes_in_words(refused: Refused) -> str:
    return f"takes {', '.join(map(str, refused.taken)) or 'nothing'}, gives {refused.given}"
