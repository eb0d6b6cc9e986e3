"""The event files of --tensorboard, read back with TensorBoard's own reader."""

import math
import subprocess
import sys

import pytest
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.tensorflow_stub import errors
from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import PyRecordReader_New
from test_report import RESULTS
from test_report_page import looked_at

from parity.cli import main
from parity.cli.errors import CommandError
from parity.cli.output import claim_events
from parity.judge.result import Check, Level, Result
from parity.report import write_tensorboard
from parity.report.tensorboard import MOST_TENSORS, SIDES


def events(folder):
    """Returns what each side's only event file holds: tag to (step, value), and the histograms."""
    found = {}
    for side in SIDES:
        (path,) = (folder / side).iterdir()
        reader = PyRecordReader_New(str(path))
        whole = []
        while True:
            try:
                reader.GetNext()
            except errors.OutOfRangeError:
                break
            whole.append(Event.FromString(reader.record()))
        assert whole[0].file_version == "brain.Event:2"
        found[side] = [(event.step, value) for event in whole[1:] for value in event.summary.value]
    return found


def scalars(values, tag):
    return [(step, value.simple_value) for step, value in values if value.tag == tag]


def test_the_losses_of_both_sides_share_a_tag_and_so_a_chart(tmp_path):
    write_tensorboard(looked_at(), tmp_path)
    found = events(tmp_path)
    assert scalars(found["reference"], "loss/function, free run") == [(0, 2.0), (1, 1.0)]
    assert scalars(found["candidate"], "loss/function, free run") == [(0, 2.0), (1, 1.5)]
    assert scalars(found["difference"], "loss/function, free run, absolute error") == [(0, 0.0), (1, 0.5)]
    assert scalars(found["difference"], "loss/function, free run, tolerance") == [
        (0, pytest.approx(0.1)),
        (1, pytest.approx(0.2)),
    ]


def test_multiples_of_the_allowance_are_scalars_by_quantity_and_by_tensor(tmp_path):
    write_tensorboard(looked_at(), tmp_path)
    difference = events(tmp_path)["difference"]
    worst = scalars(difference, "largest ratio to the tolerance/function, lockstep/grad")
    assert worst == [(0, pytest.approx(0.154 / 1.44e-14))]
    of_tensor = scalars(difference, "ratio to the tolerance/function, free run/var/tower/conv1/weights")
    assert of_tensor == [(3, pytest.approx(2e13))]


def test_a_tensor_that_was_looked_at_is_a_histogram_on_both_sides(tmp_path):
    write_tensorboard(looked_at(), tmp_path)
    found = events(tmp_path)
    for side, tag in (("reference", "values"), ("candidate", "values"), ("difference", "candidate minus reference")):
        tag += "/function, lockstep/grad/tower/conv1/weights"
        ((step, value),) = [(step, value) for step, value in found[side] if value.tag == tag]
        assert step == 0
        assert list(value.histo.bucket) == [0] * 23 + [7]
        assert (value.histo.bucket_limit[-1], value.histo.num) == (1.0, 7)
        assert list(value.histo.bucket_limit) == sorted(value.histo.bucket_limit)


@pytest.mark.parametrize("name", RESULTS)
def test_every_result_can_be_written(name, tmp_path):
    write_tensorboard(RESULTS[name](), tmp_path)
    assert set(events(tmp_path)) == set(SIDES)


def test_of_many_tensors_those_that_differ_have_curves_of_their_own(tmp_path):
    checks = [Check("free", step, f"grad/{n}", "same", 1.0, 2.0) for step in (0, 1) for n in range(MOST_TENSORS + 9)]
    checks.append(Check("free", 0, "grad/bad", "different", math.inf, 0.0))
    write_tensorboard(Result({"function": Level("function", "different", "", checks)}, {}, {}), tmp_path)
    difference = events(tmp_path)["difference"]
    own = {value.tag for _, value in difference if value.tag.startswith("ratio to")}
    assert len(own) == MOST_TENSORS
    assert scalars(difference, "ratio to the tolerance/function, free run/grad/bad") == [(0, math.inf)]


def test_what_an_earlier_run_left_is_gone_and_other_files_stay(tmp_path):
    write_tensorboard(looked_at(), tmp_path)
    (tmp_path / "reference" / "events.out.tfevents.1.other").touch()
    claim_events(tmp_path)
    assert [path.name for path in tmp_path.rglob("*events*")] == ["events.out.tfevents.1.other"]


def test_without_tensorboard_the_message_says_what_to_install(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["compare", "x", "y", "--tensorboard", str(tmp_path / "logs")]) == 2
    message = (
        "expected the package tensorboard, got none. Install it (pip install tensorboard), or leave the option out."
    )
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_file_where_the_folder_should_be_is_refused(tmp_path):
    (tmp_path / "logs").touch()
    with pytest.raises(CommandError, match="--tensorboard: expected a folder that can be written"):
        claim_events(tmp_path / "logs")


def test_writing_loads_no_framework():
    program = (
        "import sys, tempfile, pathlib; from parity.report import write_tensorboard\n"
        "from parity.judge import Result\n"
        "write_tensorboard(Result({}, {}, {}), pathlib.Path(tempfile.mkdtemp()))\n"
        "print(sorted({'torch', 'tensorflow'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "[]\n", done.stderr
