import subprocess
import sys
import time

import pytest
from trainer import OPTIONS, SCRIPT, STEPS, TORCHRUN, WITHIN, final, finish, result, same_bits, start

HALFWAY = 17  # no checkpoint falls on it by itself


def on_two_nodes(folder):
    nodes = [sys.executable, SCRIPT, "--nodes", 2, "--gpus", 1, "--rendezvous", (folder / "meeting").as_uri()]
    return [[*nodes, "--nr", number] for number in (0, 1)]


def run(folder, commands, *options):
    finish(*(start([*command, "--out", folder / "out", *options], folder) for command in commands))
    return folder / "out"


@pytest.mark.slow
def test_stopped_on_two_nodes_and_gone_on_by_torchrun_it_trains_the_same_to_the_bit(uninterrupted, tmp_path):
    run(tmp_path, on_two_nodes(tmp_path), "--steps", HALFWAY, *OPTIONS)
    assert (result(tmp_path / "out")["updates"], result(tmp_path / "out")["begun_at"]) == (HALFWAY, 0)
    out = run(tmp_path, [[*TORCHRUN, 2, SCRIPT]], "--steps", STEPS, *OPTIONS)
    assert same_bits(final(out)["parts"], final(uninterrupted)["parts"])
    assert same_bits(final(out)["random"], final(uninterrupted)["random"])
    assert result(out) == {**result(uninterrupted), "begun_at": HALFWAY}


@pytest.mark.slow
def test_it_leaves_its_result_and_its_checkpoints(uninterrupted):
    found = result(uninterrupted)
    assert (found["updates"], found["begun_at"], found["restarts"]) == (STEPS, 0, 0)
    assert 0.0 <= found["accuracy"] <= 1.0
    assert sorted(path.name[:15] for path in (uninterrupted / "checkpoints").glob("step*")) == [
        "step-0000000034",
        "step-0000000036",
    ]
    state = final(uninterrupted)
    assert state["world_size"] == 2
    assert len(state["random"]) == 2
    assert not same_bits(state["random"][0]["torch"], state["random"][1]["torch"])
    assert set(state["parts"]) == {"model", "optimizer", "schedule"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "precision", [["--precision", "bfloat16"], ["--opt-level", "O1"], ["--opt-level", "O2", "--sync-bn"]]
)
def test_three_epochs_learn_the_digits(tmp_path, precision):
    python = [[sys.executable, SCRIPT, "--gpus", 2]]
    found = result(run(tmp_path, python, "--epochs", 3, "--accumulate", 2, *precision))
    assert found["updates"] == 3 * (1437 // 2 // 16 // 2)
    assert found["accuracy"] > 0.9


SAYS = "print('first\\n' + 'word\\n' * 50_000 + 'last', flush=True)"


def test_everything_that_a_failed_start_said_is_in_the_error(tmp_path):
    failed, fine = [sys.executable, "-c", f"{SAYS}; raise SystemExit(3)"], [sys.executable, "-c", "print('beside it')"]
    with pytest.raises(AssertionError) as error:
        finish(start(failed, tmp_path), start(fine, tmp_path))
    said = subprocess.list2cmdline(failed) + "\nended with 3 after saying:\nfirst\n" + "word\n" * 50_000 + "last\n"
    beside = subprocess.list2cmdline(fine) + "\nended with 0 after saying:\nbeside it\n"
    assert str(error.value) == f"{said}\n{beside}"


def test_everything_that_a_start_said_before_it_hung_is_in_the_error(tmp_path):
    text = "import pathlib, time; print('so far', flush=True); pathlib.Path('said').touch(); time.sleep(600)"
    hanging = start([sys.executable, "-c", text], tmp_path)
    deadline = time.monotonic() + WITHIN
    while not (tmp_path / "said").exists() and hanging.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    with pytest.raises(AssertionError) as error:
        finish(hanging, within=0.0)
    assert str(error.value).endswith("ended with -9 after saying:\nso far\n\n(ended here: it took too long)")
