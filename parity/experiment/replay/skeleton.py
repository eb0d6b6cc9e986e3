"""Writes the skeleton of a port from a recorded trace: everything that the trace knows, and a forward left to fill in."""

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from parity.experiment.replay.script import DRAW, Part, ReplayError, parts_of
from parity.mapping.variable_map import table
from parity.trace import MissingError, TensorKey, Trace, parse_key, read_graph, trace_name
from parity.trace.escape import identifier, in_docstring, is_argument, one_line

PORT_FILE, MAPPING_OF_PORT = "port.py", "port.toml"
# Some six lines of the comment in `forward`: a reader looks the rest up in the graph.
MOST_OPS = 60


def write_skeleton(recorded: Path, out: Path) -> list[Path]:
    """Leaves ``port.py`` and ``port.toml`` in a folder.

    Every weight is a parameter under a name that follows the script's, in the script's own shape and layout, so that
    the mapping is complete as it stands; which op reads it stands beside it. The forward raises until it is filled in.

    Args:
      recorded: a trace as `parity record` leaves it.
      out: the folder; made if missing.

    Returns:
      The files written.

    Raises:
      ReplayError: one of the files is there already, or the trace cannot be replayed.
    """
    parts = parts_of(Trace(recorded, whole=False))
    files = [out / PORT_FILE, out / MAPPING_OF_PORT]
    # Both are looked at before either is written: a port that somebody filled in is never overwritten.
    for file in files:
        if file.exists():
            raise ReplayError(f"replay: expected no {file.name} in {out}, got one. Name another folder with --init.")
    out.mkdir(parents=True, exist_ok=True)
    files[0].write_text(skeleton(parts, recorded), encoding="utf-8")
    # Identity throughout: parameters have the script's own layouts until somebody chooses torch's.
    names = _names(parts[0].trace)
    files[1].write_text(table((name, [to], "identity") for name, to in names.items()), encoding="utf-8")
    return files


def skeleton(parts: list[Part], recorded: Path) -> str:
    """Returns the source of a port without its forward."""
    trace = parts[0].trace
    script = one_line(Path(str(trace.facts.get("script", "a recorded script"))).name)
    lines = [f'"""A port of {in_docstring(script)}: fill in `Model.forward`, then prove it.']
    lines += ["", in_docstring(one_line(_command(parts, recorded))), '"""', ""]  # one line, to be pasted
    lines += ["import torch", "from torch import nn", "", ""]
    lines += _model(trace, parts)
    for part in parts:
        lines += ["", "", *_loss(part)]
        # What is clipped or written by hand has no twin that the tool could make: the port has to bring it.
        if part.facts.get("clipped") or part.by_hand:
            lines += ["", "", *_optimizer(part)]
    return "\n".join(lines) + "\n"


def _command(parts: list[Part], recorded: Path) -> str:
    words = ["parity replay", str(recorded), "--torch port:Model", "--map port.toml"]
    words += [f"--loss {part.name}{'=' if part.name else ''}port:{_function('loss', part)}" for part in parts]
    for part in parts:
        if part.facts.get("clipped") or part.by_hand:
            words += [f"--optimizer {part.name}{'=' if part.name else ''}port:{_function('optimizer', part)}"]
    return " ".join(words)


def _model(trace: Trace, parts: list[Part]) -> list[str]:
    lines = ["class Model(nn.Module):", "    def __init__(self):", "        super().__init__()"]
    for name, attribute in _names(trace).items():
        entry = trace.variables[name]
        shape = ", ".join(map(str, entry["shape"]))
        use = one_line(str(entry.get("use") or "nothing in the first tower"))
        made = f"torch.zeros({shape or '()'})"
        if entry["kind"] == "weight":
            lines += [f"        self.{attribute} = nn.Parameter({made})  # {one_line(name)}: read by {use}"]
        else:
            lines += [
                f'        self.register_buffer("{attribute}", {made})  # {one_line(name)}: a moving statistic, read by {use}'
            ]
    lines += ["", "    def forward(self, *inputs):"]
    lines += [f"        # {one_line(line)}" for line in _told(trace, parts)]
    lines += ['        raise NotImplementedError("fill in the forward of the port: what the tower computes")']
    return lines


def _told(trace: Trace, parts: list[Part]) -> Iterator[str]:
    yield "Parameters have TensorFlow's layouts: kernels are [in, out] and HWIO, images NHWC. Give a layer its own layout"
    yield "(nn.Linear, nn.Conv2d) by naming its parameters in port.toml without the transform."
    for draw, shape, looped in _draws(parts[0]):
        times = " (in a loop: one iteration after the other, or all of them at once)" if looped else ""
        yield f"Draw {draw} of the script, of shape {shape} in each tower{times}: draw here too, e.g. nn.functional.dropout."
    operations = _ops(trace, parts[0])
    if operations:
        yield "The first tower's ops between inputs and loss, in the script's order:"
        yield from textwrap.wrap(", ".join(operations), 104)


