import random
from pathlib import Path

import numpy as np
import pytest
import torch
import trainings
from torch import nn

from torch_ddp import (
    CheckpointError,
    Checkpoints,
    MasterWeights,
    Progress,
    Rank,
    newest_whole,
    random_state,
    read_whole,
    seed_all,
    set_random_state,
)

ALONE = Rank(0, 0, 1)
CPU = torch.device("cpu")


def equal(one: dict, other: dict) -> bool:
    return set(one) == set(other) and all(np.array_equal(one[name], other[name]) for name in one)


def test_two_resumed_ranks_go_on_to_the_bit(two_ranks, tmp_path):
    straight = two_ranks.run(trainings.run, str(tmp_path / "straight"), 7, ())
    cut = two_ranks.run(trainings.run, str(tmp_path / "cut"), 4, (4,))
    resumed = two_ranks.run(trainings.run, str(tmp_path / "cut"), 7, ())
    assert [rank["begun"] for rank in resumed] == [(4, 0, 4)] * 2
    for rank in range(2):
        assert equal(resumed[rank]["weights"], straight[rank]["weights"])
        assert not equal(cut[rank]["weights"], straight[rank]["weights"])


@pytest.mark.parametrize("saved_by", [0, 1])
def test_machines_that_do_not_share_a_folder_all_go_on_from_the_newest_of_any(two_ranks, tmp_path, saved_by):
    for step, machine in ((2, saved_by), (1, 1 - saved_by)):
        two_ranks.run(trainings.run, str(tmp_path / str(machine)), step, (step,))
    found = two_ranks.run(resume_elsewhere, str(tmp_path))
    assert [begun for begun, _ in found] == [(2, 0, 2)] * 2
    assert equal(found[0][1], found[1][1])


def resume_elsewhere(rank: Rank, folder: str) -> tuple:
    machine = rank._replace(local_rank=0)
    found = trainings.run(machine, f"{folder}/{rank.rank}", 2, ())
    return found["begun"], found["weights"]


def test_another_world_size_is_refused(two_ranks, tmp_path):
    two_ranks.run(trainings.run, str(tmp_path), 1, (1,))
    assert trainings.load_at_all(ALONE, str(tmp_path), ["model", "optimizer", "schedule"]) == (
        "checkpoint: expected 2 ranks, as it was saved with, got 1. "
        "Start 2 ranks, override it knowingly, or begin anew in another folder."
    )


def test_other_parts_are_refused(tmp_path):
    Checkpoints(tmp_path, ALONE, {"model": nn.Linear(1, 1), "scaler": nn.Linear(1, 1)}).save(Progress(1, 0, 1))
    assert trainings.load_at_all(ALONE, str(tmp_path), ["model", "ema"]) == (
        "checkpoint: expected the parts ema, model, got model, scaler. Resume with the options that it was saved with."
    )


def test_a_later_format_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("torch_ddp.checkpoint.checkpoints.CHECKPOINT_FORMAT", 2)
    Checkpoints(tmp_path, ALONE, {"model": nn.Linear(1, 1)}).save(Progress(1, 0, 1))
    monkeypatch.undo()
    assert trainings.load_at_all(ALONE, str(tmp_path), ["model"]) == (
        "checkpoint: expected format 1, got 2. Use the version that saved it."
    )


def test_a_training_without_checkpoint_begins_at_its_beginning(tmp_path):
    checkpoints = Checkpoints(tmp_path / "none", ALONE, {"model": nn.Linear(1, 1)})
    before = torch.get_rng_state()
    assert checkpoints.resume() is None
    assert torch.equal(before, torch.get_rng_state())


def test_what_was_saved_is_stated_beside_the_parts(tmp_path):
    path = Checkpoints(tmp_path, ALONE, {"model": nn.Linear(1, 1)}).save(Progress(5, 2, 1))
    state = read_whole(path.read_bytes())
    assert state["progress"] == {"step": 5, "epoch": 2, "offset": 1}
    assert (state["world_size"], state["threads"]) == (1, torch.get_num_threads())
    assert state["torch"] == torch.__version__
    assert len(state["random"]) == 1


