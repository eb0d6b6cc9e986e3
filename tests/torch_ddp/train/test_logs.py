"""What rank 0 says of a training, and that the others say nothing."""

import importlib.util
import json

import pytest
import torch

from torch_ddp import Progress, Rank
from torch_ddp.train import logs
from torch_ddp.train.logs import CsvLog, Profiler, Report


class Curves(list):
    """Stands for TensorBoard's writer."""

    def add_scalar(self, name, value, step):
        self.append((name, value, step))

    def close(self):
        self.append("closed")


@pytest.mark.parametrize(("rank", "said"), [(0, True), (1, False)])
def test_only_rank_0_shows_progress_and_writes_curves(monkeypatch, capsys, tmp_path, rank, said):
    curves = Curves()
    monkeypatch.setattr(logs, "_curves", lambda folder, begun: curves)
    with Report(Rank(rank, rank, 2), tmp_path, 0, 10, tensorboard=True, csv=True) as report:
        report.update(Progress(1, 0, 1), {"loss": 2.0, "learning_rate": 0.5})
        report.epoch(Progress(1, 1, 0), {"accuracy": 0.5})
    printed = capsys.readouterr()
    assert printed.out == ""
    assert ("1 epochs, 1 updates, held out: accuracy 0.5000" in printed.err) == said
    assert ("1/10" in printed.err) == said
    numbers = [("training/loss", 2.0, 1), ("training/learning_rate", 0.5, 1), ("held_out/accuracy", 0.5, 1)]
    assert curves == ([*numbers, "closed"] if said else [])
    rows = "step,epoch,name,value\n1,0,training/loss,2.0\n1,0,training/learning_rate,0.5\n1,1,held_out/accuracy,0.5\n"
    assert [path.read_text() for path in tmp_path.iterdir()] == ([rows] if said else [])


def test_a_report_that_is_not_asked_for_files_leaves_none(tmp_path, capsys):
    with Report(Rank(0, 0, 1), tmp_path, 0, 10, bar=False) as report:
        report.update(Progress(1, 0, 1), {"loss": 2.0})
    assert list(tmp_path.iterdir()) == []
    assert capsys.readouterr().err == ""


def test_a_resumed_log_goes_on_behind_its_checkpoint(tmp_path):
    path = tmp_path / "new" / "log.csv"
    log = CsvLog(path, 0)
    for step in (1, 2, 3):
        log.add(Progress(step, 0, step), "training/loss", 0.1 * step)
    log.close()
    with path.open("a") as file:
        file.write("4,0,train")  # the process was killed here
    log = CsvLog(path, 2)
    log.add(Progress(3, 0, 3), "training/loss", 7.0)
    log.close()
    rows = ["step,epoch,name,value", "1,0,training/loss,0.1", "2,0,training/loss,0.2", "3,0,training/loss,7.0"]
    assert path.read_text().splitlines() == rows
    assert [each.name for each in path.parent.iterdir()] == ["log.csv"]


@pytest.mark.skipif(
    importlib.util.find_spec("tensorboard") is None, reason="needs tensorboard: pip install tensorboard"
)
def test_curves_are_files_that_tensorboard_reads(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    curves = logs._curves(tmp_path, 0)
    curves.add_scalar("training/loss", 2.0, 7)
    curves.close()
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [(event.step, event.value) for event in events.Scalars("training/loss")] == [(7, 2.0)]


def test_a_profile_is_of_so_many_updates_and_a_trace_that_browsers_show(tmp_path):
    file = tmp_path / "profile" / "rank-0.json"
    with Profiler(2, file, torch.device("cpu")).running() as profiler:
        for _ in range(5):
            torch.ones(3).cumsum(0)
            profiler.step()
    names = [event.get("name") for event in json.loads(file.read_text())["traceEvents"]]
    assert names.count("aten::cumsum") == 2


def test_no_profile_is_no_file(tmp_path):
    with Profiler(0, tmp_path / "rank-0.json", torch.device("cpu")).running() as profiler:
        profiler.step()
    assert list(tmp_path.iterdir()) == []
