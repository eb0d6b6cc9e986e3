"""Weights trained in torch go back to TensorFlow: a plain Saver restores them in an old program, which agrees with torch."""

import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from support.forks import forking

from parity.case import load_case
from parity.cli import main
from parity.experiment import run_case
from parity.trace import Trace, TraceWriter, parse_key, state_after, write_tensors
from parity.worker import bootstrap
from parity.worker.failures import SideFailed
from torch_ddp.checkpoint import Checkpoints, Progress
from torch_ddp.process_group import Rank
from torch_ddp.weights import load_weights

SERVED = Path(__file__).parents[1] / "cases" / "served"
SCRIPT = Path(__file__).parents[1] / "legacy_scripts" / "served.py"
CLOSE = {"float64": 1e-13, "float32": 1e-6}


@pytest.fixture(scope="module")
def tf_python(tf_python):
    """Both TensorFlows, imported already."""
    with forking(tf_python, "tensorflow") as python:
        yield python


@pytest.fixture(scope="module")
def trained(tf2_sides, tmp_path_factory):
    """The folder of a run: four steps, nobody reset."""
    out = tmp_path_factory.mktemp("trained")
    result = run_case(load_case(SERVED), tf2_sides, out=out)
    assert result.verdict == "same", result.levels["function"].reason
    return out


def checkpoint_tool(python, *words):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    command = [python, str(bootstrap.__file__), "tf_towers.checkpoint", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, check=False)


def legacy(python, mode, checkpoint, batch, folder, dtype):
    given, out = folder / "in.npz", folder / "out.npz"
    np.savez(given, **batch)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    command = [python, str(SCRIPT), mode, str(checkpoint), str(given), str(out), dtype]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    with np.load(out) as found:
        return {name.replace("|", "/"): found[name] for name in found.files}


def batch_of(trained, step, dtype):
    file = Trace(trained / "feeds" / "torch").step(step)
    return {name[len("feed/") :]: np.array(file.read(name), dtype) for name in file.names()}


def torchs(state, batch, dtype, averages=False):
    """What the port says in evaluation mode of a state in its own names."""
    port = runpy.run_path(str(SERVED / "model_torch.py"))
    model = port["Model"]().to(getattr(torch, dtype)).eval()
    arrays = {name.split("/", 1)[1]: value for name, value in state.items() if name.startswith(("var/", "stat/"))}
    if averages:
        arrays.update((name[len("ema/") :], value) for name, value in state.items() if name.startswith("ema/"))
    load_weights(model, arrays)
    with torch.no_grad():
        loss, outputs = port["loss"](model, **{name: torch.from_numpy(value) for name, value in batch.items()})
    return {"loss": loss.numpy(), **{name: value.numpy() for name, value in outputs.items()}}


def assert_close(found, wanted, dtype):
    for name, value in wanted.items():
        scale = max(1.0, float(np.abs(value).max()))
        assert float(np.abs(found[name] - value).max()) <= CLOSE[dtype] * scale, name
        assert found[name].dtype == value.dtype == dtype


def carried_back(trained, tmp_path, *words, precision="float64"):
    """Leaves the port's state in the towers' names; returns the folder."""
    out = tmp_path / "carried"
    arguments = ["map", trained / "tf" / precision, trained / "torch" / "free", "--map", SERVED, "--write", out, *words]
    assert main([str(word) for word in arguments]) == 0
    return out


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "version"), [("float64", "V2"), ("float32", "V1")])
def test_an_old_program_serves_what_torch_has_learnt(trained, tf_python, tmp_path, capsys, dtype, version):
    carried = carried_back(trained, tmp_path)
    assert "tensors in the names of" in capsys.readouterr().out
    path = tmp_path / "model.ckpt"
    done = checkpoint_tool(tf_python, "write", carried, path, "--dtype", dtype, "--version", version)
    assert (done.returncode, done.stdout) == (0, f"{path}: 29 variables\n"), done.stderr
    batch, state = batch_of(trained, 0, dtype), state_after(Trace(trained / "torch" / "free"))
    served = legacy(tf_python, "serve", path, batch, tmp_path, dtype)
    assert_close(served, torchs(state, batch, dtype), dtype)
    averaged = legacy(tf_python, "serve_averages", path, batch, tmp_path, dtype)
    assert_close(averaged, torchs(state, batch, dtype, averages=True), dtype)
    assert not np.allclose(served["second"], averaged["second"], atol=1e-4)


