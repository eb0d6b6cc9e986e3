"""The options of the trainer."""

import argparse
import importlib.util
import sys
from collections.abc import Iterable

from torch_ddp import Rank, TorchDdpError, add_launch_options

OPT_LEVELS = ("O0", "O1", "O2", "O3")
HALVES = ("float16", "bfloat16")
REDUCTIONS = ("mean", "ordered")


def make_parser(description: str, precisions: Iterable[str]) -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="train_ddp_out", help="folder for checkpoints, result.json and TensorBoard")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--steps", type=int, default=sys.maxsize, help="stop after so many updates")
    parser.add_argument("--batch-size", type=int, default=64, help="examples per update, over all ranks and pieces")
    parser.add_argument("--accumulate", type=int, default=1, help="pieces that a rank's share is worked off in")
    parser.add_argument("--learning-rate", type=float, default=0.05, help="for a batch of 64; scaled to --batch-size")
    parser.add_argument("--warm-up", type=int, default=20, help="updates until the full learning rate")
    parser.add_argument("--precision", choices=sorted(precisions), default="float32", help="by torch alone")
    parser.add_argument("--opt-level", choices=OPT_LEVELS, help="mixed precision in Apex's terms, by torch_ddp.amp")
    parser.add_argument("--half-dtype", choices=HALVES, help="half precision of --opt-level; float16 by default")
    parser.add_argument("--reduction", choices=REDUCTIONS, default="mean", help="ordered: same bits at any world size")
    parser.add_argument("--sync-bn", "--sync-batch-norm", action="store_true", help="batch norm over all ranks")
    parser.add_argument("--save-every", type=int, default=50, help="updates between checkpoints")
    parser.add_argument("--report-every", type=int, default=10, help="updates between averages over the ranks")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--override", action="store_true", help="resume although the checkpoint has other options")
    parser.add_argument("--tensorboard", action="store_true", help="write curves; needs the package tensorboard")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    add_launch_options(parser)
    return parser


def settings_of(options: argparse.Namespace) -> dict[str, int | float | str | bool]:
    """Returns the options that make a resume another training; those of the level have parts of the checkpoint."""
    names = ("batch_size", "accumulate", "seed", "learning_rate", "warm_up", "precision", "reduction", "sync_bn")
    return {"--" + name.replace("_", "-"): getattr(options, name) for name in names}


def check_options(options: argparse.Namespace) -> None:
    """Refuses what cannot work before any rank is started.

    Raises:
      TorchDdpError: a number is not positive, the options of precision contradict each other, or TensorBoard is asked for
        and not there.
    """
    for name in ("epochs", "steps", "batch_size", "accumulate", "save_every", "report_every"):
        if getattr(options, name) < 1:
            flag = "--" + name.replace("_", "-")
            raise TorchDdpError(f"train: expected {flag} to be at least 1, got {getattr(options, name)}. Raise it.")
    _check_precision(options)
    if options.tensorboard and importlib.util.find_spec("tensorboard") is None:
        raise TorchDdpError(
            "train: expected the package tensorboard for --tensorboard, got none. "
            "Install it with 'pip install tensorboard', or leave --tensorboard out."
        )


def _check_precision(options: argparse.Namespace) -> None:
    if options.opt_level and options.precision != "float32":
        raise TorchDdpError(
            f"train: expected --opt-level or --precision, got {options.opt_level} and {options.precision}. Use one of them."
        )
    if options.half_dtype and not options.opt_level:
        raise TorchDdpError(
            f"train: expected --opt-level with --half-dtype, got --half-dtype {options.half_dtype} alone. "
            "Add --opt-level O1."
        )


def examples_per_piece(options: argparse.Namespace, rank: Rank) -> int:
    """Returns the number of examples in one piece of one rank.

    Raises:
      TorchDdpError: ranks and pieces do not divide the batch.
    """
    parts = rank.world_size * options.accumulate
    if options.batch_size % parts:
        raise TorchDdpError(
            f"train: expected --batch-size to be divisible by {rank.world_size} ranks times {options.accumulate} pieces, "
            f"got {options.batch_size}. Use a multiple of {parts}."
        )
    return options.batch_size // parts
