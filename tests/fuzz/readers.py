"""Who reads what may come from a stranger: each reader with its seeds, how they are mutated, and what it does with them."""

import ast
import contextlib
import io
import json
import os
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from support.made_sides import CASE, Habits, MadeProcess, made_case, made_sides

from parity.case import load_case, load_mapping
from parity.cli import compare, map, port, replay, show
from parity.experiment import run_case
from parity.experiment.replay.program import training_of
from parity.experiment.replay.script import launched_part, parts_of
from parity.experiment.replay.session import Port
from parity.experiment.replay.session import replay as replay_on
from parity.experiment.sides.densify import DenseTrace
from parity.experiment.sides.golden_side import golden_steps
from parity.mapping import parse_transform
from parity.trace import Forward, Trace, decode, read_graph, state_after
from parity.trace.bounded import parse_json
from parity.worker.failures import SideFailed
from parity.worker.process import SideProcess
from parity.worker.protocol import Channel

from . import earlier, pages, seeds
from .checkpoints import mutated_checkpoint, mutated_shards
from .demands import BrokenDemand
from .file_mutations import mutated_file, mutated_files
from .inputs import ALONE, Files, Place
from .kept import compare_kept, kept, mutated_kept
from .mutations import json_text, mutated_bytes, mutated_json, mutated_lines, toml_text
from .sources import mutated_source, read_source_file, sources
from .verbs import run_verb

Mutate = Callable[[Random, Sequence[Files]], Files]


@dataclass(frozen=True)
class Reader:
    """One reader.

    Attributes:
      name: as --only has it.
      seeds: makes right inputs, in a folder that it may use.
      mutate: makes an input of them.
      read: reads an input; raises what the reader raises.
      share: of the time; readers that take milliseconds have a small one.
    """

    name: str
    seeds: Callable[[Path], list[Files]]
    mutate: Mutate
    read: Callable[[Place, Files], None]
    share: float = 1.0

    def input(self, seed: int, number: int, known: Sequence[Files]) -> Files:
        """Returns the input of a number: the same for ever, of one seed."""
        return self.mutate(Random(f"{seed} {self.name} {number}"), known)


# ---- how inputs are made


def folders_of(*makers: Callable[[Path], Files]) -> Callable[[Path], list[Files]]:
    """Returns seeds that are folders, each as it was written and, for a stranger's hand, without checksums."""

    def made(folder: Path) -> list[Files]:
        found = [make(folder / str(number)) for number, make in enumerate(makers)]
        return [*map_all(seeds.unsigned, found), *found]

    return made


def map_all(change: Callable[[Files], Files], found: list[Files]) -> list[Files]:
    """Returns each of them changed."""
    return [change(each) for each in found]


def in_files(*suffixes: str) -> Mutate:
    """Returns what mutates the files of a folder whose names end so; all of them by default."""

    def mutate(draw: Random, known: Sequence[Files]) -> Files:
        half = len(known) // 2
        # Mostly without checksums, which would end at the first look.
        place = draw.randrange(half) if half and draw.random() < 0.95 else draw.randrange(len(known))
        return mutated_files(draw, known[place], known[:half] or known, suffixes or ("",))

    return mutate


def alone(*data: bytes) -> Callable[[Path], list[Files]]:
    """Returns seeds that are one file each, which need no folder."""
    return lambda folder: [{ALONE: each} for each in data]


def _bytes_of(files: Files) -> bytes:
    data = files[ALONE]
    assert isinstance(data, bytes)
    return data


def _in_one(mutate: Callable[[Random, bytes, Sequence[bytes]], bytes]) -> Mutate:
    def mutated(draw: Random, known: Sequence[Files]) -> Files:
        others = [_bytes_of(each) for each in known]
        return {ALONE: mutate(draw, draw.choice(others), others)}

    return mutated


# ---- files of a trace


def _tensor_seeds(folder: Path) -> list[Files]:
    files = seeds.unsigned(seeds.trace(folder))
    return [{ALONE: entry} for name, entry in files.items() if name.endswith(".safetensors")]


def _read_tensors(place: Place, files: Files) -> None:
    for value in decode(_bytes_of(files)).values():
        value.sum()


def _json_seeds(folder: Path) -> list[Files]:
    found = [seeds.unsigned(seeds.trace(folder / "a")), seeds.unsigned(seeds.script(folder / "b"))]
    return [{ALONE: entry} for files in found for name, entry in files.items() if name.endswith(".json")]


def _read_json(place: Place, files: Files) -> None:
    # Who calls it says which file it is.
    with contextlib.suppress(ValueError):
        parse_json(_bytes_of(files))


