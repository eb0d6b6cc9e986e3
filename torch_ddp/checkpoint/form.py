"""Checks that what was read of a checkpoint's file has the form that `Checkpoints.save` gives it."""

from collections.abc import Callable, Mapping
from typing import Any

import torch

from torch_ddp.checkpoint.files import is_step
from torch_ddp.checkpoint.shards import are_shards
from torch_ddp.errors import CheckpointError

MOST_THREADS = 1 << 12  # of one process: torch makes as many as it is told
# The numbers of a state: Python's version and 625 words, numpy's 624 words with a position and whether one is left over.
PYTHON_WORDS, NUMPY_WORDS = 626, 626


def require_form(state: Mapping[str, Any]) -> None:
    """Refuses what `Checkpoints.save` did not write.

    Raises:
      CheckpointError: a part of it is missing, or of another type.
    """
    for name, is_right in FORM.items():
        if not is_right(state.get(name)):
            raise CheckpointError(
                f"checkpoint: expected {name!r} as torch_ddp.Checkpoints saves it, got another. Use a file that it saved."
            )
    if len(state["random"]) != state["world_size"]:
        raise CheckpointError(
            f"checkpoint: expected the random states of {state['world_size']} ranks, got {len(state['random'])}. "
            "Use a file that torch_ddp.Checkpoints saved."
        )


def require_random_state(state: Mapping[str, Any], device: torch.device) -> None:
    """Refuses states of generators that these generators cannot have.

    Raises:
      CheckpointError: one of them is of another form.
    """
    wanted = {"python": PYTHON_WORDS, "numpy": NUMPY_WORDS, "numpy_gauss": 1, "torch": len(torch.get_rng_state())}
    names = [*wanted, "python_gauss", *(["cuda"] if device.type == "cuda" else [])]
    known = state if isinstance(state, Mapping) else {}
    found = {name: value for name in names if isinstance(value := known.get(name), torch.Tensor) and value.ndim == 1}
    right = len(found) == len(names) and all(len(found[name]) == count for name, count in wanted.items())
    if not right or not _are_words(found) or len(found["python_gauss"]) > 1:
        raise CheckpointError(
            "checkpoint: expected the random state of every rank as torch_ddp.Checkpoints saves it, got another. "
            "Use a file that it saved."
        )


def _are_words(found: Mapping[str, torch.Tensor]) -> bool:
    python, numpy = found["python"], found["numpy"]
    if python.dtype != torch.int64 or numpy.dtype != torch.int64 or found["torch"].dtype != torch.uint8:
        return False
    if not found["numpy_gauss"].is_floating_point() or not found["python_gauss"].is_floating_point():
        return False
    # 32 bits each; the last of the words are a place among them.
    words = torch.cat([python[1:-1], numpy[:-2]])
    places = int(python[-1]), int(numpy[-2])
    within = bool(((words >= 0) & (words < 2**32)).all()) and all(0 <= place <= 624 for place in places)
    return within and int(python[0]) == 3 and int(numpy[-1]) in (0, 1)


def _is_progress(value: Any) -> bool:
    return isinstance(value, dict) and set(value) == {"step", "epoch", "offset"} and all(map(is_step, value.values()))


def _are_random(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, dict) for each in value)


def _are_named(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(name, str) for name in value)


def _are_settings(value: Any) -> bool:
    # Older files have none.
    plain = (str, int, float, bool, type(None))
    return value is None or (_are_named(value) and all(isinstance(each, plain) for each in value.values()))


FORM: dict[str, Callable[[Any], bool]] = {
    "format": lambda value: type(value) is int,
    "progress": _is_progress,
    "world_size": lambda value: type(value) is int and value > 0,
    "threads": lambda value: type(value) is int and 0 < value <= MOST_THREADS,
    "settings": _are_settings,
    "shards": are_shards,
    "measured": lambda value: value is None or type(value) is float,
    "random": _are_random,
    "parts": _are_named,
}
