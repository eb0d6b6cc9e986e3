"""Recorded shards stand in for what loaders yield, joined by path, shape, dtype and order, or refused."""

from collections import namedtuple
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from torch_ddp.errors import TorchDdpError
from torch_ddp.record.recorded_batches import RecordedBatches

IMAGES = np.arange(4 * 5 * 6 * 3, dtype=np.float32).reshape(4, 5, 6, 3)
LABELS = np.array([3, 1, 2, 0], np.int32)
Pair = namedtuple("Pair", ["x", "y"])


@dataclass
class Graphs:
    nodes: torch.Tensor
    name: str


def recorded(steps=(0, 1, 2), **inputs):
    def shard_of(step):
        # Of each step other numbers: which step a batch is of shows in them.
        return (
            {name: value + np.asarray(step, value.dtype) for name, value in inputs.items()} if step in steps else None
        )

    return RecordedBatches(shard_of, inputs)


def test_each_input_goes_where_alone_its_shape_and_dtype_fit_in_any_nesting():
    batches = recorded(images=IMAGES, labels=LABELS)
    got = batches.in_place_of([(torch.zeros(4, 5, 6, 3), {"target": torch.zeros(4, dtype=torch.int64)}), "file name"])
    assert torch.equal(got[0][0], torch.from_numpy(IMAGES))
    assert got[0][1]["target"].tolist() == [3, 1, 2, 0]
    assert got[0][1]["target"].dtype is torch.int64
    assert got[1] == "file name"
    assert batches.notes == []


@pytest.mark.parametrize("batch", [Pair(torch.zeros(4), torch.zeros(4)), {"y": torch.zeros(4), "x": torch.zeros(4)}])
def test_a_path_decides_between_inputs_of_one_shape(batch):
    got = recorded(y=np.full(4, 2.0), x=np.full(4, 1.0)).in_place_of(batch)
    x, y = (got["x"], got["y"]) if isinstance(got, dict) else got
    assert type(got) is type(batch)
    assert (x[0].item(), y[0].item()) == (1.0, 2.0)


def test_order_decides_where_nothing_else_does_and_is_told():
    batches = recorded(first=np.full(4, 1.0), second=np.full(4, 2.0))
    got = batches.in_place_of((torch.zeros(4), torch.zeros(4)))
    assert [each[0].item() for each in got] == [1.0, 2.0]
    assert batches.notes == [
        "inputs of one shape were matched by their order, for nothing else distinguishes them: first is 0, second is 1"
    ]


def test_images_with_channels_first_get_the_recorded_ones_with_channels_last():
    got = recorded(images=IMAGES).in_place_of(torch.zeros(4, 3, 5, 6))
    assert torch.equal(got, torch.from_numpy(IMAGES.transpose(0, 3, 1, 2).copy()))


def test_a_column_and_a_vector_hold_the_same_numbers():
    assert recorded(labels=LABELS).in_place_of(torch.zeros(4, 1, dtype=torch.int32)).tolist() == [[3], [1], [2], [0]]


def test_an_object_that_holds_tensors_stays_what_it_is():
    own = Graphs(torch.zeros(4), "a")
    got = recorded(nodes=np.ones(4)).in_place_of(own)
    assert (type(got), got.nodes.tolist(), got.name, own.nodes.tolist()) == (Graphs, [1.0] * 4, "a", [0.0] * 4)


def test_micro_batches_get_their_pieces_in_order_and_the_next_step_follows():
    batches = recorded(labels=LABELS)
    got = [batches.in_place_of(torch.zeros(2, dtype=torch.int64)).tolist() for _ in range(4)]
    assert got == [[3, 1], [2, 0], [4, 2], [3, 1]]
    batches.check(1)
    with pytest.raises(TorchDdpError, match="expected step 2 to take its whole shard of 'labels', 4 examples"):
        batches.check(2)


