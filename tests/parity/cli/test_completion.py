"""Shells complete verbs and options of `parity`."""

import subprocess

import pytest

from parity.cli.completion import SHELLS
from parity.cli.main import COMMANDS, main

COMPLETE = "\nCOMP_WORDS=(parity {0}); COMP_CWORD={1}; _shtab_parity parity '{2}' x; echo ${{COMPREPLY[@]}}"


@pytest.mark.parametrize("shell", SHELLS)
def test_what_is_printed_for_a_shell_knows_every_verb(shell, capsys):
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert [command.name for command in COMMANDS if command.name not in script] == []


@pytest.mark.parametrize(
    ("words", "last", "completed"),
    [("te", "te", "teach"), ("run --gol", "--gol", "--golden"), ("completion f", "f", "fish")],
)
def test_bash_completes_verbs_options_and_choices(words, last, completed, capsys):
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out + COMPLETE.format(words, len(words.split()), last)
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.split()[:1] == [completed], done.stderr


def test_a_shell_that_is_not_known_is_refused(capsys):
    with pytest.raises(SystemExit):
        main(["completion", "bsh"])
    assert "Did you mean 'bash'?" in capsys.readouterr().err
