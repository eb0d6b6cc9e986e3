"""The options of the trainer."""

import argparse
import importlib.util
import sys

from tasks import TASKS

from torch_ddp import Rank, TorchDdpError, add_launch_options

PRECISIONS = ("float32", "float16", "bfloat16")
OPT_LEVELS = ("O0", "O1", "O2", "O3")
HALVES = ("float16", "bfloat16")
# "ordered" is the name that was first for a mean in the order of the ranks.
REDUCTIONS = {"mean": "mean", "sum": "sum", "ordered": "ordered_mean", "ordered_sum": "ordered_sum"}


def make_parser(description: str) -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--task", choices=sorted(TASKS), default="digits", help="what is trained; see the folder tasks")
    add("--data", help="file of a task's own data: a text, or an .npz of images and labels")
    add("--size", type=int, help="letters, pixels or voxels that an example is long or wide; the task's own by default")
    add("--out", default="train_ddp_out", help="folder for checkpoints, result.json and logs")
    add("--epochs", type=int, default=3)
    add("--steps", type=int, default=sys.maxsize, help="stop after so many updates")
    add("--batch-size", type=int, help="examples per update, over all ranks and pieces; the task's own by default")
    add("--accumulate", type=int, default=1, help="pieces that a rank's share is worked off in")
    add(
        "--ends",
        choices=("drop", "weigh"),
        default="drop",
        help="what is left at an epoch's end: dropped, or an update",
    )
    add("--learning-rate", type=float, help="for the task's own batch size, and scaled to --batch-size")
    add("--warm-up", type=int, default=20, help="updates until the full learning rate")
    add("--precision", choices=PRECISIONS, default="float32", help="by torch alone: half precisions by torch.autocast")
    add("--opt-level", choices=OPT_LEVELS, help="mixed precision in Apex's terms, by torch_ddp.amp")
    add("--half-dtype", choices=HALVES, help="half precision of --opt-level; float16 by default")
    add("--reduction", choices=REDUCTIONS, default="mean", help="of gradients; ordered: same bits at any world size")
    add("--sync-bn", "--sync-batch-norm", action="store_true", help="batch norm over all ranks")
    add("--compile", nargs="?", const="inductor", metavar="BACKEND", help="torch.compile the model")
    add("--non-finite", choices=("stop", "skip"), default="stop", help="what to do about infinite or NaN numbers")
    add("--save-every", type=int, default=50, help="updates between checkpoints")
    add("--keep", type=int, default=2, help="number of checkpoints to leave")
    add("--background", action="store_true", help="write checkpoints while the training goes on")
    add("--sharded", action="store_true", help="all ranks write some of each checkpoint; needs the package safetensors")
    add("--report-every", type=int, default=10, help="updates between averages over the ranks")
    add("--seed", type=int, default=0)
    add("--override", action="store_true", help="resume although the checkpoint was made with other options")
    add("--tensorboard", action="store_true", help="write curves; needs the package tensorboard")
    add("--csv", action="store_true", help="write log.csv")
    add("--profile", type=int, default=0, metavar="UPDATES", help="profile so many updates of every rank")
    add("--quiet", action="store_true", help="no progress bar")
    add_launch_options(parser)
    return parser


def settings_of(
    options: argparse.Namespace, batch_size: int, rate: float
) -> dict[str, int | float | str | bool | None]:
    """Returns the options that make a resume another training."""
    names = ("task", "data", "size", "accumulate", "ends", "seed", "warm_up", "precision", "opt_level", "half_dtype")
    names += ("reduction", "sync_bn", "compile")
    settings = {"--" + name.replace("_", "-"): getattr(options, name) for name in names}
    return {**settings, "--batch-size": batch_size, "--learning-rate": rate}


def check_options(options: argparse.Namespace) -> None:
    """Refuses what cannot work before any rank is started.

    Raises:
      TorchDdpError: a number is not positive, options contradict each other, or TensorBoard is to be written and not there.
    """
    for name in ("epochs", "steps", "batch_size", "accumulate", "size", "save_every", "keep", "report_every"):
        value = getattr(options, name)
        if value is not None and value < 1:
            flag = "--" + name.replace("_", "-")
            raise TorchDdpError(f"train: expected {flag} to be at least 1, got {value}. Raise it.")
    for one, other in CONTRADICTIONS:
        if all(getattr(options, name) not in (None, *values) for name, values in (one, other)):
            got = " and ".join(f"--{name.replace('_', '-')} {getattr(options, name)}" for name, _ in (one, other))
            raise TorchDdpError(
                f"train: expected one of two options that exclude each other, got {got}. Use one of them."
            )
    if options.half_dtype and not options.opt_level:
        raise TorchDdpError(
            f"train: expected --opt-level with --half-dtype, got --half-dtype {options.half_dtype} alone. "
            "Add --opt-level O1."
        )
    if options.tensorboard and importlib.util.find_spec("tensorboard") is None:
        raise TorchDdpError(
            "train: expected the package tensorboard for --tensorboard, got none. "
            "Install it with 'pip install tensorboard', or leave --tensorboard out."
        )


# Pairs of options with the values that exclude nothing. Two precisions are none; ranks are weighed in a mean; and casts of
# Apex's kind are made op by op, which a compiled model has no more. What all ranks write, they write together.
CONTRADICTIONS = (
    (("opt_level", ()), ("precision", ("float32",))),
    (("ends", ("drop",)), ("reduction", ("mean",))),
    (("compile", ()), ("opt_level", ("O0", "O3"))),
    (("sharded", (False,)), ("background", (False,))),
)


def examples_per_piece(batch_size: int, accumulate: int, rank: Rank) -> int:
    """Returns the number of examples in one piece of one rank.

    Raises:
      TorchDdpError: ranks and pieces do not divide the batch.
    """
    parts = rank.world_size * accumulate
    if batch_size % parts:
        raise TorchDdpError(
            f"train: expected --batch-size to be divisible by {rank.world_size} ranks times {accumulate} pieces, "
            f"got {batch_size}. Use a multiple of {parts}."
        )
    return batch_size // parts
