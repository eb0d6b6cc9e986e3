"""Draws mutants from the packages, area by area."""

import hashlib
import random
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import NamedTuple

from mutation.sites import Site, is_readable, is_same, sites_of

# Which modules belong together, and how many of a hundred mutants fall to each area; a module is of the first that fits.
AREAS: dict[str, tuple[int, tuple[str, ...]]] = {
    "judge": (15, ("parity/judge/**/*.py",)),
    "mapping": (10, ("parity/mapping/**/*.py", "parity/experiment/mapping/**/*.py")),
    "trace": (10, ("parity/trace/**/*.py",)),
    "diagnosis": (15, ("parity/diagnose/**/*.py", "parity/locate/**/*.py")),
    "replay": (6, ("parity/experiment/replay/**/*.py", "parity/cli/replay.py")),
    "levels": (
        6,
        ("parity/experiment/*level*.py", "parity/experiment/rejudge/**/*.py", "parity/experiment/trajectories.py"),
    ),
    "record": (8, ("tf_towers/record/**/*.py",)),
    "shadow": (5, ("tf_towers/shadow/**/*.py",)),
    "experiment": (8, ("parity/experiment/**/*.py",)),
    "rest of parity": (5, ("parity/**/*.py",)),
    "tf_towers": (6, ("tf_towers/**/*.py",)),
    "torch_ddp": (6, ("torch_ddp/**/*.py",)),
}


class Mutant(NamedTuple):
    """A change of one file.

    Fields:
      area: one of `AREAS`.
      path: of the module, from the root.
      site: what is changed.
    """

    area: str
    path: str
    site: Site

    @property
    def name(self) -> str:
        """What tells it from others, e.g. "parity/judge/races.py:17: constant: 64.0 -> (128.0)"."""
        before = " ".join(self.site.before.split())
        return f"{self.path}:{self.site.line}: {self.site.kind}: {before} -> {self.site.after}"


class Source:
    """The packages of a checkout, as places that can be changed.

    Args:
      root: of the checkout.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._modules: dict[str, list[str]] = {}
        taken: set[str] = set()
        for area, (_, globs) in AREAS.items():
            found = {path.relative_to(root).as_posix() for glob in globs for path in root.glob(glob)} - taken
            self._modules[area] = sorted(path for path in found if not path.endswith("__init__.py"))
            taken |= found

    @cache  # noqa: B019
    def _sites(self, area: str) -> dict[str, list[tuple[str, Site]]]:
        kinds = defaultdict[str, list[tuple[str, Site]]](list)
        for path in self._modules[area]:
            for site in sites_of((self._root / path).read_text()):
                kinds[site.kind].append((path, site))
        return dict(sorted(kinds.items()))

    def draw(self, count: int, seed: int) -> list[Mutant]:
        """Returns mutants, of which the first are the same whatever their number.

        The area is the one that lacks most of its share, the kind drawn by the root of how often there is one, so that rare
        ones are among them, the place any of that kind.
        """
        shares = {area: share for area, (share, _) in AREAS.items() if self._modules[area]}
        made = dict.fromkeys(shares, 0)
        found: dict[str, Mutant] = {}
        for number in range(count):
            area = max(shares, key=lambda each: shares[each] * (number + 1) / sum(shares.values()) - made[each])
            made[area] += 1
            for again in range(1000):
                mutant = self._drawn(area, random.Random(f"{seed}-{number}-{again}"))
                before = (self._root / mutant.path).read_text()
                after = mutant.site.applied(before)
                if mutant.name not in found and is_readable(after) and not is_same(before, after):
                    found[mutant.name] = mutant
                    break
        return list(found.values())

    def _drawn(self, area: str, draw: random.Random) -> Mutant:
        kinds = list(self._sites(area).values())
        [kind] = draw.choices(kinds, [len(each) ** 0.5 for each in kinds])
        path, site = draw.choice(kind)
        return Mutant(area, path, site)


def digest(path: Path) -> str:
    """Returns a short digest of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
