"""How much of the traces is read for a closer look: one limit for all levels and sections of a comparison together."""

from types import SimpleNamespace

import pytest

from parity.experiment import level_details
from parity.experiment.replay import sections
from parity.judge.result import Check, Level

MOST = 2**27  # elements


@pytest.fixture
def read(monkeypatch):
    """The numbers of elements that were left to be read, each time; every look reads one tensor of 7."""
    left = []

    def look(join, level, pairs, elements):
        left.append(elements)
        return [Closer(f"{level.name}/w", 7)]

    course = SimpleNamespace(_replace=lambda section: section)
    for module in (level_details, sections):
        monkeypatch.setattr(module, "look_closer", look)
        monkeypatch.setattr(module, "losses_of", lambda level, pairs: course if "loss" in pairs else None)
    return left


class Closer(SimpleNamespace):
    def __init__(self, key, size):
        super().__init__(key=key, size=size)

    def _replace(self, key):
        return Closer(key, self.size)


CHECKS = [Check("lockstep", 0, "grad/w", "same")]


def test_what_other_levels_have_read_is_not_left(read):
    levels = {"function": Level("function", "same", "", CHECKS), "float32": Level("float32", "not_run", "")}
    result = SimpleNamespace(levels=levels, closer=[Closer("a", 5), Closer("b", 6)], losses=[])
    for name in levels:
        level_details.look_at_level(result, name, None, {})
    level_details.look_at_level(result, "function", None, {"loss": ()})
    # A level without checks has nothing to look at.
    assert read == [MOST - 11, MOST - 18]
    assert [each.size for each in result.closer] == [5, 6, 7, 7] and len(result.losses) == 1


def test_what_other_sections_have_read_is_not_left_and_names_are_those_of_the_section(read):
    levels = [Level("function", "same", "", CHECKS), Level("mixed", "same", "", CHECKS), Level("float32", "same", "")]
    judged = SimpleNamespace(levels=levels, pairs={"function": {"loss": ()}, "float32": {}})
    known = sections.Looked([Closer("section/disc/var/w", 5)], ["disc"])
    looked = sections.look_at_part(known, None, judged, "gen")
    assert read == [MOST - 5, MOST - 12]
    assert [each.key for each in looked.closer] == [
        "section/disc/var/w",
        "section/gen/function/w",
        "section/gen/float32/w",
    ]
    assert looked.losses == ["disc", "gen"] and len(known.closer) == 1
