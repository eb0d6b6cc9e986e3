"""A blessed case is checked again without TensorFlow, and a port that has changed since is found."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from parity.case import load_case
from parity.cli import main
from parity.experiment import GoldenError, keep_golden, open_sides, run_case
from parity.experiment.sides.golden_side import GoldenSide
from parity.mapping.states import read_all, write_states
from parity.testing import assert_parity
from parity.trace import DamagedError, Trace, read_json

SQUARE = Path(__file__).parents[1] / "cases" / "square"
WITHOUT_TENSORFLOW = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("tensorflow", "tf_towers"):
            raise AssertionError("imported " + name)
sys.meta_path.insert(0, Refuse())
from parity.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def blessed(tmp_path_factory, tf2_sides):
    """A copy of a case, with its golden trace."""
    folder = tmp_path_factory.mktemp("blessed") / "square"
    shutil.copytree(SQUARE, folder)
    case = load_case(folder)
    recorded = folder.parent / "recorded"
    assert run_case(case, tf2_sides, out=recorded).verdict == "same"
    keep_golden(case, recorded, folder / "golden")
    return folder


@pytest.fixture
def copied(blessed, tmp_path):
    return Path(shutil.copytree(blessed, tmp_path / "square"))


def test_a_right_port_passes_against_the_golden_trace_without_tensorflow(copied):
    program = [sys.executable, "-c", WITHOUT_TENSORFLOW, "run", str(copied), "--golden", str(copied / "golden")]
    done = subprocess.run(program, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("verdict: same (combination: ours, not the port's)  square")
    assert "1 function    same" in done.stdout and "2 float32     same" in done.stdout


@pytest.mark.usefixtures("sides_in_forks")
def test_a_port_that_has_changed_since_fails_with_the_report_as_its_text(copied):
    port = copied / "model_torch.py"
    port.write_text(port.read_text().replace(".mean()", ".sum()"))
    with pytest.raises(AssertionError, match="verdict: different  square") as caught:
        assert_parity(copied / "golden", copied)
    assert "First difference: step 0, loss" in str(caught.value)
    assert "Cause: " in str(caught.value)


@pytest.mark.usefixtures("sides_in_forks")
def test_the_result_of_a_passing_assertion_can_be_looked_at(copied):
    result = assert_parity(copied / "golden", copied, levels=("function",))
    assert result.levels["function"].verdict == "same"
    assert result.levels["float32"].verdict == "not_run"


def test_another_case_than_the_blessed_one_is_refused(copied):
    with pytest.raises(GoldenError) as caught:
        assert_parity(copied / "golden", copied, steps=2)
    assert str(caught.value).startswith("golden: expected steps = 3 as it was blessed in ")
    assert str(caught.value).endswith("got 2. Change the case back, or bless it again.")


@pytest.mark.parametrize("name", ["golden.json", "trace.json", "init.safetensors", "step-000001.safetensors"])
def test_a_golden_trace_with_a_flipped_bit_is_told_before_anything_is_run(copied, name):
    case = load_case(copied)
    GoldenSide(copied / "golden", case)
    for file in sorted((copied / "golden").rglob(name)):
        whole = file.read_bytes()
        file.write_bytes(whole[:-9] + bytes([whole[-9] ^ 4]) + whole[-8:])
        with pytest.raises(
            DamagedError, match=rf"this file is damaged: expected the checksum \S+ of {re.escape(str(file))}"
        ):
            GoldenSide(copied / "golden", case)
        file.write_bytes(whole)
        os.utime(file, ns=(0, 0))  # within one tick of the clock it would be taken for the damaged one


@pytest.mark.usefixtures("sides_in_forks")
def test_a_folder_that_is_no_golden_trace_or_of_another_version_is_refused(copied):
    case = load_case(copied)
    description = copied / "golden" / "golden.json"
    known = read_json(str(description))
    with open_sides(None, reference=False) as sides:
        description.write_text(json.dumps({**known, "format_version": 99}))
        with pytest.raises(GoldenError, match=r"got another .*Bless the case again"):
            run_case(case, sides, golden=copied / "golden")
        description.write_text("{")
        with pytest.raises(GoldenError, match="expected JSON"):
            run_case(case, sides, golden=copied / "golden")
        description.unlink()
        with pytest.raises(GoldenError, match="Bless a case first"):
            run_case(case, sides, golden=copied / "golden")


@pytest.mark.parametrize(
    ("cut", "told"),
    [
        (
            lambda values: np.float32(3.0),
            "expected examples along the first axis of feed/features in .*, got one number",
        ),
        (lambda values: values[:-1], "expected 12 examples along the first axis of feed/targets in .*, got 11"),
    ],
)
def test_an_input_of_a_golden_trace_without_its_examples_is_refused(copied, tmp_path, cut, told):
    feeds = copied / "golden" / "feeds"
    batches = [(number, read_all(Trace(feeds).step(number))) for number in Trace(feeds).step_numbers]
    name = re.search(r"feed/\w+", told)[0]
    batches[-1][1][name] = cut(batches[-1][1][name])
    shutil.rmtree(feeds)
    write_states(feeds, batches)
    side = GoldenSide(copied / "golden", load_case(copied))
    with pytest.raises(GoldenError, match=told):
        side.batches(tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_folder_of_other_things_is_never_overwritten(copied):
    (copied / "photos").mkdir()
    (copied / "photos" / "me.jpg").write_text("me")
    with pytest.raises(GoldenError, match="got other files"):
        keep_golden(load_case(copied), copied, copied / "photos")
    assert (copied / "photos" / "me.jpg").exists()


@pytest.mark.usefixtures("sides_in_forks")
@pytest.mark.slow
def test_blessing_keeps_nothing_of_a_port_that_is_not_the_same(tmp_path, capsys):
    shutil.copytree(SQUARE, tmp_path / "square")
    port = tmp_path / "square" / "model_torch.py"
    port.write_text(port.read_text().replace(".mean()", ".sum()"))
    assert main(["bless", str(tmp_path / "square")]) == 1
    assert "nothing is kept: only a port that is proven can be blessed" in capsys.readouterr().out
    assert not (tmp_path / "square" / "golden").exists()


@pytest.mark.usefixtures("sides_in_forks")
@pytest.mark.slow
def test_blessing_says_where_the_golden_trace_is_and_how_to_use_it(tmp_path, capsys):
    shutil.copytree(SQUARE, tmp_path / "square")
    assert main(["bless", str(tmp_path / "square"), "--steps", "2"]) == 0
    shown = capsys.readouterr().out
    golden = tmp_path / "square" / "golden"
    assert f"check the port against it: parity run {tmp_path / 'square'} --golden {golden} --steps 2" in shown
    assert (golden / "golden.json").is_file()


def test_two_recorded_traces_are_compared_too(copied, tmp_path, tf2_sides):
    run_case(load_case(copied), tf2_sides, out=tmp_path / "out")
    assert_parity(tmp_path / "out" / "tf" / "float64", tmp_path / "out" / "torch" / "float64")
