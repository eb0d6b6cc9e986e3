"""A reproduction: each script runs alone and prints the number that its side had, beside the other's."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from parity.case import Momentum, load_case
from parity.cli import main
from parity.experiment import run_case
from parity.experiment.plant import Planted, plant
from torch_ddp.mutations import MUTATIONS

ROOT = Path(__file__).parents[2]


def numbers_of(script, python=sys.executable):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [python, str(script)], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = re.findall(r"(now|TensorFlow's then|torch's then): +(\S+)", done.stdout)
    return {what: float(value) for what, value in found}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bug", "example", "first"),
    [
        ("inputs_scaled", "digits_convnet", "act/0/layer1"),
        ("one_layer_learns_faster", "text_lstm", "tower_grad/0/embedding"),
        ("another_momentum", "digits_mlp", "slot/momentum/hidden/kernel"),
        ("nesterov_nobody_asked_for", "digits_mlp", "var/hidden/kernel"),
    ],
)
def test_both_scripts_print_what_their_side_had(tf2_sides, tmp_path, bug, example, first):
    case = load_case(ROOT / "examples" / example, steps=2, towers=2, batch_size=8)
    case = case.model_copy(update={"optimizer": Momentum(name="momentum", learning_rate=0.02, momentum=0.9)})
    buggy = plant(case, Planted(bug, 0.5), tmp_path / "port" / "planted", MUTATIONS[bug].family == "optimizer")
    result = run_case(buggy, tf2_sides, ("function",), reproduce=tmp_path / "small")
    assert result.first_difference.check.key == first
    worst = result.first_difference.worst
    tf, torch = result.reproduction
    told = numbers_of(tf)
    assert told["TensorFlow's then"] == worst.reference and told["torch's then"] == worst.candidate
    assert told["now"] == pytest.approx(worst.reference, rel=1e-12)
    assert numbers_of(torch)["now"] == pytest.approx(worst.candidate, rel=1e-12)


@pytest.mark.slow
def test_towers_that_sum_and_ranks_that_average_are_left_as_gradients_to_combine(tf2_sides, tmp_path):
    case = load_case(ROOT / "examples" / "summed_towers", steps=1)
    result = run_case(case, tf2_sides, ("function",), reproduce=tmp_path / "small")
    worst = result.first_difference.worst
    tf, torch = result.reproduction
    assert numbers_of(tf)["now"] == pytest.approx(worst.reference, rel=1e-12)
    assert numbers_of(torch)["now"] == pytest.approx(worst.candidate, rel=1e-12)
    assert worst.reference == pytest.approx(4 * worst.candidate, rel=1e-9)


@pytest.mark.usefixtures("sides_in_forks")
@pytest.mark.slow
def test_the_command_names_the_scripts_it_leaves(tmp_path, capsys):
    shutil.copytree(ROOT / "tests" / "cases" / "square", tmp_path / "square")
    port = tmp_path / "square" / "model_torch.py"
    port.write_text(port.read_text().replace(".mean()", ".sum()"))
    assert main(["run", str(tmp_path / "square"), "--levels", "1", "--reproduce", str(tmp_path / "small")]) == 1
    shown = "".join(capsys.readouterr().out.split())
    assert "reproducedby:python" in shown and "with_tensorflow.py,python" in shown
    assert (tmp_path / "small" / "with_torch.py").is_file()
