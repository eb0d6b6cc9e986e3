import ast
import inspect
import itertools
import subprocess
import sys
from pathlib import Path

import pytest

import torch_ddp

NAMES = [
    "CheckpointError",
    "Checkpoints",
    "ExactSampler",
    "GradientReduction",
    "MasterWeights",
    "NonFiniteError",
    "Preemption",
    "Progress",
    "Rank",
    "Recording",
    "Stepper",
    "TorchDdpError",
    "TrainingSampler",
    "Update",
    "UpdateGuard",
    "add_launch_options",
    "broadcast_statistics",
    "check_finite",
    "describe_variables",
    "device_of",
    "evaluate",
    "evaluate_sums",
    "facts",
    "gather",
    "gather_by_index",
    "gather_everywhere",
    "gather_ragged",
    "hyper_parameters",
    "launch",
    "leave_process_group",
    "load_weights",
    "make_optimizer",
    "make_repeatable",
    "make_schedule",
    "mean_over_ranks",
    "named_counters",
    "named_slots",
    "named_statistics",
    "newest_whole",
    "process_group",
    "random_state",
    "rank_from_environment",
    "ranks_agree",
    "read_whole",
    "recording",
    "reduce_tensor",
    "round_hyper_parameters",
    "scaled_learning_rate",
    "seed_all",
    "set_counters",
    "set_random_state",
    "shard",
    "spawn",
    "sum_over_ranks",
    "under_torchrun",
    "unreduced",
    "warm_up",
    "write_whole",
]
ROOT = Path(__file__).parents[2]
# The same in every order of imports: functions whose name is their module's too.
SHADOWED = ["facts", "gather", "launch", "shard"]


def static_imports() -> dict[str, str]:
    tree = ast.parse(Path(torch_ddp.__file__).read_text())
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module.startswith("torch_ddp"):
            assert len(node.names) == 1, "one name per line"
            found[node.names[0].asname] = node.module.removeprefix("torch_ddp.")
    return found


def output_of(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_public_names_of_torch_ddp_are_these():
    assert sorted(torch_ddp._HOMES) == NAMES
    assert set(NAMES) <= set(dir(torch_ddp))


def test_what_type_checkers_see_is_what_is_looked_up():
    assert static_imports() == torch_ddp._HOMES


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_of_torch_ddp_says_what_it_does(name):
    value = getattr(torch_ddp, name)
    assert value.__module__ == f"torch_ddp.{torch_ddp._HOMES[name]}"
    assert inspect.getdoc(value).splitlines()[0].endswith(".")


def test_an_unknown_name_is_refused_as_of_any_module():
    with pytest.raises(AttributeError, match="module 'torch_ddp' has no attribute 'tower'"):
        _ = torch_ddp.tower


def test_importing_imports_no_torch_until_a_name_needs_it():
    program = "import sys, torch_ddp\nprint('torch' in sys.modules)\ntorch_ddp.shard\nprint('torch' in sys.modules)"
    assert output_of(program).split() == ["False", "True"]


def test_a_function_named_as_its_module_stays_the_function_in_every_order_of_imports():
    kinds = f"[type(getattr(torch_ddp, name)).__name__ for name in {SHADOWED!r}]"
    for first, second in itertools.permutations(
        ["import torch_ddp.step.stepper, torch_ddp.train.launch", f"print({kinds})"]
    ):
        assert output_of(f"import torch_ddp\n{first}\n{second}") == f"{['function'] * len(SHADOWED)}\n"