def _read_trace(place: Place, files: Files) -> None:
    directory = place.lay(files)
    trace = Trace(directory, whole=False)
    for file in (trace.init(), *(trace.step(number) for number in trace.step_numbers[:3])):
        file.keys()
        for name in file.names():
            file.read(name)
    for number in trace.step_numbers[:2]:
        dense = DenseTrace(directory, whole=False).step(number)
        for name in dense.names():
            dense.read(name)
    state_after(trace)
    Trace(directory)


def _read_graph(place: Place, files: Files) -> None:
    graph = read_graph(place.lay(files))
    assert isinstance(graph.lines, dict) and isinstance(graph.nodes, list)


def _read_forward(place: Place, files: Files) -> None:
    passed = Forward(place.lay(files))
    for number, op in enumerate(passed.ops[:50]):
        passed.value(number)
        assert op.line is None or op.line.shown.isprintable()
        for operand in range(len(op.operands[:50])):
            passed.operand(number, operand)


# ---- cases, mappings and transforms


def _case_seeds(folder: Path) -> list[Files]:
    return [seeds.case(folder / "a"), seeds.whole_case(folder / "b"), seeds.mapping(folder / "c")]


def _mutated_case(draw: Random, known: Sequence[Files]) -> Files:
    files = dict(draw.choice(known))
    [name] = [each for each in files if each.endswith(".toml")]
    texts = [entry for each in known for path, entry in each.items() if path.endswith(".toml")]
    text, chance = files.pop(name), draw.random()
    assert isinstance(text, bytes)
    if chance < 0.5:
        changed = mutated_json(draw, json.loads(seeds.parsed(text)))
        text = toml_text(changed) if isinstance(changed, dict) else b""
    elif chance < 0.8:
        text = mutated_lines(draw, text, [each for each in texts if isinstance(each, bytes)])
    else:
        text = mutated_bytes(draw, text, [each for each in texts if isinstance(each, bytes)])
    if chance > 0.97:
        return mutated_files(draw, {"case.toml": text, **files})
    return {"case.toml": text, **files}


def _read_case(place: Place, files: Files) -> None:
    load_case(place.lay(files))


def _read_mapping(place: Place, files: Files) -> None:
    load_mapping(place.lay(files))


TRANSFORMS = (
    b"transpose",
    b"reshape(8, 8) | transpose",
    b"flatten_hwc(7, 7, 32)",
    b"rows(0, 2)",
    b"sum(3)",
    b"lstm_gates",
)


def _mutated_transform(draw: Random, text: bytes, others: Sequence[bytes]) -> bytes:
    chance = draw.random()
    if chance < 0.3:
        number = draw.choice(
            (b"0", b"-1", b"1e9", b"9" * 30, b"9" * 5000, b"-0.5", b"1e999", b"1_0", b"0x7", b"True", b"a", b"*[1]")
        )
        return text.replace(b"8", number).replace(b"7", number).replace(b"2", number)
    if chance < 0.4:
        return b" | ".join([text] * draw.choice((2, 3, 200, 5000)))
    if chance < 0.5:
        return text + b"(" * draw.choice((1, 50, 250, 100_000))
    return mutated_bytes(draw, text, others)


def _read_transform(place: Place, files: Files) -> None:
    transform = parse_transform(_bytes_of(files).decode("utf-8", "surrogateescape"))
    for shape in ((2, 3), (8, 8), (64,), (1, 1, 2, 4), ()):
        try:
            transform.shapes(shape)
        except ValueError as error:
            if type(error).__module__.split(".")[0] != "parity":
                raise


# ---- the lines of the workers' protocol

REPLIES = (
    b'{"progress": [1, 20], "request": "run"}\n{"result": {"protocol": 2}}\n',
    b'{"error": {"type": "ValueError", "message": "no such file", "traceback": "Traceback\\n  File \\"a\\", line 3, in f", '
    b'"plain": false, "rank": 1, "died": false}}\n',
    b'{"error": {"type": "SideError", "message": "case: expected a, got b.", "traceback": "", "plain": true}}\n',
)


def _mutated_reply(draw: Random, line: bytes, others: Sequence[bytes]) -> bytes:
    if draw.random() < 0.3:
        return mutated_bytes(draw, line, others)
    last = json.loads(line.splitlines()[-1])
    return b"".join(each + b"\n" for each in line.splitlines()[:-1]) + json_text(mutated_json(draw, last)) + b"\n"


class Answered(SideProcess):
    """A side that has answered so, and ended: no process is started."""

    def __init__(self, answered: bytes) -> None:
        self.side, self._log = "torch", Path(os.devnull)
        self._channel = Channel(io.BytesIO(answered), io.BytesIO())

    def reply(self) -> Any:
        """Returns the result; raises what its caller would see."""
        return self._reply("run", lambda done, total: None)

    def _wait_for_reply(self, request: str) -> None:
        pass

    def _dead(self, request: str) -> SideFailed:
        return SideFailed(self.side, "expected an answer, but its process ended. Run again.")


