"""A training program behind "--": what its command is taken for, and what is refused before anything is launched."""

import sys

import pytest

from parity.cli import main
from parity.cli.main import _split_command


def test_options_before_the_command_are_parity_s_and_those_behind_it_the_program_s():
    words = ["replay", "trace", "--map", "port.toml", "--", "torchrun", "train.py", "--map", "own", "--", "rest"]
    assert _split_command(words) == (words[:4], words[5:])
    assert _split_command(["replay", "trace"]) == (["replay", "trace"], None)
    assert _split_command(["record", "--", "train.py"]) == (["record", "--", "train.py"], None)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["replay", "trace", "--torch", "port:Model", "--", "torchrun"],
            "got both: --torch and torchrun. Leave one out.",
        ),
        (["replay", "trace"], "expected --torch and --loss, or --init, or `-- COMMAND`, got neither"),
        (["record", "--like", "trace", "--", "train.py"], "expected a PyTorch program behind --like"),
        (["record", "--like", "trace", "--steps", "3", "--", sys.executable, "x.py"], "got --steps or --skip as well"),
        (["replay", "no-trace", "--", sys.executable, "x.py"], "no-trace"),
    ],
)
def test_what_cannot_be_is_one_message(words, message, capsys):
    assert main(words) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert message in told
