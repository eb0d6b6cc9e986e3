"""A copy of the checkout, in which single files are changed and tests run."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from mutation.imports import PACKAGES

PLUGIN = "mutation.plugin"
WATCH = Path(__file__).with_name("watch.py")


class Checkout:
    """A copy of what git tracks or would, in a temporary folder.

    Args:
      root: of the checkout that is copied and never changed.
    """

    def __init__(self, root: Path) -> None:
        self._kept = tempfile.TemporaryDirectory(prefix="mutants-")
        self.root = Path(self._kept.name, "checkout").resolve()
        self._stamp = 10**9
        command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, capture_output=True, check=True).stdout.decode().split("\0")
        for name in filter(None, listed):
            if (root / name).is_file():
                (self.root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(root / name, self.root / name)

    @contextlib.contextmanager
    def changed(self, path: str, text: str) -> Iterator[None]:
        """Has a file be another one for a while."""
        before = (self.root / path).read_text()
        try:
            self._write(path, text)
            yield
        finally:
            self._write(path, before)

    def _write(self, path: str, text: str) -> None:
        # Compiled files are told from old ones by size and whole seconds alone.
        self._stamp += 10
        (self.root / path).write_text(text)
        os.utime(self.root / path, (self._stamp, self._stamp))

    def test_files(self) -> list[str]:
        """Returns all files of tests."""
        return sorted(path.relative_to(self.root).as_posix() for path in (self.root / "tests").rglob("test_*.py"))

    def watched(self, words: Sequence[str], folder: Path, seconds: float, by_test: bool = True) -> None:
        """Runs tests, and has what they run written into a folder.

        Args:
          words: for pytest, files of tests as a rule.
          folder: for `Watch`.
          seconds: after which they are ended.
          by_test: tell the lines of one test from those of another; only one process may run tests then.
        """
        (folder / "now").write_bytes(bytes(4))
        start = f'\n__import__("runpy").run_path({str(WATCH)!r})["start"]({str(folder)!r}, {f"{self.root}/"!r})\n'
        with contextlib.ExitStack() as stack:
            for package in PACKAGES:
                path = f"{package}/__init__.py"
                stack.enter_context(self.changed(path, (self.root / path).read_text() + start))
            self._pytest(list(words), {"MUTANTS_WATCH": str(folder)} if by_test else {}, seconds)

    def fails(self, tests: Sequence[str], seconds: float) -> bool | None:
        """Returns whether one of some tests fails, run in this order to the first that does; None where time runs out."""
        files = list(dict.fromkeys(test.partition("::")[0] for test in tests))
        chosen = Path(self._kept.name, "chosen")
        chosen.write_text("\n".join(tests))
        code = self._pytest(["-x", *files], {"MUTANTS_TESTS": str(chosen)}, seconds)
        return None if code is None else code not in (0, 5)

    def _pytest(self, words: list[str], variables: dict[str, str], seconds: float) -> int | None:
        paths = [self.root, Path(__file__).resolve().parents[1]]
        environment = {**os.environ, **variables, "PYTHONPATH": os.pathsep.join(map(str, paths))}
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", PLUGIN, *words]
        with Path(self._kept.name, "log").open("w") as log:
            child = subprocess.Popen(
                command, cwd=self.root, env=environment, stdout=log, stderr=log, start_new_session=True
            )
            try:
                return child.wait(seconds)
            except subprocess.TimeoutExpired:
                return None
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
                child.wait()

    @property
    def log(self) -> str:
        """What the last run printed."""
        return Path(self._kept.name, "log").read_text()
