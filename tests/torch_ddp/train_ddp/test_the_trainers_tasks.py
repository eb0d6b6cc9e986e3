"""Every task trains, resumes to the bit, and measures what it says; Dice of two ranks is that of one with all patches."""

import json
import sys

import numpy as np
import pytest
import torch
from in_held_ranks import FOLDER, parsed, trainer
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from trainer import final, same_bits

from torch_ddp import ExactSampler, Rank, evaluate_sums, process_group
from torch_ddp.parallel import convert_syncbn_model

ALONE = Rank(0, 0, 1)
TASKS = {
    "digits": [],
    "text": ["--size", 16, "--batch-size", 8],
    "images": ["--size", 12, "--batch-size", 8],
    "volumes": ["--size", 8, "--batch-size", 4, "--opt-level", "O1", "--sync-bn"],
}


@pytest.mark.parametrize("name", ["digits", "text", "images", pytest.param("volumes", marks=pytest.mark.slow)])
def test_a_task_resumes_to_the_bit_and_leaves_its_best(name, monkeypatch, tmp_path):
    words = ["--quiet", "--task", name, *TASKS[name], "--save-every", 100]
    with process_group(ALONE, "gloo", (tmp_path / "meeting").as_uri()), trainer() as train:
        # Few volumes are enough here.
        monkeypatch.setattr(sys.modules["tasks.volumes"], "VOLUMES", 2)
        monkeypatch.setattr(sys.modules["tasks.volumes"], "HELD_OUT", 1)
        for folder, steps in (("whole", 4), ("halves", 2), ("halves", 4)):
            train.train(ALONE, parsed(train, *words, "--steps", steps, "--out", tmp_path / folder))
        task = train.TASKS[name](parsed(train, *words))
    assert same_bits(final(tmp_path / "halves"), final(tmp_path / "whole"))
    [best] = (tmp_path / "whole" / "checkpoints" / "best").iterdir()
    measured = json.loads((tmp_path / "whole" / "result.json").read_text())
    assert torch.load(best, weights_only=True)["measured"] == measured[task.best]


def test_a_file_of_images_and_one_of_text_are_what_is_trained_on(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (18, 6, 5, 1)).astype(np.uint8)
    np.savez(tmp_path / "images.npz", images=images, labels=np.arange(18) % 3)
    (tmp_path / "letters.txt").write_text("abcé" * 25)
    with trainer() as train:
        of_images = train.TASKS["images"](parsed(train, "--task", "images", "--data", tmp_path / "images.npz"))
        of_text = train.TASKS["text"](parsed(train, "--data", tmp_path / "letters.txt", "--size", 9))
    assert (len(of_images.training), len(of_images.held_out)) == (15, 3)
    image, label = of_images.training[0]
    assert torch.equal(image, torch.from_numpy(images[1] / np.float32(255)).permute(2, 0, 1).float())
    assert int(label) == 1
    assert (len(of_text.training), len(of_text.held_out)) == ((90 - 1) // 9, (10 - 1) // 9)
    letters, following = of_text.training[0]
    assert letters.tolist() == [97, 98, 99, 0, 97, 98, 99, 0, 97]
    assert following.tolist() == [98, 99, 0, 97, 98, 99, 0, 97, 98]


def segmented(rank: Rank, ranks: int) -> tuple:
    """Returns this rank's gradients of the Dice loss and the metrics, of the patches dealt out to so many ranks."""
    sys.path.insert(0, str(FOLDER))
    try:
        from tasks import volumes
    finally:
        sys.path.remove(str(FOLDER))
    mine = rank if ranks > 1 else ALONE
    torch.manual_seed(0)
    net: nn.Module = volumes.UNet(2).double()
    model = DistributedDataParallel(convert_syncbn_model(net) if ranks > 1 else net)
    patches = torch.randn(5, 1, 8, 8, 8, dtype=torch.float64)
    labels = torch.randint(0, 3, (5, 8, 8, 8))
    # 4 to train on; all 5, which two ranks do not divide, to measure on.
    share = slice(mine.rank, 4, mine.world_size)
    group_of_one = torch.distributed.new_group([rank.rank], use_local_synchronization=True) if ranks == 1 else None
    if group_of_one is not None:
        model = DistributedDataParallel(net, process_group=group_of_one)
    volumes.dice_loss(model, [patches[share], labels[share]], mine).backward()
    gradients = {name: value.grad.tolist() for name, value in model.module.named_parameters()}
    held_out = [[patches[[each]], labels[[each]]] for each in ExactSampler(patches, mine)]
    sums = evaluate_sums(model.module, held_out, volumes.overlap_sums, mine)
    return gradients, volumes.dice_metrics(sums)


def test_dice_of_two_ranks_is_dice_of_all_patches_in_loss_and_metric(two_ranks):
    whole, two = two_ranks.run(segmented, 1)[0], two_ranks.run(segmented, 2)
    assert two[0] == two[1]
    for name, expected in whole[0].items():
        found = torch.tensor(two[0][0][name], dtype=torch.float64)
        torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64), rtol=2e-5, atol=1e-7, msg=name)
    assert two[0][1] == whole[1]


def test_a_body_that_is_nowhere_has_a_dice_of_one():
    with trainer() as train:
        volumes = sys.modules[train.TASKS["volumes"].__module__]
        overlaps = np.array([[5.0, 3.0, 0.0], [6.0, 5.0, 0.0], [7.0, 4.0, 0.0]])
        assert volumes.dice_metrics({"overlaps": overlaps}) == {"dice": (6 / 9 + 1) / 2, "dice_1": 6 / 9, "dice_2": 1.0}
