"""Each option of the trainer does what it says, and leaves everything else to the bit as it is."""

import json
import math
import threading
import warnings

import pytest
import torch
from in_held_ranks import parsed, trained, trainer
from trainer import final, same_bits

from torch_ddp import CheckpointError, NonFiniteError, Rank, process_group

ALONE = Rank(0, 0, 1)
FEW = ["--quiet", "--batch-size", 16, "--warm-up", 3, "--steps", 4, "--save-every", 1]


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """Trains as the only rank, within this process; returns the folder that the training leaves."""

    def train(folder, *words, changes=lambda train: None):
        with trainer() as module, pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "TASKS", dict(module.TASKS))
            changes(module)
            module.train(ALONE, parsed(module, *FEW, *words, "--out", folder))
        return folder

    meeting = tmp_path_factory.mktemp("meeting") / "meeting"
    with process_group(ALONE, "gloo", meeting.as_uri()):
        yield train


@pytest.fixture(scope="module")
def plain(alone, tmp_path_factory):
    return alone(tmp_path_factory.mktemp("plain"))


def parts_of(folder):
    return final(folder)["parts"]


def largest_difference(one, other):
    pairs = [(value, parts_of(other)["model"][name]) for name, value in parts_of(one)["model"].items()]
    return max(float((a.double() - b.double()).abs().max()) for a, b in pairs if a.is_floating_point())


def names(folder):
    return {path.name for path in folder.iterdir()}


USUAL = {"checkpoints", "result.json"}


@pytest.mark.parametrize(
    ("words", "files"),
    [
        (["--csv"], {"log.csv"}),
        pytest.param(["--tensorboard"], {"tensorboard"}, marks=pytest.mark.slow),
        (["--profile", 2], {"profile"}),
        (["--background"], set()),
        (["--keep", 3], set()),
        (["--non-finite", "skip"], set()),
        (["--ends", "weigh"], set()),
        (["--reduction", "ordered"], set()),
        (["--reduction", "ordered_sum"], set()),
        (["--sync-bn"], set()),  # on one rank
        (["--opt-level", "O0"], set()),
        pytest.param(["--compile", "eager"], set(), marks=pytest.mark.slow),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, list) else None,
)
def test_what_does_not_change_the_numbers_changes_no_bit(alone, plain, tmp_path, words, files):
    if words == ["--tensorboard"]:
        pytest.importorskip("tensorboard", reason="needs tensorboard: pip install tensorboard")
    alone(tmp_path, *words)
    for name in ("model", "optimizer", "schedule"):
        assert same_bits(parts_of(tmp_path)[name], parts_of(plain)[name]), name
    assert same_bits(final(tmp_path)["random"], final(plain)["random"])
    assert json.loads((tmp_path / "result.json").read_text()) == json.loads((plain / "result.json").read_text())
    assert names(tmp_path) == USUAL | files
    count = 3 if "--keep" in words else 2
    assert len(list((tmp_path / "checkpoints").glob("step-*.pt"))) == count


@pytest.mark.parametrize(
    ("words", "most"),
    [
        (["--precision", "bfloat16"], 0.02),
        (["--precision", "float16"], 0.02),
        pytest.param(["--opt-level", "O1"], 0.02, marks=pytest.mark.slow),
        (["--opt-level", "O2"], 0.02),
        pytest.param(["--opt-level", "O3"], 0.05, marks=pytest.mark.slow),
        (["--accumulate", 2], 0.3),  # batch norm sees half as many examples at a time
        (["--learning-rate", 0.051], 0.02),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, list) else None,
)
def test_what_changes_the_numbers_changes_them_so_far(alone, plain, tmp_path, words, most):
    alone(tmp_path, *words)
    assert 0.0 < largest_difference(tmp_path, plain) < most
    same = same_bits(parts_of(tmp_path)["schedule"], parts_of(plain)["schedule"])
    assert same == (words[0] != "--learning-rate")
    with pytest.raises(CheckpointError, match=rf"expected {words[0]} .*, as it was saved with, got {words[0]} "):
        alone(tmp_path, "--steps", 5)


