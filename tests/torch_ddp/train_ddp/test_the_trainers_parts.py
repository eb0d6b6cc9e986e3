import importlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from torch_ddp import CheckpointError, Progress, Rank, TorchDdpError, process_group

FOLDER = Path(__file__).parents[3] / "examples" / "train_ddp"
MODULES = ("assembly", "data", "digits", "model", "options", "precision", "report", "train")


@pytest.fixture
def modules(monkeypatch) -> Iterator[SimpleNamespace]:
    """The modules of the trainer, which are on the path only while its script runs."""
    monkeypatch.syspath_prepend(str(FOLDER))
    yield SimpleNamespace(
        **{name: importlib.import_module(name) for name in ("options", "precision", "report", "data")}
    )
    for name in MODULES:
        sys.modules.pop(name, None)


def parsed(modules, *words):
    return modules.options.make_parser("", modules.precision.PRECISIONS).parse_args(words)


def accumulated(rank: Rank, pieces: int) -> tuple[list, int, float]:
    """Makes one update from a share in pieces; returns gradients, how often they travelled, and the loss."""
    sys.path.insert(0, str(FOLDER))
    try:
        from precision import Float32
        from train import update
    finally:
        sys.path.remove(str(FOLDER))
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Linear(3, 4).double())
    travelled = []

    def counted(state, bucket):
        travelled.append(bucket.index())
        buffer = bucket.buffer().div_(rank.world_size)
        return torch.distributed.all_reduce(buffer, async_op=True).get_future().then(lambda done: done.value()[0])

    model.register_comm_hook(None, counted)
    images, labels = torch.randn(16, 3, dtype=torch.float64), torch.arange(16) % 4
    share = [part[8 * rank.rank : 8 * rank.rank + 8] for part in (images, labels)]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    cut = [list(piece) for piece in zip(*(part.chunk(pieces) for part in share), strict=True)]
    loss = update(model, Float32(model.module, optimizer, torch.device("cpu")), cut, "at update 1")
    return [value.grad.tolist() for value in model.parameters()], len(travelled), loss


def test_pieces_add_up_to_the_whole_share_and_travel_once(two_ranks):
    whole = two_ranks.run(accumulated, 1)
    for pieces in (2, 4):
        for (gradients, travelled, loss), (expected, _, expected_loss) in zip(
            two_ranks.run(accumulated, pieces), whole, strict=True
        ):
            for found, right in zip(gradients, expected, strict=True):
                torch.testing.assert_close(torch.tensor(found), torch.tensor(right), rtol=1e-14, atol=1e-15)
            assert travelled == 1
            assert loss == pytest.approx(expected_loss, rel=1e-14)


@pytest.mark.parametrize("flag", ["--epochs", "--steps", "--batch-size", "--accumulate", "--save-every"])
def test_numbers_of_nothing_are_refused(modules, flag):
    with pytest.raises(TorchDdpError) as error:
        modules.options.check_options(parsed(modules, flag, "0"))
    assert str(error.value) == f"train: expected {flag} to be at least 1, got 0. Raise it."


def test_two_answers_to_the_question_of_precision_are_refused(modules):
    with pytest.raises(TorchDdpError) as error:
        modules.options.check_options(parsed(modules, "--opt-level", "O1", "--precision", "bfloat16"))
    assert str(error.value) == ("train: expected --opt-level or --precision, got O1 and bfloat16. Use one of them.")


def test_a_half_precision_without_a_level_is_refused(modules):
    with pytest.raises(TorchDdpError) as error:
        modules.options.check_options(parsed(modules, "--half-dtype", "bfloat16"))
    assert str(error.value) == (
        "train: expected --opt-level with --half-dtype, got --half-dtype bfloat16 alone. Add --opt-level O1."
    )
    modules.options.check_options(parsed(modules, "--half-dtype", "bfloat16", "--opt-level", "O2"))


@pytest.mark.parametrize("flag", ["--sync-bn", "--sync-batch-norm"])
def test_batch_norm_over_all_ranks_is_accepted_on_cpus(modules, flag):
    options = parsed(modules, flag)
    modules.options.check_options(options)
    assert (options.sync_bn, options.backend) == (True, "gloo")


