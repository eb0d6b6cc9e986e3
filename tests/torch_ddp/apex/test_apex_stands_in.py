"""A script that imports apex runs unedited, in this process and in those that it starts."""

import importlib
import os
import subprocess
import sys

import pytest
import torch

import torch_ddp.apex as apex
from torch_ddp import amp as our_amp
from torch_ddp import parallel as our_parallel
from torch_ddp.apex.missing import MISSING, MissingFromApexError, missing

SCRIPT = '''
"""Written for a GPU and for Apex."""
import multiprocessing
import subprocess
import sys

import apex
import amp_C
import apex.amp.scaler
import torch
from apex import amp
from apex.amp import _amp_state
from apex.fp16_utils import DynamicLossScaler, FP16_Optimizer, network_to_half
from apex.multi_tensor_apply import multi_tensor_applier
from apex.normalization.fused_layer_norm import FusedLayerNorm
from apex.optimizers import FusedAdam
from apex.parallel import DistributedDataParallel, LARC, SyncBatchNorm, convert_syncbn_model
from apex.parallel.distributed import flat_dist_call
from apex.parallel.LARC import LARC as LarcClass


def child(queue):
    import apex.optimizers

    queue.put(apex.optimizers.FusedAdam.__module__)


if __name__ == "__main__":
    assert sys.argv[1:] == ["--cpu", "3"], sys.argv
    assert apex.parallel.LARC.LARC is LarcClass and apex.__name__ == "torch_ddp.apex"
    assert not hasattr(_amp_state, "opt_properties")
    torch.cuda.set_device(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), FusedLayerNorm(4), torch.nn.Linear(4, 2)).cuda()
    optimizer = FusedAdam(model.parameters(), lr=0.1)
    model, optimizer = amp.initialize(model, optimizer, opt_level="O2", loss_scale=128.0, verbosity=0)
    for _ in range(2):
        optimizer.zero_grad()
        with amp.scale_loss(model(torch.ones(5, 3, device="cuda")).square().mean(), optimizer) as scaled:
            scaled.backward()
        optimizer.step()
    assert model[0].weight.type() == "torch.cuda.HalfTensor" and model[0].weight.cpu().type() == "torch.HalfTensor"
    assert torch.zeros(1).to(torch.device("cuda", 0)).device.type == "cpu"
    assert _amp_state.loss_scalers[0].loss_scale() == 128.0
    wrapped = torch.nn.DataParallel(model)
    assert wrapped(torch.ones(1, 3)).shape == (1, 2)
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=child, args=(queue,))
    process.start()
    print(queue.get(timeout=100))
    process.join()
    line = "import apex.amp, torch; print(apex.__name__, torch.cuda.device_count())"
    print(subprocess.check_output([sys.executable, "-c", line], text=True), end="")
    try:
        import apex.contrib.xentropy
    except ImportError as error:
        print(error)
'''


def test_a_script_runs_unedited_and_so_do_its_children(tmp_path):
    (tmp_path / "train.py").write_text(SCRIPT, encoding="utf-8")
    command = [sys.executable, "-m", "torch_ddp.apex", "--cpu", "train.py", "--cpu", "3"]
    environment = {name: value for name, value in os.environ.items() if name != "TORCH_DDP_APEX_CPU"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:2] == ["torch_ddp.apex.optimizers.fused_adam", "torch_ddp.apex 1"]
    assert lines[2].startswith("torch_ddp.apex: expected a part of Apex that is here, got apex.contrib. Use ")
    assert len(lines) == 3


CONVOLUTIONS = """
import copy

import torch
from torch import nn

torch.manual_seed(0)
kinds = [nn.Conv2d(64, 64, 3, padding=1), nn.Conv1d(64, 6, 5, bias=False), nn.ConvTranspose2d(64, 4, 3, groups=2)]
for layer in [*kinds, nn.Conv2d(64, 8, 3, stride=2).requires_grad_(False)]:
    half = layer.half()
    x = torch.randn(2, 64, *[32] * (half.weight.dim() - 2)).half().requires_grad_()
    out = half(x)
    gradient = torch.randn(out.shape).half()
    out.backward(gradient)
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        wide, y = copy.deepcopy(half).to(dtype), x.detach().to(dtype).requires_grad_()
        wide.zero_grad()
        wide(y).backward(gradient.to(dtype))
        pairs = [(x.grad, y.grad), *((a.grad, b.grad) for a, b in zip(half.parameters(), wide.parameters(), strict=True))]
        for a, b in pairs:
            if a is None:
                assert b is None
                continue
            assert a.dtype is torch.float16 and b.dtype is dtype
            if dtype is torch.float32:
                assert torch.equal(a, b.half())
            else:
                torch.testing.assert_close(a.double(), b.double(), rtol=0.02, atol=1.0)
print("as in float32")
"""