def test_steps_that_are_not_asked_for_keep_the_programs_own_numbers():
    batches = recorded(steps=(1,), labels=LABELS)
    got = [batches.in_place_of(torch.full((4,), 7)).tolist() for _ in range(2)]
    assert got == [[7] * 4, [4, 2, 3, 1]]


def test_in_float64_a_loader_of_float32_yields_float64():
    assert recorded(x=np.ones(4)).in_place_of(torch.zeros(4)).dtype is torch.float64
    assert recorded(x=np.ones(4)).in_place_of(torch.zeros(4, dtype=torch.float16)).dtype is torch.float16


@pytest.mark.parametrize(
    ("inputs", "batch", "message"),
    [
        (
            {"x": np.ones((4, 2))},
            torch.zeros(4, 3),
            r"'x' float64 \[4, 2\], as each rank is to, got 0 float32 \[4, 3\]",
        ),
        ({"x": np.ones(4)}, torch.zeros(4, dtype=torch.int64), r"read 'x' float64 \[4\].*got 0 int64 \[4\]"),
        ({"x": np.ones(4)}, torch.zeros(3), r"got 0 float32 \[3\]"),
        ({"x": np.ones(4)}, "text", "got a batch without tensors"),
        (
            {"x": np.ones(4)},
            (torch.zeros(4), torch.zeros(4)),
            r"for 'x', float64 \[4\] each, got 0, 1\. Say which it is",
        ),
    ],
)
def test_what_cannot_be_joined_is_named(inputs, batch, message):
    with pytest.raises(TorchDdpError, match=message):
        recorded(**inputs).in_place_of(batch)


def test_what_was_not_recorded_stays_and_is_told():
    batches = recorded(labels=LABELS)
    got = batches.in_place_of((torch.zeros(4, dtype=torch.int32), torch.full((4, 3), 5.0)))
    assert got[1][0].tolist() == [5.0] * 3
    assert batches.notes == ["the program's own numbers stay in 1, for which nothing was recorded"]


def test_a_program_without_loaders_gets_them_where_it_makes_tensors_of_arrays():
    batches = recorded(x=np.full((4, 2), 1.0), y=np.full(4, 2, np.int32))
    other, x, y = torch.zeros(3), torch.zeros(4, 2), torch.zeros(4, dtype=torch.int64)
    for step in range(2):
        assert batches.in_place_of_array(other) is other
        assert batches.in_place_of_array(x)[0, 0] == 1 + step
        assert batches.in_place_of_array(y)[0] == 2 + step
        batches.check(step)


def test_inputs_of_one_shape_are_given_in_turn_to_arrays():
    batches = recorded(first=np.full(4, 1.0), second=np.full(4, 2.0))
    got = [batches.in_place_of_array(torch.zeros(4))[0].item() for _ in range(4)]
    assert got == [1.0, 2.0, 2.0, 3.0]


def test_a_program_that_reads_nothing_of_the_kind_is_refused():
    batches = recorded(x=np.ones(4))
    with pytest.raises(TorchDdpError, match="got no batch of a DataLoader, and no such array"):
        batches.check(0)


def test_what_a_program_only_looked_at_is_no_step_of_it():
    batches = recorded(labels=LABELS)
    batches.in_place_of(torch.zeros(2, dtype=torch.int64))
    batches.restart(0)
    assert [batches.in_place_of(torch.zeros(2, dtype=torch.int64)).tolist() for _ in range(3)] == [
        [3, 1],
        [2, 0],
        [4, 2],
    ]
    batches.restart(1)
    assert batches.in_place_of(torch.zeros(2, dtype=torch.int64)).tolist() == [4, 2]


