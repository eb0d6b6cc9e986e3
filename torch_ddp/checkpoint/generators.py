"""The states of a process's random generators: seeded, taken, and put back."""

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch


def seed_all(seed: int) -> None:
    """Seeds the global generators of this process: torch's, every GPU's, Python's and numpy's.

    Args:
      seed: 0 to ``2**32 - 1``. Give each rank its own, or all draw the same dropout masks.
    """
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)


def random_state(device: torch.device) -> dict[str, np.ndarray]:
    """Returns where this process's global generators stand, as arrays of integers and float64.

    Generators that were made by hand are not among them; give those to the checkpoint as parts of their own.

    Args:
      device: if a GPU, its generator is included.
    """
    # Python: version, 625 numbers, and the second of a pair of normal draws where one is kept. numpy: 624 keys, a
    # position, and likewise. As arrays, so that loading runs no code.
    version, words, gauss = random.getstate()
    _, keys, position, has_gauss, cached = np.random.get_state(legacy=True)
    state = {
        "torch": torch.get_rng_state().numpy(),
        "python": np.array([version, *words], np.int64),
        "python_gauss": np.array([] if gauss is None else [gauss], np.float64),
        "numpy": np.array([*keys, position, has_gauss], np.int64),
        "numpy_gauss": np.array([cached], np.float64),
    }
    if device.type == "cuda":
        state["cuda"] = torch.cuda.get_rng_state(device).numpy()
    return state


def set_random_state(state: Mapping[str, Any], device: torch.device) -> None:
    """Puts this process's global generators where `random_state` found them.

    Args:
      state: dict of name to array or tensor.
      device: if a GPU, its generator is set too.
    """
    arrays = {name: np.asarray(value) for name, value in state.items()}
    torch.set_rng_state(torch.from_numpy(arrays["torch"].copy()))
    version, *words = (int(word) for word in arrays["python"])
    gauss = [float(value) for value in arrays["python_gauss"]]
    random.setstate((version, tuple(words), gauss[0] if gauss else None))
    *keys, position, has_gauss = (int(word) for word in arrays["numpy"])
    cached = float(arrays["numpy_gauss"][0])
    np.random.set_state(("MT19937", np.array(keys, np.uint32), position, has_gauss, cached))
    if device.type == "cuda":
        torch.cuda.set_rng_state(torch.from_numpy(arrays["cuda"].copy()), device)
