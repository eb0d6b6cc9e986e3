"""Whole training programs, launched as they are, judged by what another one did."""

import contextlib
import io

import pytest

from parity.cli import main
from parity.experiment.replay.own_shadow import make_shadow
from parity.experiment.replay.program import compare_kept, is_like, record_like, replay_program
from parity.worker.failures import SideFailed

pytestmark = pytest.mark.slow

PROGRAM = """
import argparse

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
for option in ("arrays", "bare", "leaky", "fails"):
    parser.add_argument("--" + option, action="store_true")
parser.add_argument("--decay", type=float, default=0.01)
parser.add_argument("--micro", type=int, default=1)
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--batch", type=int, default=8)
args = parser.parse_args()
dist.init_process_group("gloo")
torch.manual_seed(1 + dist.get_rank())


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden, self.out = nn.Linear(5, 6), nn.Linear(6, 4)

    def forward(self, x):
        activation = nn.functional.leaky_relu if args.leaky else torch.relu
        return self.out(activation(self.hidden(x)))


net = Net()
model = net if args.bare else DistributedDataParallel(net)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=args.decay)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
random = np.random.default_rng(dist.get_rank())
inputs, labels = random.standard_normal((16, 5), np.float32), random.integers(4, size=16)


def batches():
    if args.arrays:
        for begin in range(0, 16, args.batch):
            yield torch.from_numpy(inputs[begin : begin + args.batch]), torch.tensor(labels[begin : begin + args.batch])
    else:
        data = TensorDataset(torch.from_numpy(inputs), torch.from_numpy(labels))
        yield from DataLoader(data, batch_size=args.batch // args.micro, shuffle=True)


for epoch in range(args.epochs):
    for number, (x, y) in enumerate(batches()):
        last = (number + 1) % args.micro == 0
        loss = nn.functional.cross_entropy(model(x), y) / args.micro
        if args.bare or last:
            loss.backward()
        else:
            with model.no_sync():
                loss.backward()
        if args.fails and x.dtype is torch.float64:
            raise RuntimeError("it takes no float64")
        if last:
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
"""


TWO_OPTIMIZERS = """
import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--alone", action="store_true")
args = parser.parse_args()
dist.init_process_group("gloo")
torch.manual_seed(1)
encoder, decoder = nn.Linear(5, 3), nn.Linear(3, 5)
optimizers = [torch.optim.Adam(encoder.parameters(), lr=0.01), torch.optim.SGD(decoder.parameters(), lr=0.1, momentum=0.9)]
encoding, decoding = optimizers
torch.manual_seed(2 + dist.get_rank())
data = TensorDataset(torch.randn(32, 5), torch.randn(32, 3))


def average(model):
    for each in model.parameters():
        dist.all_reduce(each.grad)
        each.grad /= 2


for x, y in DataLoader(data, batch_size=8):
    codes = encoder.forward(x)
    encoding.zero_grad()
    nn.functional.mse_loss(codes, y).backward()
    average(encoder)
    encoding.step()
    decoding.zero_grad()
    nn.functional.mse_loss(decoder(codes.detach()), x).backward()
    if not args.alone:
        average(decoder)
    decoding.step()
"""


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """What programs that run in forks are started with."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        yield


@pytest.fixture(scope="module")
def recorded(tmp_path_factory, torch_python):
    """Records the program on two ranks, with its float64 shadow; returns its command and the trace."""
    folder = tmp_path_factory.mktemp("program")
    (folder / "train.py").write_text(PROGRAM)
    command = [torch_python, "-m", "torch.distributed.run", "--nproc_per_node", "2", str(folder / "train.py")]
    trace = folder / "trace"
    with contextlib.redirect_stderr(io.StringIO()):
        assert main(["record", "--steps", "3", "--out", str(trace), "--", *command]) == 0
    make_shadow(trace, command)
    return command, trace


def test_a_program_that_reads_arrays_and_accumulates_is_the_same(recorded, tmp_path):
    command, trace = recorded
    arrays = replay_program(trace, [*command, "--arrays"], None, tmp_path / "arrays")
    assert (arrays.levels["function"].verdict, arrays.levels["float32"].verdict) == ("same", "same")
    micro = replay_program(trace, [*command, "--micro", "2"], None, tmp_path / "micro")
    assert (micro.levels["function"].verdict, micro.levels["float32"].verdict) == ("same", "same")


def test_one_rank_on_the_whole_batch_is_the_same_as_two(recorded, tmp_path):
    command, trace = recorded
    alone = [word if word != "2" else "1" for word in command]
    result = replay_program(trace, [*alone, "--batch", "16", "--epochs", "4"], None, tmp_path)
    assert (result.levels["function"].verdict, result.levels["float32"].verdict) == ("same", "same")


def test_several_optimizers_are_judged_in_one_run_each_under_its_name(torch_python, tmp_path):
    (tmp_path / "train.py").write_text(TWO_OPTIMIZERS)
    command = [torch_python, "-m", "torch.distributed.run", "--nproc_per_node", "2", str(tmp_path / "train.py")]
    trace = tmp_path / "trace"
    with contextlib.redirect_stderr(io.StringIO()):
        assert main(["record", "--steps", "4", "--shadow", "--out", str(trace), "--", *command]) == 0
    right = replay_program(trace, command, None, tmp_path / "right")
    assert (right.levels["function"].verdict, right.levels["float32"].verdict) == ("same", "same")
    judged = {check.key for check in right.levels["function"].checks if check.verdict == "same"}
    assert {"section/encoding/slot/exp_avg/encoder.weight", "section/decoding/grad/decoder.bias"} <= judged
    level = replay_program(trace, [*command, "--alone"], None, tmp_path / "alone").levels["function"]
    assert level.first_difference.check.key.startswith("section/decoding/grad/")
    assert level.causes[0].name == "not_shared"


def test_gradients_that_are_never_shared_are_named(recorded, tmp_path):
    command, trace = recorded
    level = replay_program(trace, [*command, "--bare"], None, tmp_path).levels["function"]
    assert level.verdict == "different"
    assert level.causes[0].name == "not_shared"


def test_a_program_recorded_like_another_is_judged_without_a_launch(recorded, tmp_path):
    command, trace = recorded
    out = tmp_path / "candidate"
    record_like(trace, [*command, "--leaky"], None, out)
    assert is_like(trace, out)
    level = compare_kept(trace, out).levels["function"]
    assert level.verdict == "different"
    assert "leaky" in " ".join(cause.title for cause in level.causes).lower()
    assert main(["compare", str(trace), str(out), "--quiet"]) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--epochs", "1"], r"expected 3 training steps of `.*`, got 2\. Have it train for as long"),
        (["--fails"], r"expected to run the steps, got RuntimeError: it takes no float64 \(train.py, line \d+"),
        (
            ["--micro", "3"],
            "step 0 to take its whole shard of '0', 8 examples on this rank, got 2 in each of 3 batches",
        ),
    ],
)
def test_what_a_program_does_not_take_is_one_message(recorded, tmp_path, options, message):
    command, trace = recorded
    with pytest.raises(SideFailed, match=message):
        replay_program(trace, [*command, *options], None, tmp_path)
