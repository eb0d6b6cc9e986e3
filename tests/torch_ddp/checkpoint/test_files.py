import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from torch_ddp import CheckpointError, newest_whole, read_whole, write_whole
from torch_ddp.checkpoint.__main__ import tensors_of

ROOT = Path(__file__).parents[3]


class Exploit:
    def __reduce__(self):
        return (os.mkdir, ("exploited",))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_is_written_is_read_back(tmp_path):
    state = {"weights": {"a": torch.arange(3.0, dtype=torch.bfloat16)}, "list": [1, 2.5, None, "x", (True, False)]}
    path = write_whole(tmp_path / "new", 7, state)
    found = newest_whole(tmp_path / "new")
    assert found.path == path
    again = read_whole(found.data)
    assert torch.equal(again["weights"].pop("a"), state["weights"].pop("a").cpu())
    assert again == state
    assert path.name.startswith("step-0000000007-")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=25)
@given(fraction=st.floats(0, 1, exclude_max=True))
def test_one_cut_short_anywhere_is_never_loaded_and_the_older_one_is(tmp_path, fraction):
    for path in tmp_path.iterdir():
        path.unlink()
    older = write_whole(tmp_path, 1, {"step": 1})
    newer = write_whole(tmp_path, 2, {"step": 2})
    data = newer.read_bytes()
    newer.write_bytes(data[: int(fraction * len(data))])
    with pytest.warns(
        UserWarning, match=r"^checkpoint: expected the whole of .*step-0000000002.*, got a damaged file of"
    ):
        found = newest_whole(tmp_path)
    assert found.path == older
    assert read_whole(found.data) == {"step": 1}


def test_a_changed_bit_is_noticed(tmp_path):
    path = write_whole(tmp_path, 1, {"a": torch.zeros(8)})
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    with pytest.warns(UserWarning, match="An older one is used; delete this one"):
        assert newest_whole(tmp_path) is None


def test_one_that_goes_on_with_holes_is_not_read_to_its_end(tmp_path, monkeypatch):
    path = write_whole(tmp_path, 1, {"step": 1})
    os.truncate(path, 1 << 40)  # a terabyte, of which a disk holds a page
    monkeypatch.setattr("torch_ddp.checkpoint.files.digest_of", lambda path: pytest.fail("read through"))
    with pytest.warns(UserWarning, match=r"got a damaged file of 1099511627776 bytes"):
        assert newest_whole(tmp_path) is None
    with pytest.raises(CheckpointError, match=r"^checkpoint: expected a file of torch_ddp\.checkpoint, got "):
        tensors_of(path, "model")


def test_files_of_other_names_are_left_alone(tmp_path):
    for name in ("step-1.pt", "notes.txt", "step-0000000009.unfinished.txt"):
        (tmp_path / name).write_text("mine")
    assert newest_whole(tmp_path) is None
    write_whole(tmp_path, 1, {}, keep=1)
    assert len(names(tmp_path)) == 4


def test_what_a_killed_writer_left_is_not_loaded_and_is_removed(tmp_path):
    (tmp_path / "step-0000000009.unfinished").write_bytes(b"half")
    assert newest_whole(tmp_path) is None
    path = write_whole(tmp_path, 1, {})
    assert names(tmp_path) == [path.name]


def test_a_writer_killed_before_the_rename_leaves_the_older_one(tmp_path):
    older = write_whole(tmp_path, 1, {"step": 1})
    program = (
        "import os, signal, sys\nfrom pathlib import Path\nfrom torch_ddp.checkpoint import files\n"
        "files._refuse_code = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "files.write_whole(Path(sys.argv[1]), 2, {'step': 2})\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], cwd=ROOT, timeout=120, check=False)
    assert done.returncode == -9
    assert names(tmp_path) == [older.name, "step-0000000002.unfinished"]
    assert newest_whole(tmp_path).path == older


