"""Writes `train.py`: the program that trains a port under DistributedDataParallel, with its launch manual."""

import re
import textwrap
from collections.abc import Iterator, Sequence

from parity.port.scripts.initial import Initial
from parity.port.scripts.sections import Input, Program, Section, inputs_of
from parity.port.scripts.updates import turns_line, updates_of
from parity.port.source.form import wrapped
from parity.port.training.rates import RATE_ARGUMENT
from parity.port.training.schedules import STEP_ARGUMENT
from parity.trace.escape import in_docstring, one_line, python_string

OUT = "training"  # the folder of checkpoints
MOST_CHARACTERS_OF_A_LINE = 120  # characters of a line


def source_of(program: Program, verdict: Sequence[str]) -> str:
    """Returns the text of the program.

    Args:
      program: what it is written from.
      verdict: lines that say what is proven of it.
    """
    blocks = [
        _batches(program),
        _initialize(program.initial),
        _load(),
        *(_optimizer_left(each) for each in program.sections if "optimizer" not in each.defined),
        *(_rate_left(each) for each in program.sections if each.training.fed),
        *updates_of(program),
        _main(),
        _start(),
    ]
    body = "\n\n\n".join("\n".join(block) for block in blocks)
    head = [f'"""{in_docstring(_manual(program, verdict))}"""', "", *_imports(body, program), ""]
    constants = ['MAPPING = Path(__file__).with_name("port.toml")', *turns_line(program)]
    return "\n".join([*head, *constants, "", body]) + "\n"


def _manual(program: Program, verdict: Sequence[str]) -> str:
    ranks = program.towers
    combined = "adds their gradients up" if program.combine == "sum" else "averages their gradients"
    rates = [f"{RATE_ARGUMENT}{each.suffix}" for each in program.sections if each.training.fed]
    left = " and ".join(f"`{each}`" for each in ("batches", *rates))
    feeds = "what the script feeds" if rates else "what fills the inputs"
    return "\n".join(
        [
            f"Trains the port of {one_line(program.script)} under DistributedDataParallel: one rank for each tower.",
            "",
            f"Written by `parity port`. The script has {ranks} towers and {combined}: its learning rate belongs to "
            f"{ranks} ranks.",
            *_in_turn(program),
            *verdict,
            "",
            f"First write {left}, below: {feeds} is in no trace. Then, on CPUs or on GPUs:",
            "",
            f"    python train.py --gpus {ranks} --steps 1000",
            f"    torchrun --standalone --nproc-per-node {ranks} train.py --backend nccl --steps 1000",
            "",
            f"Checkpoints lie in ./{OUT} (--out). Started again with the same --out it goes on from the newest one,",
            "also after a rank was killed; torchrun --max-restarts starts it by itself. --help lists what else there is.",
            "",
            "First values are drawn as the script draws them. To begin with a checkpoint of the script's own instead:",
            "",
            "    python -m tf_towers.checkpoint read model.ckpt-20 weights.safetensors    # where TensorFlow is",
            f"    python train.py --gpus {ranks} --weights weights.safetensors",
            "",
        ]
    )


def _in_turn(program: Program) -> list[str]:
    """What the manual says of several optimizers."""
    if program.turns is None:
        return []
    names = ", ".join(program.sections[place].turn for place in program.turns.order)
    lines = [f"It trains in turn {names}, each with its own loss and optimizer; --steps counts the updates of all."]
    if not program.turns.seen_twice:
        lines.append("The recorded steps hold this order but once: look in the script whether it goes on so.")
    return [line for each in lines for line in textwrap.wrap(each, MOST_CHARACTERS_OF_A_LINE)]


def _imports(body: str, program: Program) -> Iterator[str]:
    yield from ("import argparse", "from collections.abc import Callable, Iterable, Iterator")
    yield "from itertools import islice"
    yield from ("from pathlib import Path", "from typing import Any", "")
    yield from ("import torch", "import torch_ddp", "from parity.port.weights import carried_weights")
    yield "from torch import Tensor" + (", nn" if "nn." in body.replace("torch.nn.", "") else "")
    yield "from torch.nn.parallel import DistributedDataParallel"
    if "like_tf." in body:
        yield "from torch_ddp import like_tf"
    yield ""
    defined = [f"{name}{each.suffix}" for each in program.sections for name in ("loss", *each.defined)]
    # A program that is left to write in parts may call less than the port has.
    called = [name for name in ["Model", *defined] if re.search(rf"\b{name}\b", body)]
    yield from wrapped(f"from port import {', '.join(sorted(called, key=lambda name: (name.islower(), name)))}")


