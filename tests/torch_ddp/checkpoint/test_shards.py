"""Checkpoints that all ranks write together, in safetensors next to a file that names them."""

import importlib.util
import json
import logging
import os
import warnings

import pytest
import torch
from torch import nn

from torch_ddp import CheckpointError, Checkpoints, Progress, Rank, checkpoint
from torch_ddp.checkpoint import shards
from torch_ddp.checkpoint.__main__ import tensors_of
from torch_ddp.checkpoint.copies import tensors_of as elements_of

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("safetensors") is None, reason="needs safetensors: pip install safetensors"
)
ALONE = Rank(0, 0, 1)


def training(rank: Rank, folder: str, seed: int = 0, **more):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Linear(16, 2).to(torch.bfloat16))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    for weight in model.parameters():
        weight.grad = torch.full_like(weight, 0.5)
    optimizer.step()
    return model, optimizer, Checkpoints(folder, rank, {"model": model, "optimizer": optimizer}, **more)


def saved(rank: Rank, folder: str, steps: list[int], seed: int = 0) -> list:
    model, optimizer, checkpoints = training(rank, folder, seed, sharded=True)
    for step in steps:
        checkpoints.save(Progress(step, 0, step))
    return [tensor.tolist() for tensor in elements_of([model.state_dict(), optimizer.state_dict()])]


def resumed(rank: Rank, folder: str, override: bool = False) -> tuple:
    model, optimizer, checkpoints = training(rank, folder, 7, override=override)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of damage, and of another number of ranks
        progress = checkpoints.resume()
    return progress, [tensor.tolist() for tensor in elements_of([model.state_dict(), optimizer.state_dict()])]


def names(folder):
    return sorted(path.name.rpartition("-")[0] for path in folder.iterdir())


def test_two_ranks_write_some_each_and_read_all_of_it_back(two_ranks, tmp_path):
    values = two_ranks.run(saved, str(tmp_path), [3, 4, 5])
    assert two_ranks.run(resumed, str(tmp_path)) == [(Progress(5, 0, 5), values[0])] * 2
    assert names(tmp_path) == ["shards-0000000004", "shards-0000000005", "step-0000000004", "step-0000000005"]
    for place in tmp_path.glob("shards-*"):
        sizes = [path.stat().st_size for path in place.iterdir()]
        assert len(sizes) == 2 and min(sizes) > 0.2 * max(sizes)


def test_another_number_of_ranks_reads_what_two_wrote(two_ranks, tmp_path):
    values = two_ranks.run(saved, str(tmp_path), [3])
    assert resumed(ALONE, str(tmp_path), override=True) == (Progress(3, 0, 3), values[0])


def test_one_with_a_damaged_or_missing_shard_is_not_the_newest(tmp_path):
    saved(ALONE, str(tmp_path), [1, 2])
    [shard] = next(iter(tmp_path.glob("shards-0000000002*"))).iterdir()
    data = bytearray(shard.read_bytes())
    data[-1] ^= 1
    shard.write_bytes(bytes(data))
    assert resumed(ALONE, str(tmp_path))[0] == Progress(1, 0, 1)
    shard.unlink()
    with pytest.warns(UserWarning, match=r"got a damaged file"):
        assert training(ALONE, str(tmp_path))[2].resume() == Progress(1, 0, 1)


def test_a_shard_that_goes_on_with_holes_is_not_read_to_its_end(tmp_path, monkeypatch):
    saved(ALONE, str(tmp_path), [1])
    [shard] = next(iter(tmp_path.glob("shards-*"))).iterdir()
    os.truncate(shard, 1 << 40)
    monkeypatch.setattr("torch_ddp.checkpoint.shards.digest_of", lambda path: pytest.fail("read through"))
    with pytest.warns(UserWarning, match=r"got a damaged file"):
        assert training(ALONE, str(tmp_path))[2].resume() is None


def test_a_writer_killed_before_the_file_that_names_the_shards_leaves_the_older_one(tmp_path, monkeypatch):
    values = saved(ALONE, str(tmp_path), [1])
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(
            "torch_ddp.checkpoint.checkpoints.write_whole", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt)
        )
        saved(ALONE, str(tmp_path), [1], seed=3)  # of the same step, even
    assert len(list(tmp_path.glob("shards-*"))) == 2
    assert resumed(ALONE, str(tmp_path)) == (Progress(1, 0, 1), values)
    saved(ALONE, str(tmp_path), [2])
    assert len(list(tmp_path.glob("shards-*"))) == len(list(tmp_path.glob("step-*"))) == 2


