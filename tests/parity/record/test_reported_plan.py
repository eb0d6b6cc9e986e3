"""What is said on stderr of a program while it is recorded, and when it has ended."""

from rank_folders import gradients, leave_ranks, mean, tensors_of

from parity.record.merge import Ranks, merge
from parity.record.report import Report

LOCAL = gradients()
STEP = [tensors_of(rank, LOCAL[rank], mean(LOCAL)) for rank in range(2)]
FACTS = {
    "wrappers": [{"name": "DistributedDataParallel", "model": "Net", "hook": "bf16_compress_hook"}],
    "schedules": [{"name": "StepLR", "steps": 1}],
    "autocast": ["bfloat16"],
}


def test_the_plan_is_printed_once_with_the_first_step(tmp_path, capsys):
    ranks = leave_ranks(tmp_path / "ranks", [STEP, STEP], (FACTS, FACTS))
    report = Report(2)
    report.progress(ranks)
    report.progress(ranks)
    assert capsys.readouterr().err.splitlines() == [
        "record: 2 ranks; DistributedDataParallel of Net; float32, autocast to bfloat16",
        "record: optimizer: gradients averaged by the hook bf16_compress_hook, applied by SGD with StepLR",
    ]


def test_the_plan_says_by_what_combined_gradients_are_multiplied(tmp_path, capsys):
    halves = {name: value / 2 for name, value in mean(LOCAL).items()}
    step = [tensors_of(rank, LOCAL[rank], mean(LOCAL), given=halves) for rank in range(2)]
    Report(1).progress(leave_ranks(tmp_path / "ranks", [step], (FACTS, FACTS)))
    said = "gradients averaged by the hook bf16_compress_hook, multiplied by 0.5 after that, applied by SGD with StepLR"
    assert capsys.readouterr().err.splitlines()[1] == f"record: optimizer: {said}"


def test_at_the_end_it_says_what_there_is_and_each_hazard(tmp_path, capsys):
    lone = [tensors_of(rank, LOCAL[rank], LOCAL[rank]) for rank in range(2)]
    ranks = leave_ranks(tmp_path / "ranks", [STEP, lone], (FACTS, {**FACTS, "closed": False}))
    report = Report(None)
    report.progress(ranks)
    capsys.readouterr()
    report.end(merge(ranks, str(tmp_path / "out"), whole=False), False, ranks, 137)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("record: 2 steps in ")
    assert lines[0].endswith("; the program ended with code 137, so the trace says that it is not complete")
    assert lines[1] == "  hazard gradients_not_shared: no gradient is shared between 2 ranks in step 1: bias, weight."
    assert len(lines) == 3


def test_where_nothing_was_recorded_it_says_what_was_looked_for(capsys):
    Report(None).nothing(Ranks(), 0)
    line, hint = capsys.readouterr().err.splitlines()
    assert line.startswith("record: expected a training step of every rank, got no optimizer's step in any process")
    assert line.endswith("No trace was written.")
    assert hint.endswith("a TensorFlow script stands there without it.")