def test_a_writer_that_is_interrupted_leaves_the_older_one_and_no_half(tmp_path, monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    older = write_whole(tmp_path, 1, {"step": 1})
    monkeypatch.setattr("torch_ddp.checkpoint.files._refuse_code", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_whole(tmp_path, 2, {"step": 2})
    assert names(tmp_path) == [older.name]


def test_a_folder_that_cannot_be_made_is_said(tmp_path):
    (tmp_path / "a").write_text("mine")
    with pytest.raises(
        CheckpointError, match=r"^checkpoint: expected a folder at .*/a/b, got: Not a directory\. Save in"
    ):
        write_whole(tmp_path / "a" / "b", 2, {"step": 2})


def test_a_damaged_later_one_gives_way(tmp_path):
    write_whole(tmp_path, 3, {"step": 3}).write_bytes(b"damaged")
    path = write_whole(tmp_path, 2, {"step": 2})
    assert names(tmp_path) == [path.name]


def test_a_training_begun_anew_does_not_mix_with_a_finished_one(tmp_path):
    finished = write_whole(tmp_path, 100, {"step": 100})
    with pytest.raises(CheckpointError) as error:
        write_whole(tmp_path, 1, {"step": 1})
    assert str(error.value) == (
        f"checkpoint: expected none later than step 1 in {tmp_path}, got {finished.name}. "
        "Resume from it, or save in another folder."
    )
    assert names(tmp_path) == [finished.name]


def test_one_of_the_same_step_is_replaced(tmp_path):
    write_whole(tmp_path, 4, {"value": 1})
    path = write_whole(tmp_path, 4, {"value": 2})
    assert names(tmp_path) == [path.name]


@pytest.mark.parametrize(
    ("value", "culprit"),
    [(np.float64(0.1), "numpy"), (Fraction(1, 3), "fractions.Fraction"), (Exploit(), "posix.mkdir")],
)
def test_what_could_only_be_loaded_by_running_code_is_refused_when_it_is_saved(tmp_path, value, culprit):
    with pytest.raises(CheckpointError) as error:
        write_whole(tmp_path, 1, {"parts": {"optimizer": [{"lr": value}], "model": {"a": torch.zeros(1)}}})
    message = str(error.value)
    assert message.startswith("checkpoint: expected tensors, numbers, strings and containers of them, got ")
    assert culprit in message
    assert "in ['parts']['optimizer'][0]['lr']. Turn it into one of those in state_dict" in message
    assert names(tmp_path) == []


def test_a_file_that_runs_code_is_not_loaded(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save({"x": Exploit()}, "evil.pt")
    with pytest.raises(Exception, match="Weights only load failed"):
        read_whole(Path("evil.pt").read_bytes())
    assert not Path("exploited").exists()


def test_at_least_one_is_kept(tmp_path):
    with pytest.raises(CheckpointError) as error:
        write_whole(tmp_path, 1, {}, keep=0)
    assert str(error.value) == "checkpoint: expected to keep at least one, got keep=0. Keep the newest."


@pytest.mark.parametrize("size", [10, 300_000])
def test_a_full_disk_is_said_with_file_and_cause_and_leaves_the_older_one(tmp_path, size):
    older = write_whole(tmp_path, 1, {"step": 1})
    # Beyond the limit on a file's size a write fails as on a full disk, but for the word.
    program = (
        "import resource, signal, sys, torch\nfrom pathlib import Path\nfrom torch_ddp import write_whole\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\nresource.setrlimit(resource.RLIMIT_FSIZE, (700, 700))\n"
        "write_whole(Path(sys.argv[1]), 2, {'a': torch.zeros(int(sys.argv[2]))})\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path), str(size)]
    done = subprocess.run(command, cwd=ROOT, timeout=120, check=False, capture_output=True, text=True)
    said = done.stderr.splitlines()[-1]
    assert said.startswith("torch_ddp.errors.CheckpointError: checkpoint: expected to write ")
    assert f"{tmp_path}/step-0000000002.unfinished, got File too large after " in said
    assert names(tmp_path) == [older.name]


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: os.symlink("nowhere", path)])
def test_what_only_has_the_name_of_a_checkpoint_is_none(tmp_path, make):
    path = write_whole(tmp_path, 1, {"step": 1})
    make(tmp_path / path.name.replace("0001-", "0002-"))
    assert newest_whole(tmp_path).path == path
    write_whole(tmp_path, 3, {"step": 3}, keep=1)
    assert newest_whole(tmp_path).step == 3