@pytest.mark.slow
def test_an_old_program_goes_on_training_where_torch_left_off(trained, tf_python, tmp_path):
    carried = carried_back(trained, tmp_path, "--step", "2")
    path = tmp_path / "model.ckpt"
    done = checkpoint_tool(tf_python, "write", carried, path)
    assert done.returncode == 0, done.stderr
    found = legacy(tf_python, "train", path, batch_of(trained, 3, "float64"), tmp_path, "float64")
    carried_back(trained, tmp_path)
    wanted = Trace(carried).init()
    assert int(found["global_step"]) == int(wanted.read("state/global_step")) == 4
    assert len(wanted.names()) == 29
    for text in wanted.names():
        value, got = wanted.read(text), found[saved_as(text, Trace(carried).variables)]
        assert np.abs(got - value).max() <= 1e-13 * max(1.0, float(np.abs(value).max())), text


def saved_as(text, variables):
    """Returns the name in a checkpoint of what a trace calls `text`."""
    key = parse_key(text)
    known = {"slot": f"slot/{key.slot}", "ema": "ema"}
    return variables[key.name]["saved_as"][known[key.quantity]] if key.quantity in known else key.name


@pytest.mark.slow
def test_a_state_dict_goes_the_same_way(trained, tf_python, tmp_path):
    port = runpy.run_path(str(SERVED / "model_torch.py"))
    torch.manual_seed(5)
    model = port["Model"]()
    with torch.no_grad():
        model.norm.running_mean.add_(0.5)
    file = tmp_path / "trained.safetensors"
    write_tensors(file, {f"module.{name}": value.numpy() for name, value in model.state_dict().items()})
    carried = carried_back(trained, tmp_path, "--weights", file, precision="float32")
    path = tmp_path / "model.ckpt"
    done = checkpoint_tool(tf_python, "write", carried, path, "--global-step", 700)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{path}-700: 9 variables\n"
    batch = batch_of(trained, 0, "float32")
    state = {f"var/{name}": value.numpy() for name, value in model.state_dict().items() if "num_batches" not in name}
    served = legacy(tf_python, "serve", f"{path}-700", batch, tmp_path, "float32")
    assert_close(served, torchs(state, batch, "float32"), "float32")
    listed = checkpoint_tool(tf_python, "list", tmp_path).stdout
    assert "first/kernel [4, 3] float32\nglobal_step [] int64\n" in listed


def test_a_checkpoint_of_torch_ddp_goes_the_same_way(trained, tmp_path):
    port = runpy.run_path(str(SERVED / "model_torch.py"))
    model = port["Model"]()
    Checkpoints(tmp_path / "saved", Rank(0, 0, 1), {"model": model}).save(Progress(700, 3, 0))
    command = [sys.executable, "-m", "torch_ddp.checkpoint", str(tmp_path / "saved"), str(tmp_path / "w.safetensors")]
    environment = {**os.environ, "PYTHONPATH": str(SERVED.parents[2])}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, check=False)
    assert done.stdout == f"{tmp_path}/w.safetensors: 10 tensors, after 700 steps\n", done.stderr
    carried = Trace(carried_back(trained, tmp_path, "--weights", tmp_path / "w.safetensors")).init()
    assert int(carried.read("state/global_step")) == 700
    assert np.array_equal(carried.read("var/first/kernel"), model.first.weight.detach().numpy().T)
    assert np.array_equal(carried.read("stat/norm/moving_mean"), model.norm.running_mean.numpy())


def test_weights_of_another_model_are_refused_in_one_line(trained, tmp_path, capsys):
    def said(**changes):
        port = runpy.run_path(str(SERVED / "model_torch.py"))
        arrays = {name: value.numpy() for name, value in port["Model"]().state_dict().items()}
        arrays.update(changes)
        file = tmp_path / "w.safetensors"
        write_tensors(file, {name: value for name, value in arrays.items() if value is not None})
        words = ["map", trained / "tf" / "float64", trained / "torch" / "free", "--write", tmp_path / "o"]
        assert main([str(word) for word in [*words, "--weights", file]]) == 2
        return capsys.readouterr().err

    assert "expected first.weight with shape [3, 4], got [4, 3] in" in said(**{"first.weight": np.zeros((4, 3))})
    assert "expected var/first.weight for var/first/kernel, got no such tensor" in said(**{"first.weight": None})
    assert "got also extra.weight. Save the state_dict of the port itself." in said(**{"extra.weight": np.zeros(1)})
    (tmp_path / "pickled").write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    words = ["map", trained / "tf" / "float64", trained / "torch" / "free", "--write", tmp_path / "o"]
    assert main([str(word) for word in [*words, "--weights", tmp_path / "pickled"]]) == 2
    assert "A state_dict is written so by safetensors.torch.save_file." in capsys.readouterr().err
    assert main([str(word) for word in [*words[:3], "--weights", tmp_path / "pickled"]]) == 2
    assert "--weights: expected --write DIR too, got none." in capsys.readouterr().err
    assert not (tmp_path / "o").exists()


