"""A training whose numbers are no longer finite ends, and leaves its last finite checkpoint."""

import pytest
import torch
from torch import nn
from trainer import SCRIPT, WITHIN, final, start

from torch_ddp import Checkpoints, NonFiniteError, Progress, Rank, check_finite
from torch_ddp.checkpoint.finite import check_finite_parts

ALONE = Rank(0, 0, 1)
NAN, INFINITY = float("nan"), float("inf")


@pytest.mark.parametrize("wrong", [NAN, INFINITY, -INFINITY])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_the_first_tensor_that_is_not_finite_is_named(wrong, dtype):
    fine = torch.full((3,), torch.finfo(dtype).max, dtype=dtype)
    check_finite([("fine", fine), ("none", None), ("count", torch.tensor(7))], "at update 7")
    bad = torch.tensor([1.0, wrong, wrong, 0.0], dtype=dtype)
    with pytest.raises(NonFiniteError) as error:
        check_finite([("fine", fine), ("weight", bad), ("later", bad)], "at update 7")
    assert str(error.value) == (
        "train: expected finite numbers at update 7, got 2 of 4 infinite or NaN in weight. "
        "Nothing was saved since. Lower the learning rate, or look at the batch."
    )


def test_a_sparse_gradient_is_looked_at_where_it_has_values():
    with pytest.raises(NonFiniteError, match="1 of 1 infinite or NaN in rows"):
        check_finite([("rows", torch.sparse_coo_tensor([[2]], [NAN], (5,), check_invariants=True))], "now")


def spoilt(where):
    model = nn.BatchNorm1d(2)
    model.register_buffer("mask", torch.tensor([0.0, -INFINITY]))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model(torch.ones(3, 2)).sum().backward()
    optimizer.step()
    with torch.no_grad():
        if where == "weight":
            model.weight[0] = INFINITY
        if where == "buffer":
            model.running_mean[0] = NAN
        if where == "slot":
            optimizer.state[model.weight]["momentum_buffer"][0] = INFINITY
    return {"model": model, "optimizer": optimizer}


@pytest.mark.parametrize(
    ("where", "named"),
    [("weight", "model weight"), ("buffer", "model running_mean"), ("slot", "optimizer momentum_buffer")],
)
def test_no_checkpoint_is_written_of_numbers_that_are_not_finite(tmp_path, where, named):
    kept = Checkpoints(tmp_path, ALONE, spoilt("nowhere"), keep=1).save(Progress(1, 0, 1))
    with pytest.raises(NonFiniteError, match=rf"to save after update 2, got 1 of 2 infinite or NaN in {named}\."):
        Checkpoints(tmp_path, ALONE, spoilt(where), keep=1).save(Progress(2, 0, 2))
    assert list(tmp_path.iterdir()) == [kept]


def test_a_weight_goes_by_its_models_name_whichever_part_comes_first():
    parts = spoilt("weight")
    with pytest.raises(NonFiniteError, match=r" in model weight\."):
        check_finite_parts({"optimizer": parts["optimizer"], "model": parts["model"]}, 2)


def test_masters_that_no_model_has_are_looked_at():
    master = torch.tensor([NAN, 1.0], requires_grad=True)
    with pytest.raises(NonFiniteError, match=r"1 of 2 infinite or NaN in optimizer parameter 0\.0\."):
        check_finite_parts({"model": nn.Linear(2, 1), "optimizer": torch.optim.SGD([master], lr=0.1)}, 2)


def test_a_training_that_explodes_ends_with_an_error_and_its_last_finite_checkpoint(torch_python, tmp_path):
    options = ["--batch-size", 16, "--save-every", 1, "--learning-rate", 1e30, "--quiet", "--out", "out"]
    process = start([torch_python, SCRIPT, *options], tmp_path)
    said, _ = process.communicate(timeout=WITHIN)
    assert process.returncode == 1, said
    assert "NonFiniteError: train: expected finite numbers " in said
    state = final(tmp_path / "out")
    assert state["progress"]["step"] >= 1
    assert all(value.isfinite().all() for value in state["parts"]["model"].values())
