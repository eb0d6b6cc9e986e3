"""What a program writes for float32 is computed in float64, and what stays narrower is named."""

import subprocess

from conftest import environment

PROGRAM = """
import numpy as np
import torch
from torch_ddp.record.widen import widen_program

mode = widen_program()
from torch import nn

torch.set_default_dtype(torch.float32)
net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3)).float().to(torch.float32)
optimizer = torch.optim.Adam(net.parameters(), 1e-3)
x = torch.from_numpy(np.random.default_rng(0).random((6, 4), np.float32))
old = torch.FloatTensor([1, 2, 3, 4, 5, 6])
for _ in range(2):
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = net(x.float())
        loss = out.softmax(1, dtype=torch.float32)[:, 0].sub(old).pow(2).mean()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    optimizer.step()
held = [*net.parameters(), *(each.grad for each in net.parameters()), *net.buffers(), out, loss, out.max(1).values]
held += [value for state in optimizer.state.values() for value in state.values()]
print({each.dtype for each in held if each.is_floating_point()}, out.detach().numpy().dtype)
print(torch.zeros(3).half().dtype, torch.zeros(2).to(torch.bfloat16).dtype)
old[0] = 5.0
old.mul_(torch.tensor(2.0))
print(old.tolist())
print(sorted(mode.narrow.items()))
"""


def test_a_program_for_float32_computes_in_float64(torch_python, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    words = [torch_python, str(program)]
    done = subprocess.run(words, env=environment(), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "{torch.float64} float64",
        "torch.float16 torch.bfloat16",
        # What is written into stays the tensor that it is.
        "[10.0, 4.0, 6.0, 8.0, 10.0, 12.0]",
        "[('autocast', 'program.py, line 16'), ('bfloat16', 'program.py, line 25'), ('half', 'program.py, line 25')]",
    ]


LEFT = r"""
import types
import torch
from torch_ddp.record.widen import Widened

SOURCE = "import torch\ndef cast(x):\n    return x.to(torch.float32)"
meant, other = types.ModuleType("package.inner"), types.ModuleType("packages")
for module in (meant, other):
    exec(SOURCE, vars(module))
x = torch.zeros(2, dtype=torch.float64)
with Widened("package"):
    bits = torch.ones(1, dtype=torch.int32).view(torch.float32)
    print(meant.cast(x).dtype, other.cast(x).dtype, x.float().dtype, bits.dtype)
print(x.float().dtype)
"""


def test_a_package_that_means_float32_has_it_and_so_does_what_comes_after(torch_python):
    done = subprocess.run([torch_python, "-c", LEFT], env=environment(), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "torch.float32 torch.float64 torch.float64 torch.float32",
        "torch.float32",
    ]
