"""Ports of recorded scripts join by themselves: names, shapes and order, verified by the gradients of the first step."""

import json

import pytest

from parity.cli import main

from .conftest import PORTS

pytestmark = pytest.mark.usefixtures("forked_torch")
LOSSES = {"two_optimizers": ("DAdam=d_loss", "GAdam=g_loss")}


@pytest.mark.parametrize(
    "name",
    [
        "recurrent",
        *(pytest.param(n, marks=pytest.mark.slow) for n in ("split_sum", "two_optimizers", "dropout_wrapper")),
    ],
)
def test_a_port_is_the_same_without_a_mapping_file(request, recorded, monkeypatch, tmp_path, name):
    monkeypatch.chdir(PORTS)
    words = ["replay", str(recorded(name).out), "--torch", f"{name}_torch:Model", "--quiet"]
    for loss in LOSSES.get(name, ("loss",)):
        section, equals, function = loss.rpartition("=")
        words += ["--loss", f"{section}{equals}{name}_torch:{function}"]
    code = main([*words, "--json", str(tmp_path / "result.json")])
    result = json.loads((tmp_path / "result.json").read_text())
    assert code == 0, result["first_difference"]
    assert not any("no numbers agree with it" in note for note in result["notes"])