@pytest.mark.slow
def test_a_trace_in_the_ports_names_is_refused_in_one_line(trained, tf_python, tmp_path):
    done = checkpoint_tool(tf_python, "write", trained / "torch" / "free", tmp_path / "m", "--step", "9")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1].startswith("tf_towers.checkpoint: trace: expected a step of ")
    assert "(0 to 3), got 9. Name one of them." in done.stderr


@pytest.fixture
def start(trained, tmp_path):
    """Writes a checkpoint of the trained port into a copy of the case, and returns the case that starts from it."""

    def make(python, quantities):
        carried = Trace(carried_back(trained, tmp_path))
        state = {name: carried.init().read(name) for name in carried.init().names()}
        writer = TraceWriter(tmp_path / "part", {}, {}, carried.variables)
        writer.init({name: value for name, value in state.items() if name.startswith(quantities)})
        writer.close()
        shutil.copytree(SERVED, tmp_path / "case")
        done = checkpoint_tool(
            python, "write", tmp_path / "part", tmp_path / "case" / "model.ckpt", "--dtype", "float32"
        )
        assert done.returncode == 0, done.stderr
        case = load_case(tmp_path / "case", steps=2)
        return case.model_copy(update={"init": "checkpoint:model.ckpt"}), state

    return make


ALL_OF_IT = ("var/", "stat/", "slot/", "ema/", "state/")


@pytest.mark.parametrize("sides", ["tf2", pytest.param("tf1", marks=pytest.mark.tf1)])
def test_a_case_starts_from_a_checkpoint_with_its_slots_averages_and_step(request, start, sides, tmp_path):
    python = sys.executable if sides == "tf2" else request.getfixturevalue("tf1_python")
    case, state = start(python, ALL_OF_IT)
    result = run_case(case, request.getfixturevalue(f"{sides}_sides"), out=tmp_path / "out")
    assert result.verdict == "same", result.levels["function"].reason
    began = Trace(tmp_path / "out" / "start" / "tf").init()
    assert sorted(began.names()) == sorted(state)
    for name, value in state.items():
        assert np.array_equal(began.read(name), value.astype(began.read(name).dtype)), name
    assert int(began.read("state/global_step")) == 4
    first = Trace(tmp_path / "out" / "torch" / "free").step(0)
    assert int(first.read("state/global_step")) == 4
    assert not any("not in the checkpoint" in note for note in result.notes)


@pytest.mark.slow
def test_a_checkpoint_for_serving_says_what_it_did_not_hold(start, tf2_sides, tmp_path):
    case, state = start(sys.executable, ("var/", "stat/"))
    result = run_case(case, tf2_sides, out=tmp_path / "out")
    assert result.verdict == "same", result.levels["function"].reason
    assert (
        "init: not in the checkpoint: 6 averages, 12 slots, 3 counters; averages start at their weights, the rest as the "
        "graph makes it"
    ) in result.notes
    began = Trace(tmp_path / "out" / "start" / "tf").init()
    assert np.array_equal(began.read("ema/first/kernel"), began.read("var/first/kernel"))
    assert np.array_equal(began.read("var/first/kernel"), state["var/first/kernel"].astype(np.float32))
    assert not began.read("slot/m/first/kernel").any()
    assert int(began.read("state/global_step")) == 0


@pytest.mark.slow
def test_a_checkpoint_that_does_not_fit_is_refused_in_one_line(start, tf2_sides, tmp_path):
    case, _ = start(sys.executable, ("var/second", "stat/"))

    def said(init):
        with pytest.raises(SideFailed) as failed:
            run_case(case.model_copy(update={"init": init}), tf2_sides, out=tmp_path / "out")
        assert (failed.value.traceback, str(failed.value).count("\n")) == ("", 0)
        return str(failed.value)

    folder = tmp_path / "case"
    assert said(case.init) == (
        "TensorFlow side: init: expected first/kernel with shape [4, 3] in the checkpoint "
        f"{folder}/model.ckpt, got nothing. Name a checkpoint of this model; it holds norm/moving_mean, "
        "norm/moving_variance, second/bias, second/kernel."
    )
    assert f"expected a checkpoint at {folder}/none, got neither that file nor" in said("checkpoint:none")
