import importlib.util

import pytest
import torch
from in_held_ranks import statistics_after_an_update, trained
from trainer import final, same_bits

FEW = ["--quiet", "--batch-size", 16, "--accumulate", 2, "--save-every", 9, "--warm-up", 3, "--report-every", 2]
LEVELS = [("O1", "float16"), ("O2", "float16"), ("O2", "bfloat16")]


def at(level, half="float16"):
    return [*FEW, "--opt-level", level, "--half-dtype", half]


def parts(folder):
    return final(folder)["parts"]


@pytest.fixture(scope="module")
def at_o2(two_ranks, tmp_path_factory):
    folder = tmp_path_factory.mktemp("o2")
    two_ranks.run(trained, [*at("O2"), "--steps", 6, "--out", folder])
    return folder


@pytest.mark.parametrize(("level", "half"), LEVELS)
def test_a_resumed_training_in_mixed_precision_ends_with_the_same_bits(two_ranks, tmp_path, level, half):
    whole, halves = tmp_path / "whole", tmp_path / "halves"
    one, other = two_ranks.run(trained, [*at(level, half), "--steps", 6, "--out", whole])
    assert one == other
    two_ranks.run(trained, [*at(level, half), "--steps", 3, "--out", halves])
    before = parts(halves)
    assert two_ranks.run(trained, [*at(level, half), "--steps", 6, "--out", halves]) == [one, other]
    assert same_bits(final(halves), final(whole))
    assert not same_bits(before["model"], parts(whole)["model"])
    assert set(before) == {"model", "optimizer", "schedule", f"amp {level} {half}"}


def test_a_resumed_training_differs_where_the_masters_are_forgotten(two_ranks, tmp_path, at_o2):
    for steps in (3, 6):
        two_ranks.run(trained, [*at("O2"), "--steps", steps, "--out", tmp_path], False, "amp")
    assert not same_bits(parts(tmp_path)["model"], parts(at_o2)["model"])


def test_a_checkpoint_at_o2_holds_float32_masters_that_the_half_weights_are_rounded_from(at_o2):
    weight = parts(at_o2)["model"]["logits.weight"]  # in float32, as Apex saves half weights
    [master] = [one for one in parts(at_o2)["amp O2 float16"]["master_weights"][0] if one.shape == weight.shape]
    assert (weight.dtype, master.dtype) == (torch.float32, torch.float32)
    assert torch.equal(master.half().float(), weight)
    assert not torch.equal(master, weight)
    scaler = parts(at_o2)["amp O2 float16"]["loss_scaler0"]
    halved = 16 - torch.tensor(scaler["loss_scale"]).log2()
    assert scaler["unskipped"] + halved == 6, scaler


@pytest.mark.parametrize(("level", "half"), [("O1", "float16"), ("O2", "bfloat16")])
def test_a_resume_at_another_level_or_half_precision_is_refused_on_every_rank(two_ranks, at_o2, level, half):
    with pytest.raises(AssertionError) as error:
        two_ranks.run(trained, [*at(level, half), "--steps", 7, "--out", at_o2])
    name, before, now = ("--opt-level", "O2", level) if level != "O2" else ("--half-dtype", "float16", half)
    refusal = (
        f"checkpoint: expected {name} {before}, as it was saved with, got {name} {now}. "
        "Resume with the same, override it knowingly, or begin anew in another folder."
    )
    assert str(error.value).count(refusal) == 2


@pytest.mark.parametrize("precision", [[], ["--opt-level", "O1"], ["--opt-level", "O2"]])
def test_batch_norm_over_all_ranks_has_the_same_statistics_on_both(two_ranks, tmp_path, precision):
    words = ["--quiet", "--batch-size", 16, *precision, "--out"]
    one, other = two_ranks.run(statistics_after_an_update, ["--sync-bn", *words, tmp_path / "over all"])
    assert one == other
    assert set(one) == {f"layer{number}.1.running_{name}" for number in (1, 2) for name in ("mean", "var")}
    apart, from_it = two_ranks.run(statistics_after_an_update, [*words, tmp_path / "own"])
    assert apart != from_it
    # With shares of the same size the mean over all examples is the mean of the ranks' means.
    means = (torch.tensor([own["layer1.1.running_mean"] for own in (apart, from_it)])).mean(0)
    torch.testing.assert_close(torch.tensor(one["layer1.1.running_mean"]), means, rtol=1e-5, atol=1e-7)


@pytest.mark.skipif(
    importlib.util.find_spec("tensorboard") is None, reason="needs tensorboard: pip install tensorboard"
)
def test_only_rank_0_leaves_files_of_tensorboard(two_ranks, tmp_path):
    two_ranks.run(trained, [*FEW, "--steps", 2, "--tensorboard", "--out", tmp_path], True)
    assert list((tmp_path / "0" / "tensorboard").glob("events.out.tfevents.*"))
    assert [path.name for path in (tmp_path / "1").rglob("*events*")] == []
