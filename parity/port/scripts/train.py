"""Writes `train.py`: the program that trains a port under DistributedDataParallel, with its launch manual."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from parity.experiment.replay.script import DRAW, Part
from parity.port.scripts.initial import Initial
from parity.port.training.optimizer import Training
from parity.port.training.rates import RATE_ARGUMENT
from parity.port.training.schedules import STEP_ARGUMENT
from parity.trace import parse_key
from parity.trace.escape import in_docstring, one_line, python_string

OUT = "training"  # the folder of checkpoints
MOST_CHARACTERS_OF_A_LINE = 120  # characters of a line
REDUCTION_OF = {
    "mean": "",
    "sum": 'torch_ddp.GradientReduction(ddp, "sum")  # the script adds its towers\' gradients up; DDP alone averages',
}


class Program(NamedTuple):
    """What a training program is written from.

    Fields:
      script: name of the recorded script.
      part: what was recorded.
      initial: the first values.
      defined: which of "optimizer", "schedule" and "averages" the port has.
      statistics: whether the model has moving statistics.
      training: what stands between gradients and weights.
    """

    script: str
    part: Part
    initial: Initial
    defined: frozenset[str]
    statistics: bool
    training: Training


class Input(NamedTuple):
    """What a rank is fed.

    Fields:
      name: of the input.
      dtype: of it.
      shape: on one rank, with "batch" for a length that changes from step to step.
    """

    name: str
    dtype: str
    shape: tuple[object, ...]


def source_of(program: Program, verdict: Sequence[str]) -> str:
    """Returns the text of the program.

    Args:
      program: what it is written from.
      verdict: lines that say what is proven of it.
    """
    blocks = [
        _batches(inputs_of(program.part)),
        _initialize(program.initial),
        _load(),
        *([] if "optimizer" in program.defined else [_optimizer_left(program)]),
        *([_rate_left(program)] if program.training.fed else []),
        _parts_of(program),
        _train(program),
        _main(),
        _start(),
    ]
    body = "\n\n\n".join("\n".join(block) for block in blocks)
    head = [f'"""{in_docstring(_manual(program, verdict))}"""', "", *_imports(body, program), "", ""]
    if "MAPPING" in body:
        head[-1:] = ['MAPPING = Path(__file__).with_name("port.toml")', "", ""]
    return "\n".join(head) + body + "\n"


def inputs_of(part: Part) -> list[Input]:
    """Returns what each rank is fed, as it was recorded."""
    found: dict[str, Input] = {}
    for number in part.steps:
        file = part.trace.step(number)
        for text in file.names("feed"):
            own = part.own(text)
            key = parse_key(own) if own else None
            if key is None or key.tower != "0" or DRAW in key.name or not file.shape(text):
                continue
            shape: tuple[object, ...] = tuple(file.shape(text))
            known = found.get(key.name)
            if known is not None and len(known.shape) == len(shape):
                shape = tuple(one if one == other else "batch" for one, other in zip(known.shape, shape, strict=True))
            found[key.name] = Input(key.name, file.dtype(text), shape)
    return list(found.values())


def _manual(program: Program, verdict: Sequence[str]) -> str:
    ranks = program.part.towers
    combined = "adds their gradients up" if program.part.facts["combine"] == "sum" else "averages their gradients"
    return "\n".join(
        [
            f"Trains the port of {one_line(program.script)} under DistributedDataParallel: one rank for each tower.",
            "",
            f"Written by `parity port`. The script has {ranks} towers and {combined}: its learning rate belongs to "
            f"{ranks} ranks.",
            *verdict,
            "",
            "First write `batches`, below: what fills the inputs is in no trace. Then, on CPUs or on GPUs:",
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


def _imports(body: str, program: Program) -> Iterator[str]:
    yield from ("import argparse", "from collections.abc import Callable, Iterable, Iterator")
    yield "from itertools import islice"
    yield from ("from pathlib import Path", "from typing import Any", "")
    yield "import torch"
    names = ["Model", "loss", *sorted(program.defined)]
    yield f"from port import {', '.join(sorted(names, key=lambda name: (name.islower(), name)))}"
    yield "from torch import Tensor" + (", nn" if "nn." in body.replace("torch.nn.", "") else "")
    yield from ("from torch.nn.parallel import DistributedDataParallel", "")
    yield "import torch_ddp"
    yield "from parity.port.weights import carried_weights"
    if "like_tf." in body:
        yield "from torch_ddp import like_tf"


def _batches(inputs: Sequence[Input]) -> Iterator[str]:
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
    yield "      Dict of input to tensor; as recorded, of one rank:"
    for each in inputs:
        shape = ", ".join(map(str, each.shape))
        yield f"        {in_docstring(one_line(each.name))}: {each.dtype} [{shape}]"
    yield '    """'
    yield '    raise NotImplementedError("batches: expected the data side of the script, got none. Write it in train.py.")'
    yield ""
    yield ""
    yield "# ======== Below: as the script has it. ========"