def _loss(part: Part) -> list[str]:
    first = part.trace.step(part.steps[0])
    names = [name for name in _inputs(part) if not name.startswith(DRAW)]
    losses = ", ".join(name for tower in part.facts.get("losses", []) for name in tower) or "not known"
    title = f'    """The loss of one tower, a scalar. In the script: {in_docstring(one_line(losses))}."""'
    lines = [f"def {_function('loss', part)}(model, {', '.join(names)}):", title]
    for name in names:
        key = trace_name("feed", name, tower=0, section=part.name)
        lines += [f"    # {name}: {first.dtype(key)} {list(first.shape(key))} in each tower"]
    value = trace_name("loss", tower=0, section=part.name)
    if value in first:
        lines += [f"    # In the first recorded step tower 0 has {float(first.read(value).sum()):.9g}."]
    combine = one_line(str(part.facts["combine"]))
    lines += [f"    # The towers' gradients become their {combine}; the replay does the same over the ranks."]
    return [*lines, f"    return model({', '.join(names)})"]


def _optimizer(part: Part) -> list[str]:
    described = part.facts["optimizer"]
    settings = ", ".join(f"{key}={value}" for key, value in described.items() if key != "name") or "not known"
    lines = [f"def {_function('optimizer', part)}(model):"]
    lines += [f"    # In the script: {one_line(str(described['name']))}; {one_line(settings)}."]
    if part.facts.get("clipped"):
        lines += ["    # The script clips the combined gradients: do so in optimizer.register_step_pre_hook."]
    return [*lines, '    raise NotImplementedError("make the optimizer of the port")']


def _function(what: str, part: Part) -> str:
    return f"{identifier(part.name)}_{what}" if part.name else what


def _inputs(part: Part) -> list[str]:
    tensors = part.tensors(part.steps[0], part.trace.step(part.steps[0]))
    found = [key.name for key in map(parse_key, tensors) if _is_fed_to_the_first(key)]
    for name in found:
        if not is_argument(name):
            raise ReplayError(
                f"replay: expected an input whose name a function can have, got {name!r}. Rename it in [mapping.feed]."
            )
    return found


def _draws(part: Part) -> list[tuple[int, list[int], bool]]:
    tensors = part.tensors(part.steps[0], part.trace.step(part.steps[0]))
    named = ((parse_key(text), value) for text, value in tensors.items())
    found = [
        (int(key.name[len(DRAW) :].partition("_")[0]), list(value.shape), "_in_loop_" in key.name)
        for key, value in named
        if _is_fed_to_the_first(key) and key.name.startswith(DRAW)
    ]
    return sorted(found)


def _is_fed_to_the_first(key: TensorKey) -> bool:
    return (key.quantity, key.tower) == ("feed", "0")


def _ops(trace: Trace, part: Part) -> list[str]:
    """The types of the ops that the first tower's loss needs, consecutive ones of a kind once."""
    try:
        graph = read_graph(trace.directory)
    except MissingError:
        return []
    key = trace_name("loss", tower=0, section=part.name)
    # The session run that computed the loss says which tensors were fed.
    run: dict[str, Any] | None = next((run for run in graph.runs if key in run["values"]), None)
    if run is None:
        return []
    nodes = {node["name"]: node for node in graph.nodes}
    fed = {
        value["tensor"].partition(":")[0]
        for text, value in run["values"].items()
        if _is_fed_to_the_first(parse_key(text))
    }
    # Backwards from the loss up to what is fed. Invariant: `seen` holds what needs no further look.
    pending, seen = [run["values"][key]["tensor"].partition(":")[0]], set(fed)
    while pending:
        name = pending.pop()
        if name not in seen and name in nodes:
            seen.add(name)
            # "^name" is a control input, "name:1" the second output of an op.
            pending += [each.lstrip("^").partition(":")[0] for each in nodes[name].get("input", [])]
    # They compute nothing that a port has to write.
    dull = (
        "Const",
        "Identity",
        "VariableV2",
        "Variable",
        "VarHandleOp",
        "ReadVariableOp",
        "Shape",
        "StridedSlice",
        "Pack",
    )
    kinds = [node["op"] for node in graph.nodes if node["name"] in seen - fed and node["op"] not in dull]
    # Ten additions in a row tell no more than one.
    shortened = [kind for place, kind in enumerate(kinds) if place == 0 or kinds[place - 1] != kind]
    return shortened[:MOST_OPS] + (["…"] if len(shortened) > MOST_OPS else [])


def _names(trace: Trace) -> dict[str, str]:
    taken: dict[str, str] = {}
    for name in trace.variables:
        attribute = identifier(name)
        # Names that differ in a slash or a dot alone are the same identifier.
        while attribute in taken.values():
            attribute += "_"
        taken[name] = attribute
    return taken