@pytest.mark.on_cpu("exports tensors of a file, which lie on the CPU")
def test_what_is_exported_are_the_tensors_and_not_their_places(tmp_path):
    model, _, checkpoints = training(ALONE, str(tmp_path), sharded=True)
    path = checkpoints.save(Progress(3, 0, 3))
    for source in (path, tmp_path):
        exported = tensors_of(source, "model")
        assert torch.equal(torch.from_numpy(exported["0.weight"]), model[0].weight)


def test_a_disk_without_room_is_said_with_the_folder_and_the_cause(tmp_path):
    import resource
    import signal

    saved(ALONE, str(tmp_path), [1])
    before = resource.getrlimit(resource.RLIMIT_FSIZE), signal.getsignal(signal.SIGXFSZ)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300, before[0][1]))
    try:
        with pytest.raises(CheckpointError, match=r"expected to write .*shards-0000000002-.*, got .*File too large"):
            saved(ALONE, str(tmp_path), [2])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before[0])
        signal.signal(signal.SIGXFSZ, before[1])
    assert resumed(ALONE, str(tmp_path))[0] == Progress(1, 0, 1)


@pytest.mark.parametrize(
    "row",
    [
        {"folder": "../elsewhere", "files": {}},
        {"folder": "shards-0000000001-" + 32 * "0", "files": {"../x.safetensors": "0"}},
        {"folder": "shards-0000000001-" + 32 * "0", "files": {"x.pt": "0"}},
        {"folder": 3, "files": {}},
        {"files": {}},
        [],
    ],
    ids=json.dumps,
)
def test_names_that_leave_the_folder_are_no_shards(row):
    assert not shards.are_shards(row)
    assert shards.are_shards({"folder": "shards-0000000001-" + 32 * "0", "files": {"x-1.safetensors": "0"}})
    assert shards.are_shards(None)


def test_sharded_is_not_in_the_background_and_needs_its_package(tmp_path, monkeypatch):
    with pytest.raises(CheckpointError, match="expected sharded or background, got both"):
        training(ALONE, str(tmp_path), sharded=True, background=True)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(CheckpointError, match="expected the package safetensors for sharded=True, got none"):
        training(ALONE, str(tmp_path), sharded=True)
    assert os.listdir(tmp_path) == []
    assert checkpoint.Checkpoints is Checkpoints


@pytest.mark.parametrize("named", [True, False])
def test_a_pipe_among_the_shards_is_not_waited_for(tmp_path, named):
    saved(ALONE, str(tmp_path), [1])
    [place] = tmp_path.glob("shards-*")
    [shard] = place.iterdir()
    if named:
        shard.unlink()
    os.mkfifo(shard if named else place / "other.safetensors")
    assert resumed(ALONE, str(tmp_path))[0] is None
    with pytest.raises(CheckpointError, match=r"expected the files in .* that it was saved with"):
        tensors_of(next(tmp_path.glob("*.pt")), "model")


def test_a_shard_that_cannot_be_read_is_refused_in_a_line_and_no_traceback_is_logged(tmp_path, caplog):
    saved(ALONE, str(tmp_path), [1])
    [place] = tmp_path.glob("shards-*")
    [shard] = place.iterdir()
    data = bytearray(shard.read_bytes())
    data[8:12] = b"}}}}"
    shard.write_bytes(data)
    with pytest.raises(CheckpointError, match=r"expected the tensors of 'model' in .*, got ") as raised:
        tensors_of(next(tmp_path.glob("*.pt")), "model")
    assert "\n" not in str(raised.value)
    logging.getLogger().warning("metadata of others")
    # Its other loggers have a handler that leaves all of it out; what the root logger has goes to the terminal.
    assert [each.message for each in caplog.records if each.name == "root"] == ["metadata of others"]


def test_a_shard_that_cannot_be_mapped_is_not_whole(tmp_path, monkeypatch):
    saved(ALONE, str(tmp_path), [1])
    (path,) = tmp_path.glob("step-*")
    assert shards.shards_are_whole(path)

    def out_of_addresses(*_, **__):
        raise MemoryError

    monkeypatch.setattr("safetensors.safe_open", out_of_addresses)
    assert not shards.shards_are_whole(path)
