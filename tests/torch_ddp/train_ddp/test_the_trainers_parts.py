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

from torch_ddp import Rank, TorchDdpError
from torch_ddp.train.precision import Float32

FOLDER = Path(__file__).parents[3] / "examples" / "train_ddp"
MODULES = ("digits", "options", "tasks", "train")


@pytest.fixture
def modules(monkeypatch) -> Iterator[SimpleNamespace]:
    """The modules of the trainer, which are on the path only while its script runs."""
    monkeypatch.syspath_prepend(str(FOLDER))
    yield SimpleNamespace(**{name: importlib.import_module(name) for name in ("options", "tasks", "train")})
    for name in [name for name in sys.modules if name.partition(".")[0] in MODULES]:
        sys.modules.pop(name, None)


def parsed(modules, *words):
    return modules.options.make_parser("").parse_args(words)


def accumulated(rank: Rank, pieces: int) -> tuple[list, int, float]:
    """Works a share off in pieces of so many examples; returns gradients, how often they travelled, and the loss."""
    sys.path.insert(0, str(FOLDER))
    try:
        from tasks.task import classification_loss
        from train import backward
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
    cut = list(zip(*(part.split(pieces) for part in share), strict=True))
    task = SimpleNamespace(loss=classification_loss)
    loss = backward(model, optimizer, Float32(model.module, optimizer), task, cut, rank)
    return [value.grad.tolist() for value in model.parameters()], len(travelled), float(loss)


def test_pieces_add_up_to_the_whole_share_and_travel_once(two_ranks):
    whole = two_ranks.run(accumulated, 8)
    for pieces in (4, 3, 2):  # of 8 examples, pieces of 3 leave one of 2
        for (gradients, travelled, loss), (expected, _, expected_loss) in zip(
            two_ranks.run(accumulated, pieces), whole, strict=True
        ):
            for found, right in zip(gradients, expected, strict=True):
                torch.testing.assert_close(torch.tensor(found), torch.tensor(right), rtol=1e-14, atol=1e-15)
            assert travelled == 1
            assert loss == pytest.approx(expected_loss, rel=1e-14)


@pytest.mark.parametrize(
    "flag", ["--epochs", "--steps", "--batch-size", "--accumulate", "--save-every", "--keep", "--size"]
)
def test_numbers_of_nothing_are_refused(modules, flag):
    with pytest.raises(TorchDdpError) as error:
        modules.options.check_options(parsed(modules, flag, "0"))
    assert str(error.value) == f"train: expected {flag} to be at least 1, got 0. Raise it."


def test_two_answers_to_the_question_of_precision_are_refused(modules):
    with pytest.raises(TorchDdpError) as error:
        modules.options.check_options(parsed(modules, "--opt-level", "O1", "--precision", "bfloat16"))
    assert str(error.value) == (
        "train: expected one of two options that exclude each other, got --opt-level O1 and --precision bfloat16. "
        "Use one of them."
    )


@pytest.mark.parametrize(
    "words", [("--ends", "weigh", "--reduction", "sum"), ("--compile", "eager", "--opt-level", "O1")]
)
def test_options_that_exclude_each_other_are_refused(modules, words):
    with pytest.raises(
        TorchDdpError, match=rf"exclude each other, got {words[0]} {words[1]} and {words[2]} {words[3]}\."
    ):
        modules.options.check_options(parsed(modules, *words))
    for each in (words[:2], words[2:]):
        modules.options.check_options(parsed(modules, *each))


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
    assert modules.options.examples_per_piece(10, 2, Rank(0, 0, 1)) == 5
    with pytest.raises(TorchDdpError) as error:
        modules.options.examples_per_piece(10, 2, Rank(0, 0, 2))
    assert str(error.value) == (
        "train: expected --batch-size to be divisible by 2 ranks times 2 pieces, got 10. Use a multiple of 4."
    )


def test_digits_are_cut_into_some_to_train_on_and_some_held_out(modules):
    training, held_out = modules.tasks.digits.digits()
    assert len(training) + len(held_out) == 1797
    assert len(held_out) == 360
    images, labels = training[:10]
    assert images.shape == (10, 1, 28, 28)
    assert (images.dtype, labels.dtype) == (torch.float32, torch.int64)
    assert 0.0 <= float(images.min()) < float(images.max()) <= 1.0
