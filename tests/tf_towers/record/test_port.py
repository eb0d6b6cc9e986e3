"""Ports that `parity port` writes from recorded scripts, and proves."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.tiers import few, on_both

from parity.cli import main
from parity.port.prove import prove_folder
from parity.port.source.program import port_of
from parity.trace import Trace, read_json
from parity.trace.escape import in_docstring

pytestmark = pytest.mark.usefixtures("forked_torch")
SCRIPTS = Path(__file__).parents[2] / "legacy_scripts"
ONLY_TF1 = {"clones"}  # TensorFlow 2 has no contrib
WRITTEN = (
    *("counted", "fed_rate", "hand_written_adam", "monitored", "ungated"),  # they clip, or update by themselves
    *("clones", "fused_norm", "mirrored_pool", "nesterov", "own_graph", "queue_fed", "split_sum", "two_optimizers"),
    *("bias_before_norm", "frozen_features", "placeholder_slices", "served"),
)
LOOPS = ("dropout_wrapper", "recurrent", "resource_loop", "sampled")
ON_TF1 = pytest.mark.parametrize("tf_python", [pytest.param("tf1", marks=pytest.mark.tf1)], indirect=True)
AT_ONCE = ("split_sum", "queue_fed")  # which the default tier writes; of the others all is slow


def test_no_legacy_script_is_left_out():
    assert {*WRITTEN, *LOOPS} == {path.stem for path in SCRIPTS.glob("*.py")}


@pytest.fixture
def trace_of(recorded, request):
    """The trace of a script by name."""

    def found(name):
        if name in ONLY_TF1 and "tf2" in request.node.name:
            pytest.skip("TensorFlow 2 has no contrib")
        return recorded(name).out

    return found


@pytest.mark.parametrize("name", few(AT_ONCE, "queue_fed"))
def test_a_port_is_written_and_proven_without_an_edit(trace_of, tmp_path, name, capsys):
    result = tmp_path / "result.json"
    assert main(["port", str(trace_of(name)), "--out", str(tmp_path / name), "--quiet", "--json", str(result)]) == 0
    assert "verdict: same" in capsys.readouterr().out
    judged = json.loads(result.read_text())
    assert (judged["verdict"], judged["error"], judged["port"]["missing"]) == ("same", None, [])
    rests_on = judged["port"]["rests_on"]
    assert (rests_on["towers"], rests_on["levels"]) == (2, ["function", "float32"])
    assert rests_on["tensors"] > rests_on["tensors_of_train"] > 0
    assert "train() itself on 2 ranks in float64" in rests_on["train"][0]
    assert "Proven same" in (tmp_path / name / "port.py").read_text()
    for file in ("port.py", "train.py"):
        assert "train() itself on 2 ranks in float64" in (tmp_path / name / file).read_text()


# Each in the second update of the same weights.
@pytest.mark.parametrize(
    ("name", "step"), [("queue_fed", 1), pytest.param("two_optimizers", 2, marks=pytest.mark.slow)]
)
def test_a_training_program_that_does_otherwise_is_found_though_the_port_is_right(trace_of, tmp_path, name, step):
    trace = trace_of(name)
    assert main(["port", str(trace), "--out", str(tmp_path), "--no-prove"]) == 0
    program = tmp_path / "train.py"
    # Each step adds its gradients to those of the steps before: nothing that a replay of steps alone can see.
    program.write_text(program.read_text().replace("        updates.zero_grad()\n", ""))
    result = prove_folder(tmp_path, trace)
    assert (result.verdict, result.exit_code) == ("different", 1)
    first = result.levels["function"].first_difference
    assert (first.check.run, first.check.step) == ("train", step)
    assert first.quantity in ("slot", "var")
    if name == "queue_fed":  # of several optimizers the step before is another one's
        assert [cause.name for cause in result.causes] == ["stale_gradient"]


# As TensorFlow 1.15 records them, and where TensorFlow 2 has other ops: in loops, for a fused norm, for sparse rows. That
# nothing is missing in the others' ports is `test_it_is_the_same_text_each_time_and_python`'s, on both.
@pytest.mark.slow
@on_both(sorted({*WRITTEN, *LOOPS} - {*AT_ONCE}), "fused_norm", "recurrent", "resource_loop", "sampled", "ungated")
def test_every_other_script_is_too(trace_of, tmp_path, name):
    trace, begun = trace_of(name), time.monotonic()
    code = main(["port", str(trace), "--out", str(tmp_path / name), "--quiet"])
    framework = Trace(trace).facts["framework"]
    print(f"{name} | {framework} | exit code {code} | {time.monotonic() - begun:.0f} s")
    assert code == 0
    for file in ("port.py", "train.py"):
        proven = ast.get_docstring(ast.parse((tmp_path / name / file).read_text()))
        assert re.search("train[(][)] itself on [12] ranks in float64", proven)
        assert "UNPROVEN" not in proven and "not run" not in proven


def test_what_the_script_does_not_train_is_frozen_in_the_port(trace_of):
    source = port_of(trace_of("frozen_features")).body
    assert "self.conv1 = nn.Conv2d(2, 4, 3, padding=1).requires_grad_(False)" in source
    assert "self.conv2 = nn.Conv2d(4, 3, 3, padding=1)  #" in source  # of which the bias trains
    assert "        self.conv2.weight.requires_grad_(False)\n" in source


def test_what_stands_in_a_port_is_what_the_script_has(trace_of):
    source = port_of(trace_of("clones")).body
    assert "class Model(nn.Module):  # clones.py:17 network()" in source
    assert 'like_tf.Conv2d(4, 3, 3, stride=2, padding="same", bias=False)  # clones.py:18' in source
    assert "like_tf.BatchNorm2d(4, eps=0.001, momentum=0.9)" in source
    assert "F.cross_entropy(model(images), labels.long()) / 2" in source
    assert "if torch.distributed.get_rank() == 0:" in source  # decay in the first clone only
    assert "sum(like_tf.l2_loss(weight) for weight in module.parameters() if weight.dim() > 1)" in source
    assert "loss = loss + 0.004 * decay" in source
    assert "like_tf.RMSProp(model.parameters(), lr=0.01, centered=False, alpha=0.9" in source
    dropped = port_of(trace_of("queue_fed")).body
    assert "F.dropout(examples, 0.25, self.training)" in dropped


@pytest.mark.parametrize(
    "name", [name if name in AT_ONCE else pytest.param(name, marks=pytest.mark.slow) for name in (*WRITTEN, *LOOPS)]
)
def test_it_is_the_same_text_each_time_and_python(trace_of, name):
    port = port_of(trace_of(name))
    assert port.body == port_of(trace_of(name)).body
    ast.parse(port.source("What it is."))
    assert not port.missing
    assert all(len(line) <= 120 for line in port.body.splitlines())


def test_the_same_files_are_written_under_every_hash_seed(trace_of, tmp_path):
    trace, written = trace_of("split_sum"), []
    for seed in ("1", "2"):
        command = [sys.executable, "-m", "parity.cli", "port", str(trace), "--out", str(tmp_path / seed), "--no-prove"]
        subprocess.run(command, check=True, env={**os.environ, "PYTHONHASHSEED": seed})
        written.append({path.name: path.read_bytes() for path in (tmp_path / seed).iterdir()})
    assert len(written[0]) == 5
    assert written[0] == written[1]


def test_a_variance_that_the_script_makes_unbiased_is_that_of_a_fused_norm(trace_of):
    port = port_of(trace_of("served"))
    assert "like_tf.BatchNorm1d(3, eps=0.001, momentum=0.9, fused=True)" in port.body
    assert not any("For the recorded lengths alone" in each for each in port.assumed)


def test_a_variance_that_no_layer_has_is_moved_op_by_op_with_its_mean_and_its_count_is_named(trace_of, tmp_path):
    shutil.copytree(trace_of("served"), tmp_path / "trace")
    file = tmp_path / "trace" / "graph.json"
    graph = read_json(str(file))
    (one,) = (node for node in graph["definition"]["node"] if node["name"] == "sub/y")
    one["attr"]["value"]["tensor"]["float_val"] = [2.0]  # n / (n - 2)
    file.write_text(json.dumps(graph))
    port = port_of(tmp_path / "trace")
    assert "nn.BatchNorm1d(3, eps=0.001, track_running_stats=False)" in port.body
    assert "norm_moving_mean.sub_" in port.body and "* 6 / 4" in port.body
    (said,) = (each for each in port.assumed if "For the recorded lengths alone" in each)
    assert "served.py:35" in said


CONV_NETS = ("clones", "mirrored_pool", "split_sum")
MOST_LINES_PER_LAYER = 4  # of constructors and forwards


def statements_of_modules(source):
    """Number of lines of the constructors and forwards of a port."""
    classes = (each for each in ast.parse(source).body if isinstance(each, ast.ClassDef))
    methods = (each for one in classes for each in one.body if isinstance(each, ast.FunctionDef))
    return sum(each.end_lineno - each.lineno + 1 for each in methods)


@pytest.mark.parametrize("name", few(CONV_NETS, "split_sum"))
def test_a_conv_net_has_at_most_four_lines_for_each_layer(trace_of, name):
    source = port_of(trace_of(name)).body
    layers = source.count(" = nn.") + source.count(" = like_tf.")
    assert statements_of_modules(source) <= MOST_LINES_PER_LAYER * layers


@pytest.mark.parametrize("name", few(WRITTEN, *AT_ONCE))
def test_a_port_is_as_ruff_formats_it(trace_of, tmp_path, name):
    path = tmp_path / "port.py"
    path.write_text(port_of(trace_of(name)).source("What it is."))
    options = ["--isolated", "--line-length", "120", str(path)]
    # In its own folder, where torch_ddp is what is installed.
    for command in (["format", "--check"], ["check", "--select", "E,F,W,I,B,UP,C4,RET,SIM"]):
        subprocess.run([sys.executable, "-m", "ruff", *command, *options], check=True, cwd=tmp_path)


@pytest.mark.slow
@ON_TF1
def test_ports_have_types(trace_of, tmp_path):
    for name in WRITTEN:
        (tmp_path / f"{name}.py").write_text(port_of(trace_of(name)).source("What it is."))
    files = [str(path) for path in sorted(tmp_path.glob("*.py"))]
    subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), *files], check=True
    )


RESIDUAL_NETS = {
    "resnet_slim": (  # 14 layers; TensorFlow 2 has no contrib
        120,
        "class Block(nn.Module):  # resnet_slim.py",
        "self.stage2 = nn.Sequential(BlockWithShortcut(4, 8), Block(8))",
    ),
    "resnet50_layers": (  # 50 layers; TensorFlow 2 has no tf.layers
        200,
        "BottleneckBlockWithShortcut(24, 32, stride=2), *(BottleneckBlock(32) for _ in range(5))",
    ),
}


@pytest.mark.slow
@ON_TF1
@pytest.mark.parametrize("name", RESIDUAL_NETS)
def test_a_residual_net_is_written_in_few_lines_and_proven(recorded_here, name, tmp_path):
    most, *texts = RESIDUAL_NETS[name]
    trace = recorded_here(name).out
    assert main(["port", str(trace), "--out", str(tmp_path / "port"), "--quiet"]) == 0
    source = (tmp_path / "port" / "port.py").read_text()
    assert len(source.splitlines()) <= most
    assert source.count("(nn.Module):") == 3  # a block, one with a shortcut, the model
    assert [text for text in texts if text not in source] == []


def test_what_cannot_be_written_is_named_and_exits_with_3(trace_of, tmp_path, capsys):
    shutil.copytree(trace_of("split_sum"), tmp_path / "trace")
    graph = read_json(str(tmp_path / "trace" / "graph.json"))
    for node in graph["definition"]["node"]:
        node["op"] = node["op"].replace("Relu", "Digamma")
    (tmp_path / "trace" / "graph.json").write_text(json.dumps(graph))
    assert main(["port", str(tmp_path / "trace"), "--out", str(tmp_path / "port"), "--json", "-"]) == 3
    shown = capsys.readouterr()
    assert "Digamma tower_0/model/Relu takes (4, 3, 3, 4)" in shown.err
    assert "1 parts are left to write by hand (1 Digamma); nothing was proven" in shown.err
    judged = json.loads(shown.out)
    assert judged["verdict"] == "incomparable" and judged["levels"]["function"]["verdict"] == "not_run"
    (missing,) = judged["port"]["missing"]
    assert (missing["kind"], missing["what"]) == ("Digamma", "Digamma tower_0/model/Relu")
    assert missing["where"].startswith("split_sum.py:") and "takes (4, 3, 3, 4)" in missing["why"]
    assert (judged["port"]["missing_count"], judged["port"]["missing_by_kind"]) == (1, {"Digamma": 1})
    assert "UNPROVEN" in (tmp_path / "port" / "port.py").read_text()


def test_a_port_that_is_written_anew_leaves_every_edited_file_and_proves_what_it_wrote(trace_of, tmp_path, capsys):
    words = ["port", str(trace_of("split_sum")), "--out", str(tmp_path / "port"), "--no-prove"]
    assert main(words) == 0
    names = ("port.py", "port.toml", "train.py", "test_port.py")
    for name in names:
        with (tmp_path / "port" / name).open("a") as file:
            file.write("# mine\n")
    capsys.readouterr()
    assert main([*words, "--json", str(tmp_path / "result.json")]) == 0
    shown, files = capsys.readouterr().out, json.loads((tmp_path / "result.json").read_text())["port"]["files"]
    assert shown.count("stays as it is; the difference:") == shown.count("-# mine") == len(names)
    assert [(file["edited"], "-# mine" in file["difference"]) for file in files] == [(True, True)] * len(names)
    for name in names:
        assert (tmp_path / "port" / name).read_text().endswith("# mine\n")


@pytest.mark.parametrize("text", ['"""\nimport os', "a\\", "line\rother", "\x1b[31m", "\u2028next"])
def test_text_of_a_script_ends_no_docstring_and_no_comment(text):
    module = ast.parse(f'"""{in_docstring(text)}"""\npass\n')
    assert len(module.body) == 2