def _initialize(initial: Initial) -> Iterator[str]:
    yield "def initialize(model: Model) -> None:"
    yield '    """Draws first values as the script does; what torch begins with in the same way is left alone."""'
    yield from (f"    {statement}" for statement in initial.statements)
    if initial.unknown:
        names = ", ".join(initial.unknown)
        yield f"    # Not known from the recorded ops: {one_line(names)}"
        yield '    raise NotImplementedError("initialize: draw these by hand, or begin with --weights")'


def _load() -> Iterator[str]:
    yield "def load(model: Model, weights: Path) -> None:"
    yield '    """Loads the variables of a checkpoint of the script\'s own."""'
    yield "    torch_ddp.load_weights(model, carried_weights(weights, MAPPING))"


def _optimizer_left(program: Program) -> Iterator[str]:
    kind = str(program.part.facts["optimizer"].get("name", ""))
    left = python_string(f"optimizer: {kind} of the script was not written. Write it here.")
    yield "def optimizer(model: Model) -> torch.optim.Optimizer:"
    yield '    """Returns the optimizer of the script."""'
    yield f"    raise NotImplementedError({left})"


def _rate_left(program: Program) -> Iterator[str]:
    fed = in_docstring(one_line(program.training.fed))
    yield f"def {RATE_ARGUMENT}({STEP_ARGUMENT}: int) -> float:"
    yield f'    """Returns the learning rate after `{STEP_ARGUMENT}` updates, which the script feeds: {fed}."""'
    yield f'    raise NotImplementedError("{RATE_ARGUMENT}: expected what the script feeds, got none. Write it here.")'


def _parts_of(program: Program) -> Iterator[str]:
    yield "def parts_of(model: Model) -> dict[str, Any]:"
    schedule = " and its schedule" if "schedule" in program.defined or program.training.fed else ""
    yield f'    """Returns what trains, and what checkpoints hold: the model under DDP, its optimizer{schedule}."""'
    kept = "  # rank 0's statistics go to all: the script moves them from its first tower" if program.statistics else ""
    yield f"    ddp = DistributedDataParallel(model){kept}"
    reduced = REDUCTION_OF[program.part.facts["combine"]]
    if reduced:
        yield f"    {reduced}"
    averages = ', "averages": averages(model)' if "averages" in program.defined else ""
    schedule = RATE_ARGUMENT if program.training.fed else "schedule" if "schedule" in program.defined else ""
    if schedule:
        given = f", {RATE_ARGUMENT}(0)" if program.training.fed else ""
        yield f"    updates = optimizer(model{given})"
        yield f"    scheduler = like_tf.Scheduler(updates, {schedule})"
        yield f'    return {{"model": ddp, "optimizer": updates, "schedule": scheduler{averages}}}'
    else:
        yield f'    return {{"model": ddp, "optimizer": optimizer(model){averages}}}'


def _train(program: Program) -> Iterator[str]:
    yield "def train("
    yield "    batches: Iterable[dict[str, Tensor]],"
    yield "    parts: dict[str, Any],"
    yield "    step: int = 0,"
    yield "    save: Callable[[int], None] = lambda step: None,"
    yield ") -> int:"
    yield '    """Makes one update for each batch; returns the number of updates in all.'
    yield ""
    yield "    Args:"
    yield "      batches: this rank's shares."
    yield "      parts: as `parts_of` returns them."
    yield "      step: number of updates made before."
    yield "      save: called with the number of updates after each."
    yield '    """'
    yield '    model, updates = parts["model"], parts["optimizer"]'
    yield "    model.train()"
    yield "    for step, batch in enumerate(batches, step + 1):"
    yield "        updates.zero_grad()"
    yield "        loss(model, **batch).backward()"
    yield "        updates.step()"
    if "schedule" in program.defined or program.training.fed:
        yield '        parts["schedule"].step()'
    if "averages" in program.defined:
        yield f'        parts["averages"].update({"step" if program.training.averages_count else ""})'
    yield "        save(step)"
    yield "    return step"


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