def _read_reply(place: Place, files: Files) -> None:
    Answered(_bytes_of(files)).reply()


# ---- verbs of the command line


def _show(place: Place, files: Files) -> None:
    run_verb(show, place.lay(files))


def _two_traces(*more: Callable[[Path], Files]) -> Callable[[Path], list[Files]]:
    """Returns seeds of two traces in one folder, and what else lies beside them."""

    def made(folder: Path) -> list[Files]:
        dense, other = seeds.without_rows(seeds.trace), seeds.without_rows(seeds.port_trace)
        pairs = [dense(folder / "a"), dense(folder / "b")], [dense(folder / "a"), other(folder / "c")]
        found = []
        for pair in pairs:
            files = {f"{side}/{name}": entry for side, of in zip("ab", pair, strict=True) for name, entry in of.items()}
            for make in more:
                files.update(make(folder / "more"))
            found.append(files)
        # Each also a bit off, so that causes are looked for.
        found.append({**found[0], "b/step-000000.safetensors": found[0]["b/step-000001.safetensors"]})
        return [*map_all(seeds.unsigned, found), *found]

    return made


def _compare(place: Place, files: Files) -> None:
    folder = place.lay(files)
    words = (
        ["--map", folder / "mapping.toml"]
        if "mapping.toml" in files and "dense.weight" in str(files.get("b/trace.json"))
        else []
    )
    run_verb(compare, folder / "a", folder / "b", *words)


def _map(place: Place, files: Files) -> None:
    folder = place.lay(files)
    if "weights.safetensors" in files:
        shutil.rmtree(folder.parent / "written", ignore_errors=True)
        words = [
            "--write",
            folder.parent / "written",
            "--weights",
            folder / "weights.safetensors",
            "--map",
            folder / "mapping.toml",
        ]
        run_verb(map, folder / "a", folder / "b", *words)
    else:
        run_verb(map, folder / "a", folder / "b")


def _with_weights(folder: Path) -> list[Files]:
    return [
        each
        for each in _two_traces(seeds.mapping, seeds.weights)(folder)
        if "dense.weight" in str(each["b/trace.json"])
    ]


class FailingProcess(MadeProcess):
    """A made side that fails as a process does: whatever it raises is its own failure, in words."""

    def ask(self, request: str, on_progress: Any = None, **arguments: Any) -> "Future[Any]":
        """Answers at once."""
        try:
            answer: Future[Any] = super().ask(request, on_progress, **arguments)
        except Exception as error:
            answer = Future()
            answer.set_exception(SideFailed(self.side, f"{request}: {type(error).__name__}"))
        return answer


def _golden(place: Place, files: Files) -> None:
    folder = place.lay(files)
    golden_steps(folder)
    case = made_case(place.folder.parent / "case", CASE.replace("steps = 4", "steps = 2"))
    out = place.folder.parent / "made"
    shutil.rmtree(out, ignore_errors=True)
    sides = made_sides(out)
    sides.tf = sides.data = None
    sides.torch = FailingProcess("torch", Habits(backwards=True))
    run_case(case, sides, ("function", "float32"), out, golden=folder)


def _replay(place: Place, files: Files) -> None:
    folder, out = place.lay(files), place.folder.parent / "replayed"
    shutil.rmtree(out, ignore_errors=True)
    side = FailingProcess("torch", Habits(backwards=True))
    replay_on(folder, Port("port:Model", {"": "port:loss"}, {}, ["here"], 1.0), None, out, side=side)


def _skeleton(place: Place, files: Files) -> None:
    folder, out = place.lay(files), place.folder.parent / "skeleton"
    shutil.rmtree(out, ignore_errors=True)
    run_verb(replay, folder, "--init", out)
    _require_harmless(out)
    load_mapping(out / "port.toml")


def _port(place: Place, files: Files) -> None:
    folder, out = place.lay(files), place.folder.parent / "port"
    shutil.rmtree(out, ignore_errors=True)
    run_verb(port, folder, "--out", out, "--no-prove", "--quiet")
    _require_harmless(out)
    load_mapping(out / "port.toml")


def _require_harmless(out: Path) -> None:
    """Refuses a written program that no Python reads, or that holds what a name or a text of the trace says."""
    for path in sorted(out.glob("*.py")):
        source = path.read_text(encoding="utf-8")
        try:
            tree = ast.parse(source)
        except (SyntaxError, ValueError) as error:
            raise BrokenDemand(f"{path.name} is no Python: {type(error).__name__}\n{error}\n{source[:3000]}") from None
        names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        if "hostile" in names:
            raise BrokenDemand(f"{path.name} runs what a text of the trace says\n{source[:3000]}")


