"""The page docs/apex_tests.md: its shim and its edits work, and with Apex's sources at hand all of it is run."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[3]
BLOCKS = re.findall(r"```bash\n(.*?)```", (ROOT / "docs" / "apex_tests.md").read_text(encoding="utf-8"), re.DOTALL)
APEX = os.environ.get("PARITY_APEX")
needs_apex = pytest.mark.skipif(
    not APEX, reason="no sources of Apex: set PARITY_APEX to a clone of https://github.com/NVIDIA/apex to run its tests"
)


def _run(command, folder, timeout=60):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        ["bash", "-e", "-c", command],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Has the shim, and in `tests` a line for each edit."""
    folder = tmp_path_factory.mktemp("page")
    (folder / "tests").mkdir()
    (folder / "tests" / "lines.py").write_text("".join(f"{before}\n" for before, _ in EDITS), encoding="utf-8")
    _run(BLOCKS[1], folder)
    _run(BLOCKS[2], folder)
    return folder


EDITS = [
    ("x = torch.cuda.FloatTensor(4)", "x = torch.FloatTensor(4)"),
    ("x = torch.ones(2, device='cuda')", "x = torch.ones(2, device='cpu')"),
    ("model = nn.Linear(2, 2).cuda()", "model = nn.Linear(2, 2)"),
    ("dist.init_process_group(backend='nccl')", "dist.init_process_group(backend='gloo')"),
    ("torch.cuda.set_device(0)", None),
    ("parser.add_argument('--local_rank')", "parser.add_argument('--local_rank', \"--local-rank\")"),
    ("self.initial_lr = 1e-3", "self.initial_lr = 1e-3; torch.manual_seed(0)"),
    ('assert("*failed*")', 'raise AssertionError("*failed*")'),
]


def test_the_edits_turn_gpu_calls_into_cpu_calls(folder):
    expected = [after for _, after in EDITS if after is not None]
    assert (folder / "tests" / "lines.py").read_text(encoding="utf-8").splitlines() == expected


SCRIPT = """
import torch, torch_ddp
from apex import amp, parallel
from apex.amp import _amp_state
from apex.fp16_utils import FP16Model
from apex.parallel.LARC import LARC
from apex.parallel.sync_batchnorm import SyncBatchNorm

assert parallel.SyncBatchNorm is SyncBatchNorm is torch_ddp.parallel.SyncBatchNorm and parallel.LARC is LARC
handle = amp.init(allow_banned=True)
half = torch.full((2,), 0.5, dtype=torch.half)
assert torch.nn.functional.binary_cross_entropy(half, half).dtype is torch.float32
handle._deactivate()
assert torch.softmax(half, 0).dtype is torch.half
model = torch.nn.Linear(2, 2).half()
_amp_state.allow_incoming_model_not_fp32 = True
model, optimizer = amp.initialize(model, torch.optim.SGD(model.parameters(), lr=0.1), opt_level="O2", verbosity=0)
assert _amp_state.opt_properties.loss_scale == "dynamic"
_amp_state.loss_scalers[0]._loss_scale = 4.0
assert _amp_state.loss_scalers[0].loss_scale() == amp.state_dict()["loss_scaler0"]["loss_scale"] == 4.0
print("the shim works")
"""


def test_the_shim_gives_the_names_that_the_tests_of_apex_need(folder):
    command = f'PYTHONPATH="$PWD/shim:$PYTHONPATH" python -W error - <<"END"\n{SCRIPT}\nEND'
    assert _run(command, folder).endswith("the shim works\n")


@pytest.fixture(scope="module")
def apex_tests(tmp_path_factory):
    folder = tmp_path_factory.mktemp("apex")
    for block in BLOCKS[:3]:
        _run(block, folder)
    return folder


@needs_apex
@pytest.mark.slow
def test_apexs_own_tests_without_ranks_pass(apex_tests):
    output = _run(BLOCKS[3], apex_tests, timeout=550)
    assert "42 passed, 10 skipped" in output
    assert "2 passed" in output.replace("42 passed", "")
    assert "failed" not in output
    assert output.count("====SBN single gpu passed tests") == 2
    assert output.count("====SBN channel last single gpu passed tests") == 1
    assert "False" not in output


@needs_apex
@pytest.mark.slow
def test_apexs_own_tests_with_ranks_pass(apex_tests):
    output = _run(BLOCKS[4], apex_tests, timeout=550)
    assert re.findall(r"]:passed = +(\w+)", output) == ["True", "True"]
    assert "OK:  Model and master params match across ranks." in output
    assert output.count("====SBN two gpu with different batches test passed") == 1
    assert output.count("====SBN two gpu passed tests") == 6
    assert output.count("====SBN group test passed") == 4
    assert "failed" not in output
    assert re.findall(r"comparing.*False", output) == ["comparing bn vs sbn bias:  False"]


@pytest.fixture(scope="module")
def apex_itself(folder):
    _run(BLOCKS[5], folder)
    return folder


@needs_apex
@pytest.mark.slow
def test_training_equals_that_of_apex_bit_for_bit(apex_itself):
    runs = []
    for package in ("itself", "shim"):
        script = Path(__file__).with_name("training_runs.py")
        _run(
            f'PYTHONPATH="$PWD/{package}:$PYTHONPATH" python -W ignore {script} {package}.pt', apex_itself, timeout=250
        )
        runs.append(torch.load(apex_itself / f"{package}.pt"))
    theirs, ours = runs
    assert theirs.keys() == ours.keys()
    assert len(ours) == 52
    for case, run in ours.items():
        assert run["scales"] == theirs[case]["scales"], case
        assert all(tensor.isfinite().all() for tensor in run["tensors"]), case
        assert all(map(torch.equal, run["tensors"], theirs[case]["tensors"])), case
    assert sum(len(set(run["scales"])) > 1 for run in ours.values()) == 26


@needs_apex
@pytest.mark.slow
def test_the_loss_scaler_moves_as_that_of_apex(apex_itself):
    script = Path(__file__).with_name("loss_scalers.py")
    output = _run(f'PYTHONPATH="$PWD/itself:$PYTHONPATH" python -W ignore {script}', apex_itself, timeout=250)
    assert output.endswith("20 runs of 100000 steps are equal\n")


@needs_apex
@pytest.mark.slow
def test_apexs_own_tests_pass_without_edits_on_what_stands_in_for_it(tmp_path):
    assert "44 passed" in _run(BLOCKS[6], tmp_path, timeout=550)
