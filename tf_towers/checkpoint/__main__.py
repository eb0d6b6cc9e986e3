"""Writes the state in a trace as a checkpoint of `tf.train.Saver`, or lists or rewrites what a checkpoint holds.

Usage: python -m tf_towers.checkpoint write TRACE PREFIX [--step N|last] [--version V2|V1] [--dtype float32]
                                                         [--global-step N]
       python -m tf_towers.checkpoint list PATH
       python -m tf_towers.checkpoint read PATH OUT.safetensors

TRACE is in the names of the TensorFlow graph: the TensorFlow side's own, or what `parity map … --write` made of a port's.
"""

import argparse
import os
import sys
from typing import Optional, Sequence

from parity.trace import DamagedError


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Runs one of the three; returns the exit code: 0, or 2 where it could not."""
    parsed = _parser().parse_args(arguments)
    # Before TensorFlow is loaded, which is in the functions below: its C++ side reads this once.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    try:
        parsed.run(parsed)
    except (ValueError, DamagedError) as error:
        print(f"tf_towers.checkpoint: {error}", file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tf_towers.checkpoint", description=__doc__.splitlines()[0])
    verbs = parser.add_subparsers(dest="verb", metavar="VERB")
    # By hand: add_subparsers takes no `required` before Python 3.7.
    verbs.required = True
    write = verbs.add_parser("write", help="write the state in a trace as a checkpoint")
    write.add_argument("trace", metavar="TRACE", help="folder of a trace in the names of the TensorFlow graph")
    write.add_argument("prefix", metavar="PREFIX", help="path that a Saver restores from")
    write.add_argument(
        "--step", type=_step, metavar="N|last", help="the state after which step (default: the last one)"
    )
    write.add_argument("--version", choices=["V2", "V1"], default="V2", help="format (default: V2)")
    write.add_argument(
        "--dtype",
        choices=["float32", "float64"],
        help="of weights, statistics, slots and averages, where the restoring graph has another than the trace's",
    )
    write.add_argument(
        "--global-step",
        type=int,
        metavar="N",
        help="step count, where the trace has none; appended to PREFIX as Saver.save does",
    )
    write.set_defaults(run=_write)
    listing = verbs.add_parser("list", help="list the variables of a checkpoint")
    listing.add_argument("path", metavar="PATH", help="V2 prefix, V1 file, or a folder with a state file")
    listing.set_defaults(run=_list)
    reading = verbs.add_parser("read", help="write the variables of a checkpoint as a safetensors file, by their names")
    reading.add_argument("path", metavar="PATH", help="V2 prefix, V1 file, or a folder with a state file")
    reading.add_argument("out", metavar="OUT.safetensors", help="file to write, for whoever has no TensorFlow")
    reading.set_defaults(run=_read)
    return parser


def _write(parsed: argparse.Namespace) -> None:
    from parity.trace import Trace, state_after
    from tf_towers.checkpoint import checkpoint_of, write_checkpoint

    trace = Trace(parsed.trace)
    content = checkpoint_of(state_after(trace, parsed.step), trace.variables, parsed.dtype)
    path = write_checkpoint(parsed.prefix, content.arrays, parsed.version, parsed.global_step)
    names = set(content.arrays) | ({"global_step"} if parsed.global_step is not None else set())
    print(f"{path}: {len(names)} variables")
    if content.left_out:
        print(f"left out, for the trace does not tell their names in the graph: {', '.join(content.left_out)}")
    # A Saver of a graph that has one refuses a checkpoint without it, and says so only when it restores.
    if "global_step" not in names:
        print("no global_step: a Saver that restores it will not find it; name it with --global-step")


def _list(parsed: argparse.Namespace) -> None:
    from tf_towers.checkpoint import read_checkpoint

    for name, value in read_checkpoint(parsed.path).items():
        print(f"{name} {list(value.shape)} {value.dtype if value.dtype != object else 'string'}")


def _read(parsed: argparse.Namespace) -> None:
    from parity.trace import write_tensors
    from tf_towers.checkpoint import read_checkpoint
    from tf_towers.errors import CheckpointError

    folder = os.path.dirname(os.path.abspath(parsed.out))
    if not os.path.isdir(folder):
        raise CheckpointError(f"read: expected the folder {folder} to exist, got none. Make it first.")
    variables = read_checkpoint(parsed.path)
    # Strings are no weights, and the format has none.
    strings = [name for name, value in variables.items() if value.dtype == object]
    arrays = {name: value for name, value in variables.items() if name not in strings}
    write_tensors(parsed.out, arrays)
    print(f"{parsed.out}: {len(arrays)} variables")
    if strings:
        print(f"left out, for they are strings: {', '.join(strings)}")


def _step(text: str) -> Optional[int]:
    if text == "last":
        return None
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a number or last, got {text!r}") from None


if __name__ == "__main__":
    sys.exit(main())