def _launched(place: Place, files: Files) -> None:
    part = launched_part(Trace(place.lay(files), whole=False))
    training_of(part)
    for number in part.steps[:2]:
        part.batch(number)
    for each in parts_of(part.trace, any_combination=True):
        each.variables, each.towers, each.begins, each.racing, each.by_hand  # noqa: B018  each reads what a trace says


# ---- checkpoints


def _mutated_checkpoint(draw: Random, known: Sequence[Files]) -> Files:
    return mutated_checkpoint(draw, draw.choice(known))


def _checkpoint(place: Place, files: Files) -> None:
    from torch_ddp.checkpoint.__main__ import tensors_of

    folder = place.lay(files)
    for path in (folder, *sorted(folder.glob("*.pt"))):
        try:
            tensors_of(path, "model")
        except ValueError as error:
            if type(error).__module__.split(".")[0] != "torch_ddp":
                raise


def _resume(place: Place, files: Files) -> None:
    import torch

    from torch_ddp import Checkpoints, Rank

    model = torch.nn.Linear(2, 2)
    parts = {"model": model, "optimizer": torch.optim.Adam(model.parameters())}
    Checkpoints(place.lay(files), Rank(0, 0, 1), parts, settings={"seed": 1}).resume()


# Of the time: those that take microseconds a lot, those that take tens of milliseconds a little.
SHARES = {
    "tensors": 3,
    "json": 2,
    "transform": 2,
    "reply": 2,
    "show": 0.3,
    "golden": 0.5,
    "replay": 0.5,
    "port": 0.5,
    "skeleton": 0.3,
    "launched": 0.5,
    "checkpoint": 0.3,
    "resume": 0.3,
    "compare": 0.5,
    "map": 0.5,
    "weights": 0.5,
    "like": 0.5,
    "towers": 0.5,
    "since": 0.5,
    "baseline": 0.5,
    "ported": 0.5,
    "shards": 0.3,
}
_READERS: tuple[Reader, ...] = (
    Reader(
        "tensors",
        _tensor_seeds,
        _in_one(lambda draw, data, others: mutated_file(draw, "x.safetensors", data, others)),
        _read_tensors,
    ),
    Reader(
        "json", _json_seeds, _in_one(lambda draw, data, others: mutated_file(draw, "x.json", data, others)), _read_json
    ),
    Reader("transform", alone(*TRANSFORMS), _in_one(_mutated_transform), _read_transform),
    Reader("reply", alone(*REPLIES), _in_one(_mutated_reply), _read_reply),
    Reader("trace", folders_of(seeds.trace, seeds.port_trace), in_files(), _read_trace),
    Reader("graph", folders_of(seeds.script), in_files("graph.json"), _read_graph),
    Reader("forward", folders_of(seeds.forward), in_files(), _read_forward),
    Reader("case", _case_seeds, _mutated_case, _read_case),
    Reader("mapping", _case_seeds, _mutated_case, _read_mapping),
    Reader("show", folders_of(seeds.trace), in_files(), _show),
    Reader("compare", _two_traces(seeds.mapping), in_files(), _compare),
    Reader("map", _two_traces(), in_files(), _map),
    Reader("like", kept, mutated_kept, compare_kept),
    Reader(
        "towers", folders_of(pages.two_towers, seeds.script), in_files("trace.json", "graph.json"), pages.draw_towers
    ),
    Reader("since", earlier.results, earlier.mutated_earlier, earlier.compare_since),
    Reader("baseline", earlier.scans, earlier.mutated_earlier, earlier.scan_since),
    Reader("ported", earlier.ports, earlier.mutated_port, earlier.port_again),
    Reader("weights", _with_weights, in_files("weights.safetensors", "trace.json"), _map),
    Reader("golden", folders_of(seeds.golden), in_files(), _golden),
    Reader("replay", folders_of(seeds.recording), in_files(), _replay),
    Reader(
        "skeleton",
        folders_of(seeds.script, seeds.recording),
        in_files("trace.json", "graph.json", "0.safetensors"),
        _skeleton,
    ),
    Reader("port", folders_of(seeds.script), in_files(), _port),
    Reader(
        "scan",
        alone(*sources()),
        _in_one(mutated_source),
        lambda place, files: read_source_file(place.folder, _bytes_of(files)),
    ),
    Reader("launched", folders_of(seeds.recording, seeds.trace), in_files(), _launched),
    Reader("checkpoint", folders_of(seeds.checkpoint), _mutated_checkpoint, _checkpoint),
    Reader("resume", folders_of(seeds.checkpoint), _mutated_checkpoint, _resume),
    Reader("shards", lambda folder: [seeds.shards(folder)], mutated_shards, _resume),
)

READERS = tuple(replace(reader, share=SHARES.get(reader.name, 1.0)) for reader in _READERS)