def test_the_number_of_threads_is_taken_back(tmp_path):
    checkpoints = Checkpoints(tmp_path, ALONE, {"model": nn.Linear(1, 1)})
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        checkpoints.save(Progress(1, 0, 1))
        torch.set_num_threads(2)
        checkpoints.resume()
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


@pytest.mark.on_cpu("looks at the CPU's generators")
def test_all_generators_go_on_where_they_stood():
    random.seed(3)
    np.random.seed(3)
    draws = []
    random.gauss(0, 1)
    np.random.standard_normal()
    state = random_state(CPU)
    for _ in range(2):
        draws.append(
            (random.gauss(0, 1), random.random(), np.random.standard_normal(), np.random.rand(), torch.rand(2))
        )
        set_random_state({name: torch.from_numpy(value) for name, value in state.items()}, CPU)
    assert draws[0][:4] == draws[1][:4]
    assert torch.equal(draws[0][4], draws[1][4])


def test_the_same_seed_gives_the_same_draws_of_every_generator():
    draws = []
    for _ in range(2):
        seed_all(2**32 - 1)
        draws.append((random.random(), float(np.random.rand()), float(torch.rand(()))))
    assert draws[0] == draws[1]


def test_masters_that_are_the_optimizers_own_are_saved_and_the_models_are_not(tmp_path):
    model = nn.Linear(2, 1).half()
    model.bias.data = model.bias.data.float()
    master = nn.Parameter(model.weight.detach().float() + 1e-5)
    optimizer = torch.optim.SGD([{"params": [model.bias]}, {"params": [master]}], lr=0.1)
    masters = MasterWeights(optimizer, model)
    assert set(masters.state_dict()) == {"1.0"}
    exact = master.detach().clone()
    checkpoints = Checkpoints(tmp_path, ALONE, {"model": model, "optimizer": optimizer, "masters": masters})
    checkpoints.save(Progress(1, 0, 1))
    with torch.no_grad():
        master.zero_()
    checkpoints.resume()
    assert torch.equal(master, exact)
    assert not torch.equal(master, model.weight.float())


def test_a_loss_scaler_is_a_part_like_any_other(tmp_path):
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=5)
    parameter = nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    for factor in (1.0, float("inf"), 1.0):
        scaler.scale(parameter.sum() * factor).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    Checkpoints(tmp_path, ALONE, {"scaler": scaler, "optimizer": optimizer}).save(Progress(3, 0, 3))
    fresh = torch.amp.GradScaler("cpu")
    Checkpoints(tmp_path, ALONE, {"scaler": fresh, "optimizer": optimizer}).resume()
    assert fresh.state_dict() == scaler.state_dict()
    assert (fresh.get_scale(), fresh.state_dict()["_growth_tracker"]) == (4.0, 1)


def test_masters_of_other_shapes_are_refused_and_none_is_copied():
    model = nn.Linear(2, 1)
    master = nn.Parameter(torch.ones(2))
    masters = MasterWeights(torch.optim.SGD([master], lr=0.1), model)
    with pytest.raises(CheckpointError) as error:
        masters.load_state_dict({"0.0": torch.zeros(3)})
    assert str(error.value) == (
        "checkpoint: expected master weights {'0.0': [2]}, got {'0.0': [3]}. Use the precision that it was saved with."
    )
    assert master.tolist() == [1.0, 1.0]


def test_only_so_many_are_kept_and_the_newest_is_found(tmp_path):
    checkpoints = Checkpoints(tmp_path, ALONE, {"model": nn.Linear(1, 1)}, keep=2)
    paths = [checkpoints.save(Progress(step, 0, step)) for step in (1, 2, 10)]
    assert trainings.sizes(tmp_path) == ["step-0000000002", "step-0000000010"]
    assert newest_whole(Path(tmp_path)).path == paths[-1]


def test_a_rank_trains_where_its_model_lies_unless_it_says_otherwise(tmp_path):
    rank, model = Rank(0, 0, 1), nn.Linear(1, 1, device="meta")
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    assert Checkpoints(tmp_path, rank, {"optimizer": optimizer, "model": model})._device == torch.device("meta")
    assert Checkpoints(tmp_path, rank, {"optimizer": optimizer})._device == CPU
    assert Checkpoints(tmp_path, rank, {"model": model}, CPU)._device == CPU