def test_a_program_that_makes_the_batch_of_all_ranks_and_takes_its_part_gets_all_shards():
    inputs = {"images": IMAGES, "labels": LABELS}
    whole = {name: np.concatenate([value, value + np.asarray(9, value.dtype)]) for name, value in inputs.items()}

    def shard_of(step):
        return inputs

    batches = RecordedBatches(shard_of, inputs, lambda step: whole, ranks=2)
    images = batches.in_place_of_array(torch.zeros(8, 3, 5, 6))
    labels = batches.in_place_of_array(torch.zeros(8, dtype=torch.int64))
    assert torch.equal(images, torch.from_numpy(whole["images"]).permute(0, 3, 1, 2))
    assert labels.tolist() == [3, 1, 2, 0, 12, 10, 11, 9]
    batches.check(0)
    other = torch.zeros(12, dtype=torch.int64)
    assert batches.in_place_of_array(other) is other


def test_what_came_by_no_loader_and_no_array_stands_in_where_the_model_is_called():
    batches = recorded(images=IMAGES, labels=LABELS)
    labels = batches.in_place_of_array(torch.zeros(4, dtype=torch.int64))
    given = {"x": torch.rand(4, 3, 5, 6), "train": True}
    got = batches.in_place_of_inputs(0, given)
    assert labels.tolist() == [3, 1, 2, 0]
    assert torch.equal(got["x"], torch.from_numpy(IMAGES).permute(0, 3, 1, 2)) and got["train"] is True
    # Called again in the same step it is given what the program has for it, and in the next one that step's.
    assert batches.in_place_of_inputs(0, given) is given
    # Where it stands in at the call, no array of its shape does.
    noise = torch.zeros(4, 3, 5, 6)
    assert batches.in_place_of_array(noise) is noise
    batches.check(0)
    assert batches.in_place_of_inputs(1, given)["x"][0, 0, 0, 0] == 1
    assert batches.in_place_of_inputs(3, given) is given


def test_a_call_that_fits_nothing_stays_and_a_loader_decides_anew():
    batches = recorded(x=np.full((4, 2), 1.0))
    look = {"x": torch.zeros(1, 7)}
    assert batches.in_place_of_inputs(0, look) is look
    assert batches.in_place_of_inputs(0, {"x": torch.zeros(4, 2)})["x"][0, 0] == 1
    assert batches.in_place_of((torch.zeros(4, 2),))[0][0, 0] == 1
    batches.check(0)
    with pytest.raises(TorchDdpError, match="as each rank is to, got x float32"):
        lost = recorded(y=np.zeros(2))
        lost.in_place_of_inputs(0, {"x": torch.zeros(4, 2)})
        lost.check(0)


def test_arrays_that_only_look_like_a_batch_are_refused():
    batches = recorded(labels=LABELS)
    for _ in range(2):
        batches.in_place_of_array(torch.zeros(4, dtype=torch.int64))
    with pytest.raises(TorchDdpError, match="to make 1 tensors of the shape of 'labels' in each step, got 2 in step 0"):
        batches.check(0)


def test_an_array_that_would_be_a_micro_batch_is_the_programs_own():
    own = torch.zeros(2, dtype=torch.int64)
    assert recorded(labels=LABELS).in_place_of_array(own) is own


def test_an_input_that_some_steps_are_not_fed_is_taken_by_those_that_are():
    steps = {0: np.full(4, 1.0), 2: np.full(4, 2.0), 3: np.full(4, 3.0)}
    shards = {number: {"x": value} for number, value in steps.items()} | {1: {"features": np.zeros(4)}}
    batches = RecordedBatches(shards.get, shards[0], fed={"x": [0, 2, 3]})
    assert batches.in_place_of((torch.zeros(4),))[0][0].item() == 1.0
    batches.check(0)
    batches.check(1)
    # Read ahead: of the step that is fed next.
    assert batches.in_place_of((torch.zeros(4),))[0][0].item() == 2.0
    batches.check(2)
    with pytest.raises(TorchDdpError, match="expected step 3 to take its whole shard of 'x'"):
        batches.check(3)
    batches.restart(3)
    assert batches.in_place_of((torch.zeros(4),))[0][0].item() == 3.0
    assert batches.in_place_of((torch.full((4,), 9.0),))[0][0].item() == 9.0
