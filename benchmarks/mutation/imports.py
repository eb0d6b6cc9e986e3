"""Which modules a file of tests imports, itself and through others: what a test may see where nobody has watched it."""

import ast
from functools import cache
from pathlib import Path

PACKAGES = ("parity", "tf_towers", "torch_ddp")


class Imports:
    """Reads what files import of the packages.

    Args:
      root: of the checkout.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._known: dict[str, frozenset[str]] = {}

    def reached(self, path: str) -> frozenset[str]:
        """Returns the modules of the packages that a file reaches by its imports, as paths from the root."""
        if path not in self._known:
            found, pending = set[str](), [path]
            while pending:
                for each in self._own(pending.pop()):
                    if each not in found:
                        found.add(each)
                        pending.append(each)
            self._known[path] = frozenset(found)
        return self._known[path]

    @cache  # noqa: B019
    def _own(self, path: str) -> frozenset[str]:
        names: set[str] = set()
        for node in ast.walk(ast.parse((self._root / path).read_text())):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        return frozenset(file for name in names if name.split(".")[0] in PACKAGES for file in self._files(name))

    def _files(self, name: str) -> list[str]:
        place = name.replace(".", "/")
        return [path for path in (f"{place}.py", f"{place}/__init__.py") if (self._root / path).is_file()]
