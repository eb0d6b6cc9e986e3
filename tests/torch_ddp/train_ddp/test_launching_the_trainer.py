import sys

import pytest
from trainer import SCRIPT, TORCHRUN, final, finish, result, same_bits, start

FEW = ["--steps", 6, "--batch-size", 16, "--save-every", 4, "--warm-up", 3, "--report-every", 2]
COMMANDS = {
    "python": [[sys.executable, SCRIPT, "--gpus", 2]],
    "torchrun": [[*TORCHRUN, 2, SCRIPT]],
    "two nodes": [
        [sys.executable, SCRIPT, "--nodes", 2, "--gpus", 1, "--nr", node, "--rendezvous", "file:///{folder}/meeting"]
        for node in (0, 1)
    ],
}


@pytest.fixture(scope="module")
def by_python(tmp_path_factory):
    return run(tmp_path_factory.mktemp("python"), COMMANDS["python"])


def run(folder, commands, *options):
    started = []
    for command in commands:
        words = [str(word).replace("/{folder}", str(folder)) for word in command]
        started.append(start([*words, "--out", folder / "out", *(options or FEW)], folder))
    finish(*started)
    return folder / "out"


@pytest.mark.parametrize("how", ["torchrun", "two nodes"])
def test_however_it_is_launched_it_trains_the_same_to_the_bit(by_python, tmp_path, how):
    out = run(tmp_path, COMMANDS[how])
    one, other = final(by_python), final(out)
    assert same_bits(one["parts"], other["parts"])
    assert same_bits(one["random"], other["random"])
    assert result(out) == result(by_python)


def test_it_leaves_its_result_and_its_checkpoints(by_python):
    found = result(by_python)
    assert (found["updates"], found["begun_at"], found["restarts"]) == (6, 0, 0)
    assert 0.0 <= found["accuracy"] <= 1.0
    assert sorted(path.name[:15] for path in (by_python / "checkpoints").iterdir()) == [
        "step-0000000004",
        "step-0000000006",
    ]
    state = final(by_python)
    assert state["world_size"] == 2
    assert len(state["random"]) == 2
    assert not same_bits(state["random"][0]["torch"], state["random"][1]["torch"])
    assert set(state["parts"]) == {"model", "optimizer", "schedule"}


def test_started_again_it_goes_on_where_it_was_as_if_never_stopped(by_python, tmp_path):
    command = [[sys.executable, SCRIPT, "--gpus", 2, "--quiet"]]
    run(tmp_path, command, *FEW, "--steps", 3)
    out = run(tmp_path, command, *FEW)
    assert result(out)["begun_at"] == 3
    assert same_bits(final(out)["parts"], final(by_python)["parts"])


@pytest.mark.slow
def test_three_epochs_learn_the_digits(tmp_path):
    out = run(tmp_path, COMMANDS["python"], "--epochs", 3, "--precision", "bfloat16", "--accumulate", 2)
    found = result(out)
    assert found["updates"] == 3 * (1437 // 2 // 16 // 2)
    assert found["accuracy"] > 0.9
