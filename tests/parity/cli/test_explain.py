"""What `parity explain` prints, and the pages of causes in the documentation, which are written from the catalogue."""

from pathlib import Path

import pytest

from parity.cli.main import main
from parity.diagnose.catalogue import CAUSES, PLACE, CauseInfo, Proof, Wording
from parity.report import cause_pages

DOCS = Path(__file__).parents[3] / "docs"


def printed(capsys, *words):
    """The exit code, and what went to both streams."""
    code = main(["explain", *words])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_without_an_argument_all_causes_are_listed(capsys):
    code, out, _ = printed(capsys)
    assert code == 0
    assert [line.split()[0] for line in out.splitlines() if line.startswith("  ")] == list(CAUSES)


@pytest.mark.parametrize("name", CAUSES)
def test_every_cause_has_all_parts_of_a_page(name, capsys):
    code, out, _ = printed(capsys, name)
    assert code == 0
    assert out.startswith(f"{name} ({CAUSES[name].family})\n")
    for section in cause_pages.sections_of(CAUSES[name])[:4]:
        assert f"\n{section.heading}\n" in out
        assert section.lines, section.heading
    assert max(map(len, out.splitlines())) <= cause_pages.WIDTH


def test_a_cause_that_is_not_known_is_refused_with_what_is_near(capsys):
    code, out, err = printed(capsys, "adam_bta")
    assert (code, out) == (2, "")
    assert err == (
        "parity: explain: expected the identifier of a cause, got 'adam_bta'. Did you mean adam_beta? "
        "`parity explain` lists all.\n"
    )
    assert "Did you mean" not in printed(capsys, "xyzzy")[2]


def test_fields_are_shown_by_name():
    assert cause_pages.shown("off by {factor:.6g}{where}, as {{ to = 1 }}") == "off by <factor>, as { to = 1 }"


def test_a_page_says_how_exact_a_cause_is_and_what_it_is_related_to():
    row = CauseInfo(
        "border",
        "an output",
        {"": Wording("one", "same"), "b": Wording("two", "same")},
        Proof.NUMBERS,
        specificity=PLACE,
        complete=False,
        implies=("padding",),
        family="Layers",
    )
    meaning, looks, proven, change, related = cause_pages.sections_of(row)
    assert list(meaning.lines) == [
        "An output.",
        "It says where the trouble is rather than what it is: what is more exact is named before it.",
        "It need not be all of the difference.",
    ]
    assert list(looks.lines) == ["one", "two"]
    assert list(change.lines) == ["same"]
    assert list(proven.lines) == [cause_pages.PROOFS[Proof.NUMBERS]]
    assert related.lines[0] == "Not named beside it, because they follow from it: `padding`."


def test_what_a_cause_may_follow_from_is_told_on_its_page():
    assert any(line.startswith("May itself follow from: ") for line in cause_pages.related(CAUSES["learning_rate"]))


def test_the_pages_of_the_documentation_are_those_of_the_catalogue():
    """Where this fails: `python -m parity.report.cause_pages docs`."""
    written = cause_pages.pages(DOCS)
    assert {path for path in written if path.parent.name == "causes"} == set((DOCS / "causes").glob("*.md"))
    assert [path.name for path, text in written.items() if path.read_text(encoding="utf-8") != text] == []


def test_pages_of_causes_that_are_gone_are_removed(tmp_path):
    (tmp_path / "causes").mkdir()
    (tmp_path / "causes" / "gone.md").write_text("# gone\n")
    (tmp_path / "causes.md").write_text("# Causes\n\nThe text before the tables.\n\n## Gone\n")
    cause_pages.write_pages(tmp_path)
    assert {path.stem for path in (tmp_path / "causes").iterdir()} == set(CAUSES)
    assert (
        (tmp_path / "causes.md").read_text().startswith("# Causes\n\nThe text before the tables.\n\n## What goes in\n")
    )
