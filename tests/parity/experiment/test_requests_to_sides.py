"""What both sides are asked to build for a case: everything that the case says, and nothing that the other side decides."""

import json

import pytest
from support.made_sides import CASE, made_case, made_sides

from parity.experiment.sides.tensorflow_side import TensorFlowSide
from parity.experiment.sides.torch_side import TorchSide
from parity.experiment.spec import silent

MOMENTUM = {"name": "momentum", "learning_rate": 0.1, "momentum": 0.9}


def asked(folder, side, text, precision="float64", decaying=None):
    """Returns what a side of a case is asked to build, as JSON values."""
    sides = made_sides(folder)
    played = side(made_case(folder / "case", text), sides, folder / "out", silent)
    if decaying is not None:
        played.decay_only(decaying)
    (folder / "out" / "tf").mkdir(parents=True, exist_ok=True)
    if side is TensorFlowSide:
        played.prepare(precision, {"x": ["float32", [8, 3]]}).result()
        process = sides.tf
    else:
        played.prepare(precision).result()
        process = sides.torch
    [(request, arguments)] = process.asked
    assert request == "prepare"
    return json.loads(json.dumps(arguments, default=str))


def with_torch(line):
    return CASE.replace('loss = "model_torch:loss"\n', f'loss = "model_torch:loss"\n{line}\n')


def test_tensorflow_is_asked_for_the_tower_and_the_training_of_the_case(tmp_path):
    plain = asked(tmp_path / "plain", TensorFlowSide, CASE)
    assert plain["precision"] == "float64" and plain["inputs"] == {"x": ["float32", [8, 3]]}
    assert plain["folders"][0] == str(tmp_path / "plain" / "case")
    case = plain["case"]
    assert {name: case["optimizer"][name] for name in MOMENTUM} == MOMENTUM
    known = {"tower": "model_tf:tower", "towers": 2, "optimizers": {}, "combine": "mean", "seed": 0, "threads": 1}
    assert {name: case[name] for name in known} == known and "loss_factor" not in case
    expecting = asked(
        tmp_path / "expecting", TensorFlowSide, CASE + '[expect]\nloss_factor = 2.0\nwhy = "a mean there"\n'
    )["case"]
    assert expecting["loss_factor"] == 2.0
    text = CASE.replace("[tf]\n", '[tf]\nthreads = 3\nbatch_norm_updates = "last"\n')
    more = asked(tmp_path / "more", TensorFlowSide, text)["case"]
    assert (more["threads"], more["batch_norm_updates"]) == (3, "last")
    assert case["batch_norm_updates"] == "first"


CLIPPED = CASE.replace("momentum = 0.9\n", 'momentum = 0.9\n[optimizer.clip]\nby = "global_norm"\nlimit = 1.0\n')


@pytest.mark.parametrize(
    ("text", "watch"),
    [
        (CASE, None),
        (CLIPPED, None),
        (CLIPPED.replace("[torch]\n", '[torch]\noptimizer = "model_torch:optimizer"\n'), "clip"),
        (with_torch('optimizer = "model_torch:optimizer"'), None),
    ],
)
def test_what_a_ports_own_optimizer_works_with_stands_where_clipped_gradients_do(tmp_path, text, watch):
    case = asked(tmp_path, TorchSide, text)["case"]
    assert case["watch"] == watch
    assert case["clips"] == ("combined" if "clip" in text else "")


def test_torch_is_asked_for_the_port_of_the_case(tmp_path):
    plain = asked(tmp_path / "plain", TorchSide, CASE)["case"]
    assert (plain["model"], plain["loss"], plain["step"]) == ("model_torch:Model", "model_torch:loss", None)
    assert {name: plain["optimizer"][name] for name in MOMENTUM} == MOMENTUM
    own = asked(tmp_path / "own", TorchSide, with_torch('optimizer = "model_torch:optimizer"'))["case"]
    assert own["optimizer"] == "model_torch:optimizer"


def test_only_the_weights_that_decay_are_told_to_decay(tmp_path):
    text = CASE.replace("momentum = 0.9\n", "momentum = 0.9\n[optimizer.weight_decay]\ncoefficient = 0.5\n")
    found = json.dumps(asked(tmp_path, TorchSide, text, decaying=["dense.weight"])["case"])
    assert '"coefficient": 0.5, "names": ["dense.weight"], "where": "every_tower"' in found


def test_a_build_is_asked_for_once_and_anew_where_something_else_is_told(tmp_path):
    sides = made_sides(tmp_path)
    played = TorchSide(made_case(tmp_path / "case"), sides, tmp_path / "out", silent)
    for precision, mixed in (("float32", False), ("float32", False), ("float64", False), ("float32", True)):
        played.prepare(precision, mixed).result()
    assert [(asked["precision"], asked["mixed"] is not None) for _, asked in sides.torch.asked] == [
        ("float32", False),
        ("float64", False),
        ("float32", True),
    ]
    for tell in (played.forget, lambda: played.decay_only([]), lambda: played.give_to_parts({})):
        tell()
        played.prepare("float32").result()
    assert len(sides.torch.asked) == 6


def test_a_run_with_another_batch_norm_builds_the_port_anew_before_and_after_it(tmp_path):
    sides = made_sides(tmp_path)
    played = TorchSide(made_case(tmp_path / "case"), sides, tmp_path / "out", silent)

    class Asked:
        precision, mixed, name, noise = "float64", False, "run", None

    runs = []
    played.run = lambda asked: runs.append(played.prepare("float64").result()) or played.prepare("float64")
    played.prepare("float64").result()
    played.run_with_batch_norm(True, Asked)
    played.prepare("float64").result()
    case = made_case(tmp_path / "case")
    told = [asked["case"]["sync_batch_norm"] for _, asked in sides.torch.asked]
    assert told == [case.torch.sync_batch_norm, True, case.torch.sync_batch_norm] and len(runs) == 1
