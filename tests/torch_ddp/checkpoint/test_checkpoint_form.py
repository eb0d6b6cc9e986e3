"""A checkpoint that `Checkpoints.save` did not write is refused in words, whatever its bytes and its state are."""

import hashlib
import io

import pytest
import torch
from torch import nn

from torch_ddp import Checkpoints, Progress, Rank, TorchDdpError
from torch_ddp.checkpoint import read_whole
from torch_ddp.checkpoint.__main__ import tensors_of
from torch_ddp.errors import CheckpointError


def training(folder):
    model = nn.Linear(2, 1)
    return Checkpoints(folder, Rank(0, 0, 1), {"model": model}, settings={"seed": 1}), model


@pytest.fixture
def saved(tmp_path):
    return training(tmp_path)[0].save(Progress(3, 0, 3))


def rewrite(path, change):
    """Saves another state under the name that its content has."""
    state = torch.load(path, weights_only=True)
    change(state)
    file = io.BytesIO()
    torch.save(state, file)
    path.unlink()
    digest = hashlib.blake2b(file.getvalue(), digest_size=16).hexdigest()
    (path.parent / f"step-0000000003-{digest}.pt").write_bytes(file.getvalue())


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no archive",
        b"\x80\x02cos\nsystem\nX\x04\x00\x00\x00true\x85R.",
        b"\x80\x02K\x01.",
        b"\x80\x02X\xff\xff\xff\x7f.",
    ],
)
def test_bytes_that_are_no_checkpoint_are_refused(data, tmp_path):
    with pytest.raises(CheckpointError, match=r"expected a file of torch_ddp\.checkpoint"):
        read_whole(data)
    (tmp_path / "step.pt").write_bytes(data)
    with pytest.raises(TorchDdpError, match=r"It is .*step\.pt"):
        tensors_of(tmp_path / "step.pt", "model")


def test_bytes_with_any_of_them_changed_are_refused_or_read(saved):
    data = saved.read_bytes()
    for place in range(0, len(data), 97):
        try:
            read_whole(data[:place] + bytes([data[place] ^ 0x41]) + data[place + 1 :])
        except CheckpointError:
            continue


RANDOM = "random"
CHANGES = {
    "no format": lambda state: state.pop("format"),
    "a format that is an array": lambda state: state.update(format=torch.ones(3)),
    "no progress": lambda state: state.pop("progress"),
    "a progress without an offset": lambda state: state["progress"].pop("offset"),
    "a step that is no number": lambda state: state["progress"].update(step="3"),
    "more parts": lambda state: state["parts"].update({3: {}}),
    "parts that are none": lambda state: state.update(parts=None),
    "settings that are arrays": lambda state: state.update(settings={"seed": torch.ones(3)}),
    "a million threads": lambda state: state.update(threads=10**6),
    "no random state": lambda state: state.update(random=[]),
    "a random state without Python's": lambda state: state[RANDOM][0].pop("python"),
    "a short random state": lambda state: state[RANDOM][0].update(numpy=torch.zeros(3, dtype=torch.int64)),
    "words of more than 32 bits": lambda state: state[RANDOM][0]["python"].__setitem__(5, 2**40),
    "words that are no integers": lambda state: state[RANDOM][0].update(python=torch.zeros(626)),
    "weights of another shape": lambda state: state["parts"]["model"].update(weight=torch.ones(5)),
    "weights that are none": lambda state: state["parts"].update(model=3),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_state_of_another_form_is_refused(saved, change):
    rewrite(saved, change)
    with pytest.raises(CheckpointError, match=r"^checkpoint: expected"):
        training(saved.parent)[0].resume()


def test_what_is_refused_by_its_form_has_loaded_nothing(saved):
    rewrite(saved, CHANGES["a short random state"])
    checkpoints, model = training(saved.parent)
    before, drawn = model.weight.clone(), torch.get_rng_state()
    with pytest.raises(CheckpointError):
        checkpoints.resume()
    assert torch.equal(model.weight, before) and torch.equal(torch.get_rng_state(), drawn)


def test_what_was_saved_is_resumed(saved):
    rewrite(saved, lambda state: None)
    assert training(saved.parent)[0].resume() == Progress(3, 0, 3)
