import pytest
import torch
from torch import nn

from torch_ddp.parallel import ParallelError, Reducer


def of_a_model(rank):
    torch.manual_seed(rank.rank)
    model = nn.ModuleList([nn.Linear(2, 1), nn.Linear(1, 1).double(), nn.Linear(1, 1)])
    reducer = Reducer(model)
    start = torch.cat([p.detach().double().flatten() for p in model.parameters()])
    for _ in range(2):  # reduced once for two backward passes
        loss = model[0](torch.full((1, 2), rank.rank + 1.0)).sum()
        if rank.rank == 0:
            loss = loss + model[1](torch.full((1, 1), 4.0).double()).sum()
        loss.backward()
    before = model[0].weight.grad.clone()
    reducer.reduce()
    return start, before, [None if p.grad is None else p.grad.flatten().tolist() for p in model.parameters()]


def test_a_models_gradients_are_averaged_when_asked_to_and_its_parameters_come_from_rank_0(two_ranks):
    (start0, before0, after0), (start1, before1, after1) = two_ranks(of_a_model)
    assert (start0 == start1).all()
    assert (before0[0, 0], before1[0, 0]) == (2.0, 4.0)
    assert after0 == after1 == [[3.0, 3.0], [2.0], [4.0], [1.0], None, None]


def of_fives(rank):
    five = torch.full((1,), 5.0 if rank.rank == 0 else 0.0, dtype=torch.float64)
    Reducer(five).reduce()
    return five.item()


@pytest.mark.on_cpu("a GPU multiplies by the rounded reciprocal of a number, in Apex too")
def test_the_average_is_a_quotient_as_in_apex(three_ranks):
    assert 5.0 / 3 != 5.0 * (1 / 3)
    assert three_ranks(of_fives) == [5.0 / 3] * 3


def of_tensors(rank):
    one, two = torch.full((2, 2), float(rank.rank)), torch.full((3,), 2.0 * rank.rank, dtype=torch.float64)
    Reducer([one, (two, {"name": 1}, None)]).reduce()
    return one[0, 0].item(), two[0].item()


def test_tensors_in_nested_lists_are_averaged(two_ranks):
    assert two_ranks(of_tensors) == [[0.5, 1.0]] * 2


@pytest.mark.parametrize(("given", "name"), [([], "list"), (3, "int"), ("weights", "str")])
def test_what_holds_no_tensor_is_refused(given, name):
    with pytest.raises(ParallelError) as refused:
        Reducer(given)
    assert str(refused.value) == (
        f"Reducer: expected a module or tensors, got {name} without a tensor. "
        "Give the model, or its gradients after backward()."
    )