def test_gradients_of_half_convolutions_are_summed_in_float32_and_rounded_once(tmp_path):
    (tmp_path / "train.py").write_text(CONVOLUTIONS, encoding="utf-8")
    command = [sys.executable, "-W", "error", "-m", "torch_ddp.apex", "--cpu", "train.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.stdout == "as in float32\n", done.stderr


SUBMODULES = """
    amp._amp_state amp.amp amp.frontend amp.handle amp.opt amp.scaler amp_C apex_C fp16_utils.fp16_optimizer
    fp16_utils.fp16util fp16_utils.loss_scaler multi_tensor_apply.multi_tensor_apply normalization.fused_layer_norm
    optimizers.fused_adagrad optimizers.fused_adam optimizers.fused_lamb optimizers.fused_novograd optimizers.fused_sgd
    parallel.LARC parallel.distributed parallel.multiproc parallel.optimized_sync_batchnorm parallel.sync_batchnorm
"""


@pytest.mark.parametrize("name", SUBMODULES.split())
def test_the_modules_of_apex_are_there(name):
    module = importlib.import_module(f"torch_ddp.apex.{name}")
    assert all(hasattr(module, each) for each in getattr(module, "__all__", ()))


def test_what_stands_in_is_what_the_packages_offer():
    assert apex.amp.scale_loss is our_amp.scale_loss
    assert apex.parallel.DistributedDataParallel is our_parallel.DistributedDataParallel
    assert apex.parallel.SyncBatchNorm is our_parallel.SyncBatchNorm
    assert apex.parallel.LARC.LARC is our_parallel.LARC


@pytest.mark.parametrize("name", MISSING)
def test_what_is_missing_says_so_in_one_line(name):
    text = str(missing(name))
    assert text.startswith(f"torch_ddp.apex: expected a part of Apex that is here, got apex.{name}. ")
    assert "\n" not in text
    package, _, last = f"torch_ddp.apex.{name}".rpartition(".")
    with pytest.raises(MissingFromApexError, match=last):
        getattr(importlib.import_module(package), last)
    if not name.startswith("amp_C"):  # a module, which has none inside
        with pytest.raises(MissingFromApexError, match=last):
            importlib.import_module(f"torch_ddp.apex.{name}")


def test_a_name_that_apex_never_had_is_an_attribute_error():
    assert not hasattr(apex, "apple")
    with pytest.raises(ModuleNotFoundError, match="No module named"):
        importlib.import_module("torch_ddp.apex.apple")


def test_the_error_is_caught_where_scripts_try_and_do_without():
    with pytest.raises(ImportError):
        from torch_ddp.apex.optimizers import FusedMixedPrecisionLamb  # noqa: F401


def test_the_command_says_how_it_is_used(tmp_path, monkeypatch, capsys):
    from torch_ddp.apex import __main__

    for arguments, message in (([], "usage: "), (["--fast"], "usage: "), (["nowhere.py"], "expected a script, got no")):
        monkeypatch.setattr(sys, "argv", ["apex", *arguments])
        monkeypatch.setattr(__main__.aliases, "install", lambda: None)
        monkeypatch.setattr(__main__.aliases, "install_for_children", lambda: None)
        with pytest.raises(SystemExit) as ended:
            __main__.main()
        assert ended.value.code == 2
        assert message in capsys.readouterr().err


def test_multiproc_starts_each_rank_and_fails_with_the_first_that_fails(tmp_path, monkeypatch, capfd):
    from torch_ddp.apex.parallel.multiproc import main

    monkeypatch.chdir(tmp_path)
    (tmp_path / "script.py").write_text("import sys\nprint(sys.argv[1:])\nsys.exit(int(sys.argv[-1]) * 3)\n")
    assert main(["script.py", "--world-size", "2"]) == 3
    assert capfd.readouterr().out == "['--world-size', '2', '--rank', '0']\n"
    assert (tmp_path / "GPU_1.log").read_text() == "['--world-size', '2', '--rank', '1']\n"
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert main(["script.py"]) == 2
