"""What tests need of a machine that no requirement of this project brings, and what to do where it is missing.

`python tests/support/machine.py` prints what is here, in words for $PARITY_REQUIRE, and on stderr what will be skipped and
why; with `--install` it first makes an environment with genuine TensorFlow 1.15, where a Python 3.7 is. Imports the standard
library alone, so that it runs before anything is installed.
"""

import argparse
import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

from parity.worker.interpreters import legacy_interpreters

CHROMIUMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
TF1_PACKAGES = ("tensorflow==1.15.5", "protobuf<3.21")
INSTALL_SECONDS = 900
INSTALL = "python tests/support/machine.py --install"


class MissingError(Exception):
    """Says what this machine lacks, and what to do."""


def tf1_python() -> str:
    """Returns the path of an interpreter with genuine TensorFlow 1.15: the user's, or the one that `--install` made.

    Raises:
      MissingError: where there is none.
    """
    found = legacy_interpreters(also=str(_environment() / "bin" / "python"))
    if not found:
        raise MissingError(
            "needs a Python 3.7, got none on PATH, under pyenv or in $PARITY_TF_PYTHON: install one (pyenv install 3.7), "
            f"then run {INSTALL}"
        )
    if ready := [each for each in found if each.get("tensorflow", "").startswith("1.15")]:
        return str(ready[0]["executable"])
    raise MissingError(f"needs TensorFlow 1.15, got a Python 3.7 without ({found[0]['executable']}): run {INSTALL}")


def chromium() -> str:
    """Returns the path of a Chromium, $PARITY_CHROMIUM first.

    Raises:
      MissingError: where there is none.
    """
    for path in (os.environ.get("PARITY_CHROMIUM"), *map(shutil.which, CHROMIUMS)):
        if path:
            return path
    raise MissingError("needs a Chromium: apt-get install chromium, or name one in $PARITY_CHROMIUM")


NEEDS: dict[str, Callable[[], str]] = {"tf1": tf1_python, "browser": chromium}


def required(words: str) -> set[str]:
    """Returns the words of $PARITY_REQUIRE.

    Raises:
      ValueError: for a word that means nothing.
    """
    found = {word.strip() for word in words.split(",") if word.strip()}
    if unknown := found - NEEDS.keys():
        raise ValueError(
            f"PARITY_REQUIRE: expected {' and '.join(NEEDS)}, with a comma between, got {', '.join(sorted(unknown))}. "
            "Name what this machine must have."
        )
    return found


def install_tf1() -> None:
    """Makes an environment with TensorFlow 1.15 where a Python 3.7 is, unless there is one already.

    Raises:
      MissingError: where pip fails.
    """
    environment = _environment()
    environment.parent.mkdir(parents=True, exist_ok=True)
    with _locked(environment.with_name("tf1.15.lock")):
        pythons = legacy_interpreters()
        if not pythons or _is_there(tf1_python):
            return
        for command in (
            [pythons[0]["executable"], "-m", "venv", "--clear", str(environment)],
            [str(environment / "bin" / "python"), "-m", "pip", "install", "-q", *TF1_PACKAGES],
        ):
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False)
            except subprocess.TimeoutExpired:
                raise MissingError(f"TensorFlow 1.15 could not be installed in {INSTALL_SECONDS} s") from None
            if done.returncode:
                raise MissingError(f"TensorFlow 1.15 could not be installed, mend this first: {done.stderr[-500:]}")


def _is_there(need: Callable[[], str]) -> bool:
    try:
        return bool(need())
    except MissingError:
        return False


def _environment() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "tower-parity" / "tf1.15"


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def main() -> None:
    """Prints what is here, and on stderr what is not."""
    parser = argparse.ArgumentParser(description="Prints what this machine has of what tests need, for PARITY_REQUIRE.")
    parser.add_argument("--install", action="store_true", help="first make an environment with TensorFlow 1.15")
    if parser.parse_args().install:
        try:
            install_tf1()
        except MissingError as error:
            print(error, file=sys.stderr)
    here = []
    for word, need in NEEDS.items():
        try:
            need()
            here.append(word)
        except MissingError as error:
            print(f"will be skipped: tests of {word}: {error}", file=sys.stderr)
    if not shutil.which("nvidia-smi"):
        print("will be skipped: tests on a GPU: needs an NVIDIA one", file=sys.stderr)
    print(",".join(here))


if __name__ == "__main__":
    main()