@pytest.mark.slow
def test_a_compiled_model_trains_as_the_other(alone, plain, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the compiler's own modules
        alone(tmp_path, "--compile")
    assert 0.0 < largest_difference(tmp_path, plain) < 1e-3


def test_what_all_ranks_wrote_together_is_resumed_to_the_bit(alone, plain, tmp_path):
    pytest.importorskip("safetensors", reason="needs safetensors: pip install safetensors")
    alone(tmp_path, "--sharded", "--steps", 2)
    assert len(list(tmp_path.glob("checkpoints/shards-*"))) == 2
    alone(tmp_path)
    assert same_bits(parts_of(tmp_path), parts_of(plain))
    assert same_bits(final(tmp_path)["random"], final(plain)["random"])
    assert not list(tmp_path.glob("checkpoints/shards-*"))  # which went with their checkpoints


def test_another_seed_is_another_training(alone, plain, tmp_path):
    alone(tmp_path, "--seed", 1)
    assert largest_difference(tmp_path, plain) > 0.05


def test_what_is_left_at_an_epochs_end_is_an_update_of_its_own(alone, tmp_path):
    few = ["--epochs", 1, "--steps", 9, "--batch-size", 512]  # of 1437 digits
    dropped, weighed = alone(tmp_path / "drop", *few), alone(tmp_path / "weigh", *few, "--ends", "weigh")
    assert final(dropped)["progress"] == {"step": 2, "epoch": 1, "offset": 0}
    assert final(weighed)["progress"] == {"step": 3, "epoch": 1, "offset": 0}


def test_a_sum_is_the_mean_of_two_ranks_at_twice_the_rate(two_ranks, tmp_path):
    few = ["--quiet", "--batch-size", 16, "--warm-up", 3, "--steps", 3]
    summed = two_ranks.run(trained, [*few, "--reduction", "sum", "--learning-rate", 0.05, "--out", tmp_path / "sum"])
    mean = two_ranks.run(trained, [*few, "--learning-rate", 0.1, "--out", tmp_path / "mean"])
    assert summed == mean


def poisoned(update, batch_size=16):
    """Has the digits of one update hold a NaN."""

    def change(train):
        make = train.TASKS["digits"]

        def task(options):
            whole = make(options)
            sampler = train.TrainingSampler(whole.training, ALONE)
            sampler.set_epoch(0)
            images = whole.training.tensors[0].clone()
            images[list(sampler)[(update - 1) * batch_size], 0, 3, 3] = math.nan
            return whole._replace(training=torch.utils.data.TensorDataset(images, whole.training.tensors[1]))

        train.TASKS["digits"] = task

    return change


@pytest.mark.parametrize("update", [1, 2, 4])
@pytest.mark.parametrize(
    "words",
    [[], ["--opt-level", "O1"], ["--opt-level", "O2"], ["--precision", "float16"], ["--background"]],
    ids=" ".join,
)
def test_a_nan_at_any_update_stops_with_its_place_and_the_last_finite_checkpoint(alone, tmp_path, update, words):
    text = rf"^train: expected finite numbers at update {update}, got 1 of 1 infinite or NaN in the loss\."
    with pytest.raises(NonFiniteError, match=text):
        alone(tmp_path, *words, changes=poisoned(update))
    for thread in threading.enumerate():
        if thread.name == "checkpoint":
            thread.join()  # as a process that ends does
    if update == 1:
        assert not list(tmp_path.glob("checkpoints/step*"))
        return
    assert final(tmp_path)["progress"]["step"] == update - 1
    assert all(value.isfinite().all() for value in parts_of(tmp_path)["model"].values())


HALF = [pytest.param(["--opt-level", "O1"], marks=pytest.mark.slow), ["--opt-level", "O2"], ["--precision", "float16"]]


@pytest.mark.parametrize("words", [[], *HALF], ids=" ".join)
def test_a_nan_is_left_out_where_that_is_said(alone, tmp_path, words):
    skip = ["--non-finite", "skip", *words]
    before = alone(tmp_path / "before", *skip, "--steps", 1, changes=poisoned(2))
    after = alone(tmp_path / "after", *skip, "--steps", 2, changes=poisoned(2))
    assert same_bits(parts_of(after)["model"], parts_of(before)["model"])
    assert final(after)["progress"]["step"] == 2
    later = alone(tmp_path / "after", *skip, "--steps", 4, changes=poisoned(2))
    assert not same_bits(parts_of(later)["model"], parts_of(before)["model"])
