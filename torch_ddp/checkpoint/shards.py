"""Tensors of a checkpoint in files next to it, each by another rank: torch.distributed.checkpoint, in safetensors' format.

The file of the checkpoint itself has the place of each tensor, its shape and dtype, and the digests of these files. It is
written last and by rename, so that a checkpoint is whole or not there. Needs the package safetensors, and a folder that all
machines see. No file is unpickled.
"""

import contextlib
import importlib.util
import logging
import re
import shutil
import uuid
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from torch_ddp.checkpoint.copies import replaced, tensors_of
from torch_ddp.checkpoint.files import digest_of, frames_of, map_file
from torch_ddp.errors import CheckpointError
from torch_ddp.process_group import Rank

FOLDER = re.compile(r"shards-\d{10}-[0-9a-f]{32}")
FILE = re.compile(r"[A-Za-z0-9_-]+\.safetensors")
SHARDS = "shards"  # of a checkpoint's state: {"folder": name, "files": {name: digest}}


def require_safetensors() -> None:
    """Refuses to begin without the package.

    Raises:
      CheckpointError: it is not installed.
    """
    if importlib.util.find_spec("safetensors") is None:
        raise CheckpointError(
            "checkpoint: expected the package safetensors for sharded=True, got none. "
            "Install it with 'pip install safetensors', or leave sharded out."
        )


def write_shards(folder: Path, step: int, parts: Any, rank: Rank) -> tuple[Any, dict[str, Any]]:
    """Writes the tensors of all parts, about as many bytes on every rank; every rank calls it with the same ones.

    Args:
      folder: of the checkpoints.
      step: number of updates made.
      parts: tensors, numbers, strings and containers of them.
      rank: this process.

    Returns:
      The parts with tensors that have shape and dtype alone, and the row `SHARDS` of the state, complete on rank 0.

    Raises:
      CheckpointError: a rank could not write.
    """
    from torch.distributed.checkpoint.default_planner import DefaultSavePlanner
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
    from torch.distributed.checkpoint.state_dict_saver import save

    name = f"shards-{step:010d}-{_agreed_token(rank)}"
    place = folder / name
    tensors = _named(parts)
    with _said(f"to write {place}"):
        place.mkdir(parents=True, exist_ok=True)
        # Tensors that all ranks have are written by one of them, by turns.
        planner = DefaultSavePlanner(dedup_save_to_lowest_rank=False)
        writer = HuggingFaceStorageWriter(str(place), save_distributed=True)
        save(tensors, storage_writer=writer, planner=planner, no_dist=rank.world_size == 1)
    if rank.world_size > 1:
        dist.barrier()  # files of other ranks are there
    files = {path.name: digest_of(path) for path in sorted(place.iterdir())} if rank.rank == 0 else {}
    return replaced(parts, _without_elements), {"folder": name, "files": files}


def read_shards(folder: Path, shards: Mapping[str, Any], parts: Any, name: str, rank: Rank) -> Any:
    """Returns one of the parts with its tensors; every rank calls it.

    Args:
      folder: of the checkpoints.
      shards: the row `SHARDS` of the state.
      parts: all of them, as `write_shards` returned them.
      name: of the part.
      rank: this process.

    Raises:
      CheckpointError: the files have others.
    """
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
    from torch.distributed.checkpoint.state_dict_loader import load

    place = _place(folder, shards)
    if not _are_there(place, shards):
        raise CheckpointError(
            f"checkpoint: expected the files in {place} that it was saved with, got others. Copy the whole folder again."
        )
    first = sum(len(list(tensors_of(parts[other]))) for other in _before(parts, name))
    chosen = replaced(parts[name], lambda tensor: torch.empty(tensor.shape, dtype=tensor.dtype))
    with _said(f"the tensors of {name!r} in {place}"):
        reader = HuggingFaceStorageReader(str(place))
        load(_named(chosen, first), storage_reader=reader, no_dist=rank.world_size == 1)
    return chosen


def shards_are_whole(path: Path) -> bool:
    """Returns whether the files beside a checkpoint have the digests that it states; True where it has none.

    Args:
      path: a checkpoint's file, whole itself.
    """
    shards = map_file(path).get(SHARDS)
    if shards is None:
        return True
    try:
        place = _place(path.parent, shards)
        return _are_there(place, shards) and all(
            _is_complete(place / name) and digest_of(place / name) == digest for name, digest in shards["files"].items()
        )
    except (CheckpointError, OSError):
        return False


