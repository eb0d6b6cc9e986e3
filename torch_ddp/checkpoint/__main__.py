"""Writes the model in a checkpoint of `torch_ddp.checkpoint` as a safetensors file, for whoever has no torch.

Usage: python -m torch_ddp.checkpoint CHECKPOINT OUT.safetensors [--part model]

CHECKPOINT is a file "step-….pt" or the folder of such files, whose newest whole one is taken. The file gets the names of
the part's `state_dict`, and "state/global_step".
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

from parity.trace import GLOBAL_STEP, write_tensors
from torch_ddp.checkpoint.files import is_step, map_file, newest_file
from torch_ddp.checkpoint.shards import SHARDS, read_shards, shards_are_whole
from torch_ddp.errors import CheckpointError
from torch_ddp.process_group import Rank

ALONE = Rank(0, 0, 1)
LONGEST_LIST = 500  # characters of the names of a file's parts


def main(arguments: list[str] | None = None) -> int:
    """Writes the file; returns the exit code: 0, or 2 where it could not."""
    parser = argparse.ArgumentParser(prog="python -m torch_ddp.checkpoint", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("checkpoint", type=Path, metavar="CHECKPOINT")
    parser.add_argument("out", type=Path, metavar="OUT.safetensors")
    parser.add_argument("--part", default="model", help="name that the checkpoint has the model under (default: model)")
    parsed = parser.parse_args(arguments)
    try:
        tensors = tensors_of(parsed.checkpoint, parsed.part)
        write_tensors(parsed.out, tensors)
    except (ValueError, OSError) as error:
        print(f"torch_ddp.checkpoint: {error}", file=sys.stderr)
        return 2
    print(f"{parsed.out}: {len(tensors)} tensors, after {int(tensors[GLOBAL_STEP])} steps")
    return 0


def tensors_of(path: Path, part: str) -> dict[str, np.ndarray]:
    """Returns the tensors of one part of a checkpoint, and its step count as "state/global_step".

    Args:
      path: a checkpoint's file, or a folder of them.
      part: its name, e.g. "model".

    Raises:
      CheckpointError: there is no whole checkpoint, or none with such a part of named tensors.
    """
    state = _state(path)
    progress = state.get("progress") if isinstance(state, dict) else None
    if not isinstance(progress, dict) or not is_step(progress.get("step")):
        raise CheckpointError(f"checkpoint: expected a file of torch_ddp.checkpoint at {path}, got another. Name one.")
    parts = state.get("parts")
    chosen = parts.get(part) if isinstance(parts, dict) else None
    if chosen is not None and state.get(SHARDS) is not None:
        folder = path if path.is_dir() else path.parent
        chosen = read_shards(folder, state[SHARDS], parts, part, ALONE)
    if not isinstance(chosen, dict) or not all(isinstance(value, torch.Tensor) for value in chosen.values()):
        known = ", ".join(map(str, parts))[:LONGEST_LIST] if isinstance(parts, dict) else "none"
        raise CheckpointError(
            f"checkpoint: expected a part {part!r} of named tensors in {path}, got the parts {known}. Name one with --part."
        )
    tensors = {str(name): _array(value) for name, value in chosen.items()}
    tensors[GLOBAL_STEP] = np.array(progress["step"], np.int64)
    return tensors


def _state(path: Path) -> Any:
    found = newest_file(path, shards_are_whole) if path.is_dir() else None
    if path.is_dir() and found is None:
        raise CheckpointError(
            f"checkpoint: expected a checkpoint in {path}, got none that is whole. Name another folder."
        )
    if path.exists() and not (path.is_dir() or path.is_file()):
        raise CheckpointError(f"checkpoint: expected a file at {path}, got a pipe or a device. Name another.")
    chosen = found.path if found else path
    try:
        with chosen.open("rb"):
            return map_file(chosen)
    except OSError as error:
        raise CheckpointError(
            f"checkpoint: expected a file of torch_ddp.checkpoint at {path}, got: {error.strerror}. Name another."
        ) from error
    except CheckpointError as error:
        raise CheckpointError(f"{error} It is {path}.") from error


def _array(tensor: torch.Tensor) -> np.ndarray:
    # numpy has no bfloat16.
    whole = tensor.float() if tensor.dtype is torch.bfloat16 else tensor
    return np.array(whole.numpy())


if __name__ == "__main__":
    sys.exit(main())