def _batches(program: Program) -> Iterator[str]:
    yield "# ======== YOURS TO WRITE: the data. Nothing else in this file has to be touched. ========"
    yield ""
    yield ""
    yield "def batches(rank: torch_ddp.Rank, device: torch.device, step: int) -> Iterator[dict[str, Tensor]]:"
    yield '    """Yields this rank\'s share of each batch, for as long as there are any.'
    yield ""
    yield "    Args:"
    yield "      rank: this process: `rank.rank` of `rank.world_size`. Each rank has other examples, as the towers had."
    yield "      device: where tensors go."
    yield "      step: number of updates that are made: where a resumed training goes on."
    yield ""
    yield "    Yields:"
    turn = "" if program.turns is None else ", for `TURNS[step % len(TURNS)]`"
    yield f"      Dict of input to tensor{turn}; as recorded, of one rank:"
    for section in program.sections:
        yield from ([f"        {section.turn}:"] if section.turn else [])
        for each in inputs_of(section.part):
            yield f"        {'  ' if section.turn else ''}{_in_words(each, program)}"
    yield '    """'
    yield '    raise NotImplementedError("batches: expected the data side of the script, got none. Write it in train.py.")'
    yield ""
    yield ""
    yield "# ======== Below: as the script has it. ========"


def _in_words(given: Input, program: Program) -> str:
    name = program.inputs.get(given.name, given.name)
    return f"{in_docstring(one_line(name))}: {given.dtype} [{', '.join(map(str, given.shape))}]"


def _initialize(initial: Initial) -> Iterator[str]:
    yield "def initialize(model: Model) -> None:"
    yield '    """Draws first values as the script does; what torch begins with in the same way is left alone."""'
    yield from (f"    {statement}" for statement in initial.statements)
    if initial.unknown:
        names = one_line(", ".join(initial.unknown))
        listed = textwrap.wrap(f"Not known from the recorded ops: {names}", MOST_CHARACTERS_OF_A_LINE - len("    # "))
        yield from (f"    # {each}" for each in listed)
        yield '    raise NotImplementedError("initialize: draw these by hand, or begin with --weights")'


def _load() -> Iterator[str]:
    yield "def load(model: Model, weights: Path) -> None:"
    yield '    """Loads the variables of a checkpoint of the script\'s own."""'
    yield "    torch_ddp.load_weights(model, carried_weights(weights, MAPPING))"


def _optimizer_left(section: Section) -> Iterator[str]:
    kind = str(section.part.facts["optimizer"].get("name", ""))
    left = python_string(f"optimizer: {kind} of the script was not written. Write it here.")
    yield f"def optimizer{section.suffix}(model: Model) -> torch.optim.Optimizer:"
    yield '    """Returns the optimizer of the script."""'
    yield f"    raise NotImplementedError({left})"


def _rate_left(section: Section) -> Iterator[str]:
    fed, called = in_docstring(one_line(section.training.fed)), f"{RATE_ARGUMENT}{section.suffix}"
    updates = f"`{STEP_ARGUMENT}` updates of its own" if section.turn else f"`{STEP_ARGUMENT}` updates"
    yield f"def {called}({STEP_ARGUMENT}: int) -> float:"
    yield f'    """Returns the learning rate after {updates}, which the script feeds: {fed}."""'
    yield f'    raise NotImplementedError("{called}: expected what the script feeds, got none. Write it here.")'


def _main() -> Iterator[str]:
    yield "def main(rank: torch_ddp.Rank, options: argparse.Namespace) -> None:"
    yield '    """Trains on one rank."""'
    yield "    device = torch_ddp.device_of(rank, options.backend)"
    yield "    torch_ddp.seed_all(rank.rank)  # each rank draws its own; DDP sends rank 0's first weights to all"
    yield "    model = Model()"
    yield "    if options.weights:"
    yield "        load(model, options.weights)"
    yield "    else:"
    yield "        initialize(model)"
    yield "    parts = parts_of(model.to(device))"
    yield "    checkpoints = torch_ddp.Checkpoints(options.out, rank, parts, device)"
    yield "    begun = checkpoints.resume() or torch_ddp.Progress(step=0, epoch=0, offset=0)"
    yield ""
    yield "    def save(step: int) -> None:"
    yield "        if step % options.every == 0 or step == options.steps:"
    yield "            checkpoints.save(torch_ddp.Progress(step, epoch=0, offset=step))"
    yield ""
    yield "    left = islice(batches(rank, device, begun.step), max(0, options.steps - begun.step))"
    yield "    step = train(left, parts, begun.step, save)"
    yield "    if rank.rank == 0:"
    yield '        print(f"{rank.world_size} ranks, begun at {begun.step}, {step} updates")'


def _start() -> Iterator[str]:
    yield 'if __name__ == "__main__":'
    yield "    parser = argparse.ArgumentParser()"
    yield '    parser.add_argument("--steps", type=int, default=1000, help="updates in all")'
    yield f'    parser.add_argument("--out", type=Path, default=Path("{OUT}"), help="folder of checkpoints")'
    yield '    parser.add_argument("--every", type=int, default=100, help="updates from one checkpoint to the next")'
    yield '    parser.add_argument("--weights", type=Path, help="variables of a checkpoint of the script\'s own")'
    yield "    torch_ddp.add_launch_options(parser)"
    yield "    options = parser.parse_args()"
    yield "    torch_ddp.launch(main, options, options)"