def test_a_missing_tensorboard_is_said_before_anything_starts(modules, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(TorchDdpError) as error:
        modules.options.check_options(parsed(modules, "--tensorboard"))
    assert str(error.value) == (
        "train: expected the package tensorboard for --tensorboard, got none. "
        "Install it with 'pip install tensorboard', or leave --tensorboard out."
    )


def test_a_batch_that_ranks_and_pieces_do_not_divide_is_refused(modules):
    options = parsed(modules, "--batch-size", "10", "--accumulate", "2")
    assert modules.options.examples_per_piece(options, Rank(0, 0, 1)) == 5
    with pytest.raises(TorchDdpError) as error:
        modules.options.examples_per_piece(options, Rank(0, 0, 2))
    assert str(error.value) == (
        "train: expected --batch-size to be divisible by 2 ranks times 2 pieces, got 10. Use a multiple of 4."
    )


class Curves(list):
    """Stands for TensorBoard's writer."""

    def add_scalar(self, name, value, step):
        self.append((name, value, step))

    def close(self):
        self.append("closed")


@pytest.mark.parametrize(("rank", "said"), [(0, True), (1, False)])
def test_only_rank_0_shows_progress_and_writes_curves(modules, monkeypatch, capsys, tmp_path, rank, said):
    curves = Curves()
    monkeypatch.setattr(modules.report, "_curves", lambda out, begun: curves)
    options = parsed(modules, "--tensorboard", "--out", str(tmp_path))
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.5)
    with modules.report.Report(Rank(rank, rank, 2), options, 0, 10) as report:
        report.update(Progress(1, 0, 1), {"loss": 2.0}, optimizer)
        report.epoch(Progress(1, 1, 0), {"accuracy": 0.5})
    printed = capsys.readouterr()
    assert printed.out == ""
    assert ("1 epochs, 1 updates, held out: accuracy 0.5000" in printed.err) == said
    assert ("1/10" in printed.err) == said
    written = [("training/loss", 2.0, 1), ("training/learning_rate", 0.5, 1), ("held_out/accuracy", 0.5, 1), "closed"]
    assert curves == (written if said else [])


@pytest.mark.skipif(
    importlib.util.find_spec("tensorboard") is None, reason="needs tensorboard: pip install tensorboard"
)
def test_curves_are_files_that_tensorboard_reads(modules, tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    curves = modules.report._curves(tmp_path, 0)
    curves.add_scalar("training/loss", 2.0, 7)
    curves.close()
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [(event.step, event.value) for event in events.Scalars("training/loss")] == [(7, 2.0)]


def test_digits_are_cut_into_some_to_train_on_and_some_held_out(modules):
    training, held_out = modules.data.digits()
    assert len(training) + len(held_out) == 1797
    assert len(held_out) == 360
    images, labels = training[:10]
    assert images.shape == (10, 1, 28, 28)
    assert (images.dtype, labels.dtype) == (torch.float32, torch.int64)
    assert 0.0 <= float(images.min()) < float(images.max()) <= 1.0


@pytest.mark.slow
def test_a_resume_with_overridden_options_trains_with_the_new_ones(modules, tmp_path):
    assembly = importlib.import_module("assembly")
    alone = Rank(0, 0, 1)
    words = ["--out", str(tmp_path), "--warm-up", "0"]
    with process_group(alone, "gloo", (tmp_path / "meeting").as_uri()):
        training = assembly.assemble(alone, parsed(modules, *words))
        training.checkpoints.save(Progress(10, 0, 10))
        words += ["--learning-rate", "0.2", "--batch-size", "128"]
        options = parsed(modules, *words)
        with pytest.raises(CheckpointError, match=r"expected --batch-size 64, --learning-rate 0.05, as it was saved"):
            assembly.resume(assembly.assemble(alone, options), options)
        options = parsed(modules, *words, "--override")
        training = assembly.assemble(alone, options)
        with pytest.warns(UserWarning, match="goes on with --batch-size 128, --learning-rate 0.2"):
            assert assembly.resume(training, options) == Progress(10, 0, 5)
        assert [group["lr"] for group in training.optimizer.param_groups] == [0.4]
        training.optimizer.step()
        training.schedule.step()
        assert [group["lr"] for group in training.optimizer.param_groups] == [0.4]
