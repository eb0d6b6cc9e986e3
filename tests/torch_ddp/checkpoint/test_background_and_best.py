"""Saving beside the training, the best checkpoint, and what is in memory of a file that was resumed from."""

import threading
from collections import OrderedDict
from pathlib import Path

import pytest
import torch
from torch import nn

from torch_ddp import CheckpointError, Checkpoints, Progress, Rank, read_whole
from torch_ddp.checkpoint import checkpoints as module
from torch_ddp.checkpoint import files
from torch_ddp.checkpoint.copies import own_copy, snapshot, tensors_of

ALONE = Rank(0, 0, 1)


def training():
    model = nn.Linear(3, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    return model, optimizer


def steps(folder):
    return sorted(int(path.name[5:15]) for path in folder.glob("step-*.pt"))


@pytest.fixture
def held_writes(monkeypatch):
    """Writes begin when the event is set."""
    go = threading.Event()

    def held(*arguments):
        assert go.wait(30)
        return files.write_whole(*arguments)

    monkeypatch.setattr(module, "write_whole", held)
    yield go
    go.set()


@pytest.mark.on_cpu("compares with what lies on the CPU")
def test_what_is_saved_in_the_background_is_what_was_there_when_it_was_saved(tmp_path, held_writes):
    model, optimizer = training()
    checkpoints = Checkpoints(tmp_path, ALONE, {"model": model, "optimizer": optimizer}, background=True)
    before = [tensor.clone() for tensor in tensors_of([model.state_dict(), optimizer.state_dict()])]
    assert checkpoints.save(Progress(1, 0, 1)) is None
    optimizer.step()
    assert steps(tmp_path) == []
    held_writes.set()
    checkpoints.wait()
    [path] = tmp_path.iterdir()
    parts = read_whole(path.read_bytes())["parts"]
    saved = list(tensors_of([parts["model"], parts["optimizer"]]))
    assert all(torch.equal(one, other) for one, other in zip(saved, before, strict=True))
    assert not torch.equal(model.weight, before[0])


def test_one_is_written_at_a_time_and_a_resume_waits_for_it(tmp_path, held_writes):
    checkpoints = Checkpoints(tmp_path, ALONE, {"model": training()[0]}, keep=3, background=True)
    checkpoints.save(Progress(1, 0, 1))
    held_writes.set()
    checkpoints.save(Progress(2, 0, 2))
    assert steps(tmp_path)[0] == 1
    assert checkpoints.resume() == Progress(2, 0, 2)


def test_what_writing_raised_is_raised_by_whoever_waits_once(tmp_path):
    (tmp_path / "file").touch()
    checkpoints = Checkpoints(tmp_path / "file" / "x", ALONE, {"model": training()[0]}, background=True)
    checkpoints.save(Progress(1, 0, 1))
    with pytest.raises(CheckpointError, match=r"expected a folder at .*, got: Not a directory"):
        checkpoints.save(Progress(2, 0, 2))
    checkpoints.wait()


@pytest.mark.parametrize(("higher", "better", "worse"), [(True, 0.9, 0.7), (False, 0.7, 0.9)])
def test_the_best_stays_over_a_restart_and_whatever_the_step(tmp_path, higher, better, worse):
    model, _ = training()

    def fresh():
        return Checkpoints(tmp_path, ALONE, {"model": model}, keep=1)

    assert fresh().save_best(Progress(5, 0, 5), 0.8, higher)
    assert not fresh().save_best(Progress(6, 0, 6), worse, higher)
    assert not fresh().save_best(Progress(7, 0, 7), 0.8, higher)
    assert steps(tmp_path / "best") == [5]
    assert fresh().save_best(Progress(3, 0, 3), better, higher)
    fresh().save(Progress(4, 0, 4))
    assert (steps(tmp_path / "best"), steps(tmp_path)) == ([3], [4])
    assert fresh().resume() == Progress(4, 0, 4)


@pytest.mark.on_cpu("compares with what lies on the CPU")
def test_after_a_resume_nothing_is_in_the_file_any_more(tmp_path):
    model, optimizer = training()
    path = Checkpoints(tmp_path, ALONE, {"model": model, "optimizer": optimizer}).save(Progress(1, 0, 1))
    expected = list(tensors_of(snapshot([model.state_dict(), optimizer.state_dict()])))
    model, optimizer = training()
    Checkpoints(tmp_path, ALONE, {"model": model, "optimizer": optimizer}).resume()
    if Path("/proc/self/maps").exists():
        assert str(path) not in Path("/proc/self/maps").read_text()
    path.write_bytes(bytes(path.stat().st_size))
    now = list(tensors_of([model.state_dict(), optimizer.state_dict()]))
    assert all(torch.equal(one, other) for one, other in zip(now, expected, strict=True))


@pytest.mark.parametrize(("most", "maps"), [(8, 5), (16, 3), (1000, 2)])
def test_a_copy_is_made_from_as_many_maps_as_its_size_asks_for(most, maps):
    state = {
        "a": [torch.ones(2), torch.full((2,), 2.0)],
        "b": (torch.zeros(3), 7, "x"),
        "c": OrderedDict(d=torch.ones(1)),
    }
    made = []

    def mapped():
        made.append(1)
        return state

    copied = own_copy(mapped, most)
    assert len(made) == maps
    assert copied["b"][1:] == (7, "x")
    assert type(copied["c"]) is OrderedDict
    for one, other in zip(tensors_of(copied), tensors_of(state), strict=True):
        assert torch.equal(one, other) and one.data_ptr() != other.data_ptr()


def resumed_with(rank: Rank, folder: str, override: bool) -> tuple:
    import warnings

    model = nn.Linear(2, 1)
    checkpoints = Checkpoints(folder, rank, {"model": model}, override=override)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return checkpoints.resume(), checkpoints.overridden, model.weight.tolist(), float(torch.rand(()))


def test_another_number_of_ranks_is_overridden_knowingly(two_ranks, tmp_path):
    model = nn.Linear(2, 1)
    Checkpoints(tmp_path, ALONE, {"model": model}).save(Progress(3, 1, 2))
    with pytest.raises(AssertionError, match="expected 1 ranks, as it was saved with, got 2"):
        two_ranks.run(resumed_with, str(tmp_path), False)
    one, other = two_ranks.run(resumed_with, str(tmp_path), True)
    assert one[:3] == other[:3] == (Progress(3, 1, 2), {"ranks": (1, 2)}, model.weight.tolist())
    assert one[3] != other[3]  # each draws for itself


def sent_in_pieces(rank: Rank, folder: str) -> tuple:
    from torch_ddp.checkpoint import sharing

    before, sharing.PIECE_BYTES = sharing.PIECE_BYTES, 1000
    try:
        machine = rank._replace(local_rank=0)
        model = nn.Linear(64, 8)
        mine = Path(folder, str(rank.rank))
        begun = Checkpoints(mine, machine, {"model": model}).resume()
        return begun, model.weight.sum().item(), sorted(path.name for path in mine.glob("*"))
    finally:
        sharing.PIECE_BYTES = before


def test_a_machine_without_the_newest_gets_it_in_pieces_and_leaves_no_file(two_ranks, tmp_path):
    model = nn.Linear(64, 8)
    path = Checkpoints(tmp_path / "1", ALONE._replace(), {"model": model}).save(Progress(2, 0, 2))
    state = torch.load(path, weights_only=True)
    state["world_size"], state["random"] = 2, state["random"] * 2
    path.unlink()
    path = files.write_whole(tmp_path / "1", 2, state)
    one, other = two_ranks.run(sent_in_pieces, str(tmp_path))
    assert one == (Progress(2, 0, 2), model.weight.sum().item(), [])
    assert other == (Progress(2, 0, 2), model.weight.sum().item(), [path.name])
