"""Print what makes a shell complete verbs, options and files of `parity`."""

import argparse
from pathlib import Path

SHELLS = ("bash", "zsh", "tcsh", "fish")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds this verb's arguments."""
    parser.add_argument("shell", choices=SHELLS, help="which shell")
    parser.epilog = (
        'bash: write `eval "$(parity completion bash)"` into ~/.bashrc; zsh: what is printed into a file _parity of $fpath; '
        "fish: into ~/.config/fish/completions/parity.fish."
    )


def run(arguments: argparse.Namespace) -> int:
    """Prints the shell's script; returns 0."""
    import shtab

    from parity.cli.main import build_parser

    parser = build_parser()
    _complete_files(parser)
    print(shtab.complete(parser, arguments.shell))
    return 0


def _complete_files(parser: argparse.ArgumentParser) -> None:
    """Has arguments that are paths completed as such; all else that takes a value is a number, a name or a command."""
    import shtab

    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for sub in action.choices.values():
                _complete_files(sub)
        elif action.type is Path or action.dest in ("tf_python", "script"):
            action.complete = shtab.FILE  # type: ignore[attr-defined]