def _is_complete(path: Path) -> bool:
    """Tells whether a file is as long as its header says: one cut off, or with holes behind it, is not read."""
    if importlib.util.find_spec("safetensors") is None:
        return True  # its digest tells, after a while
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt"):
            return True
    except (SafetensorError, MemoryError):  # the second of a size that cannot be mapped, as of one with holes
        return False


def _are_there(place: Path, shards: Mapping[str, Any]) -> bool:
    """Tells whether the files of a checkpoint are in its folder, and no other one that would be read with them."""
    named = shards["files"]
    return all(path.is_file() for path in (place / name for name in named)) and all(
        path.name in named for path in place.glob("*.safetensors")
    )


def remove_unused(folder: Path) -> None:
    """Removes what no checkpoint in the folder names: of older ones, and of one that was not finished."""
    places = [place for place in folder.glob("shards-*") if FOLDER.fullmatch(place.name)]
    used = {shards["folder"] for path in frames_of(folder) if places and (shards := map_file(path).get(SHARDS))}
    for place in places:
        if place.name not in used:
            shutil.rmtree(place, ignore_errors=True)


def are_shards(value: Any) -> bool:
    """Tells whether a value is the row `SHARDS` of a state, or None; names are those of files in the folder alone."""
    if value is None:
        return True
    if not isinstance(value, dict) or not isinstance(value.get("files"), dict):
        return False
    names = [value.get("folder"), *value["files"], *value["files"].values()]
    return (
        all(isinstance(name, str) for name in names)
        and FOLDER.fullmatch(value["folder"]) is not None
        and all(FILE.fullmatch(name) for name in value["files"])
    )


def _place(folder: Path, shards: Mapping[str, Any]) -> Path:
    if not are_shards(shards):
        raise CheckpointError(
            "checkpoint: expected 'shards' as torch_ddp.Checkpoints saves it, got another. Use a file that it saved."
        )
    return folder / str(shards["folder"])


def _before(parts: Mapping[str, Any], name: str) -> Iterator[str]:
    for other in parts:
        if other == name:
            return
        yield other


def _named(parts: Any, first: int = 0) -> dict[str, Tensor]:
    # By place: names of parameters may hold anything.
    return {
        f"tensor-{number:06d}": tensor.detach().contiguous() for number, tensor in enumerate(tensors_of(parts), first)
    }


def _without_elements(tensor: Tensor) -> Tensor:
    # One element, expanded: what is written of it is its shape.
    return torch.zeros((), dtype=tensor.dtype).expand(tensor.shape)


def _agreed_token(rank: Rank) -> str:
    # A folder of its own, also where the step has been saved before: what is there stays as it is.
    token = [uuid.uuid4().hex]
    if rank.world_size > 1:
        words = torch.tensor(list(bytes.fromhex(token[0])), dtype=torch.uint8)
        device = "cuda" if dist.get_backend() == "nccl" else "cpu"
        words = words.to(device)
        dist.broadcast(words, src=0)
        return bytes(words.tolist()).hex()
    return token[0]


@contextlib.contextmanager
def _without_logged_tracebacks() -> Iterator[None]:
    """Keeps torch from logging the traceback of a file that it cannot read, which the error says in a line."""

    def without(record: logging.LogRecord) -> bool:
        return not (record.exc_info and "metadata" in str(record.msg))

    root = logging.getLogger()  # which torch's loader logs to
    root.addFilter(without)
    try:
        yield
    finally:
        root.removeFilter(without)


@contextlib.contextmanager
def _said(what: str) -> Iterator[None]:
    from torch.distributed.checkpoint.api import CheckpointException

    try:
        with warnings.catch_warnings():
            # Of a single process, which is one on purpose.
            warnings.filterwarnings("ignore", "torch.distributed is disabled")
            with _without_logged_tracebacks():
                yield
    except (CheckpointException, OSError, RuntimeError, ValueError, KeyError) as error:
        failures = getattr(error, "failures", {})
        raised = [f"{each[0]} on rank {rank}" for rank, each in sorted(failures.items())] or [str(error)]
        raise CheckpointError(
            f"checkpoint: expected {what}, got {raised[0].splitlines()[0][:300]}. "
            "The older checkpoints are as they were. Make room, or use a folder that all machines see."
        ) from error
