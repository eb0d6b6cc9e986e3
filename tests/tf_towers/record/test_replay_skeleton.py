"""The skeleton of a port that `parity replay --init` writes."""

import subprocess
import sys

import pytest

from parity.cli import main

pytestmark = pytest.mark.usefixtures("forked_torch")
FORWARD = """
    def forward(self, X):
        hidden = torch.relu(X @ self.net_w1 + self.net_b1)
        return hidden @ self.net_w2 + self.net_b2


def loss(model, X, Y):
    return -(torch.log_softmax(model(X), 1) * Y).sum(1).mean()
"""


def initialised(trace, folder):
    assert main(["replay", str(trace), "--init", str(folder)]) == 0
    return (folder / "port.py").read_text(), folder


@pytest.mark.slow
def test_a_skeleton_says_what_to_fill_in_and_runs_up_to_there(recorded, tmp_path, capsys, monkeypatch):
    trace = recorded("placeholder_slices").out
    source, folder = initialised(trace, tmp_path / "port")
    assert "def loss(model, X, Y):" in source
    assert "# X: float32 [6, 5] in each tower" in source
    assert "self.net_w1 = nn.Parameter(torch.zeros(5, 4))  # net/w1: read by MatMul" in source
    assert "# MatMul, Add" in source
    monkeypatch.chdir(folder)
    words = ["replay", str(trace), "--torch", "port:Model", "--loss", "port:loss", "--map", "port.toml"]
    assert " ".join(["parity", *words]).replace(" --loss port:loss --map port.toml", "") in source
    assert main(words) == 2
    assert "fill in the forward of the port" in " ".join(capsys.readouterr().err.split())


def test_a_skeleton_is_the_port_once_its_forward_is_filled_in(recorded, tmp_path, monkeypatch):
    trace = recorded("placeholder_slices").out
    source, folder = initialised(trace, tmp_path / "filled")
    head = source[: source.index("    def forward")].replace("port.", "filled.")
    (folder / "filled.py").write_text(head + FORWARD.lstrip("\n"))
    monkeypatch.chdir(folder)
    words = ["replay", str(trace), "--torch", "filled:Model", "--loss", "filled:loss", "--map", "port.toml"]
    assert main([*words, "--quiet"]) == 0


def test_every_optimizer_gets_its_loss_and_an_unknown_one_its_function(recorded, tmp_path):
    source, _ = initialised(recorded("two_optimizers").out, tmp_path / "two")
    assert "def DAdam_loss(model, real, noise):" in source
    assert "def GAdam_loss(model, noise):" in source
    assert "--loss DAdam=port:DAdam_loss --loss GAdam=port:GAdam_loss" in source
    source, _ = initialised(recorded("hand_written_adam").out, tmp_path / "hand")
    assert 'raise NotImplementedError("make the optimizer of the port")' in source
    clipping, _ = initialised(recorded("monitored").out, tmp_path / "clipping")
    assert "# The script clips the combined gradients" in clipping
    program = "import runpy\nfor each in ('two', 'hand', 'clipping'): runpy.run_path(each + '/port.py')"
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True, timeout=120)


def test_draws_are_told(recorded, tmp_path):
    source, _ = initialised(recorded("queue_fed").out, tmp_path / "draws")
    assert "# Draw 0 of the script, of shape [4, 4] in each tower" in source


def test_a_file_that_is_there_is_kept(recorded, tmp_path, capsys):
    trace = recorded("placeholder_slices").out
    initialised(trace, tmp_path / "port")
    assert main(["replay", str(trace), "--init", str(tmp_path / "port")]) == 2
    assert "expected no port.py in" in " ".join(capsys.readouterr().err.split())


def test_without_a_port_and_without_init_the_command_says_so(recorded, capsys):
    assert main(["replay", str(recorded("placeholder_slices").out)]) == 2
    assert "expected --torch and --loss, or --init" in " ".join(capsys.readouterr().err.split())
