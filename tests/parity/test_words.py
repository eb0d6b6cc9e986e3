"""What users read speaks the field's words: none of the project's old ones in texts of the packages, pages and lessons."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from parity.report.terms import TERMS

ROOT = Path(__file__).parents[2]
# What must not stand in a text, and what to say for it.
WORDS = {
    r"mend(s|ed|ing)?": "fix",
    r"allowances?|what is allowed|(of|rounding|is) allow(s|ed)": "tolerance; the JSON key `allowed` stays",
    r"wander(s|ed|ing)?": "run-to-run difference",
    r"kinks?|two things tie|set aside": "non-differentiable point; re-run from perturbed weights",
    r"empty gradients?|(nothing|zero) but( for)? rounding": "structurally zero gradient",
    r"stray(s|ed|ing)?": "deviate",
    r"rests? on": "evidence, or: depends on",
    r"asked for": "requested",
    r"alike": "equally, in the same way; of what counts otherwise: weighted unequally",
    r"dealt( out)?( in turn)?": "round-robin, sharded",
    r"out of step": "asynchronous",
    r"(nobody|with nobody) reset(s|ting)?( it)?|freely": "free-running",
    r"way of (a|one) batch": "data flow of one step",
    r"more tensors? (are )?(different|not comparable)": "later tensors also differ",
    r"join(s|ed|ing)?": "match, of names; add up, of losses; concatenate, of arrays",
    r"foretell(s|ing)?|foretold": "predict",
    r"apart": "absolute error, error relative to the scale; distinguish, separately",
    r"told|tells": "report, show, infer",
    r"closely": "in detail",
    r"reads? off": "infer",
    r"hypothes[ie]s": "detector",
    r"undo(es|ne)": "revert",
    r"louder": "amplified",
    r"sign of life": "heartbeat",
}
PATTERN = re.compile(rf"(?<![\w./-])({'|'.join(f'(?:{word})' for word in WORDS)})(?![\w/-])", re.IGNORECASE)
# Folders whose texts are done, and for the others how many words they still hold: lower a number with them, never raise it.
DONE = ("case", "cli", "experiment", "judge", "locate", "mapping", "report", "teach", "trace", "worker")
LEFT = {"parity/diagnose": 26, "tf_towers": 1}
NAMES_LEFT = 255
OF_CODE = re.compile(r"mend|kink|wander|stray|told|apart|aside|beside|empty_gradient|closely|foretold|alike")
OF_A_PAGE = re.compile(r"<(style|script|pre|code)\b.*?</\1>", re.DOTALL)
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
# Names of files, keys, commands and functions are frozen, and stand in backticks; so are the headings of other pages' rows.
CODE = re.compile(r"`[^`]*`|\]\([^)]*\)")


def found_in(text: str) -> list[str]:
    """Returns the words of a text that should be others."""
    return [match[0] for match in PATTERN.finditer(" ".join(text.split()))]


def literals(source: str) -> Iterator[tuple[int, str]]:
    """Yields the strings of a module that are texts, with a blank in them, and no docstrings; f-strings as one each."""
    tree = ast.parse(source)
    skipped = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            skipped |= {id(part) for part in node.values}
            parts = [part.value if isinstance(part, ast.Constant) else "{}" for part in node.values]
            yield node.lineno, "".join(map(str, parts))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield node.lineno, node.value


def texts_of(path: Path) -> Iterator[tuple[int, str]]:
    """Yields the texts of a file that a user reads, each with its line."""
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        if path.parent.name == "cli":  # the help of a verb is the first line of its module
            yield 1, (ast.get_docstring(ast.parse(source)) or "").partition("\n")[0]
        yield from ((line, text) for line, text in literals(source) if " " in text.strip())
    elif path.suffix == ".js":
        for number, line in enumerate(source.splitlines(), 1):
            strings = re.findall(r'"[^"]*"|`[^`]*`', line.partition("// ")[0])
            yield from ((number, re.sub(r"\$\{[^}]*\}", "{}", text)) for text in strings if " " in text)
    elif path.suffix == ".html":
        # Scripts, styles and code in a page that was written stand in files of their own, which are read there.
        source = OF_A_PAGE.sub(lambda block: "\n" * block[0].count("\n"), source)
        for number, line in enumerate(source.splitlines(), 1):
            labels = re.findall(r'aria-label="([^"]*)"', line)
            yield from ((number, re.sub(r"\{[{%].*?[}%]\}", "{}", text)) for text in labels)
            yield number, re.sub(r"\{[{%].*?[}%]\}|<[^>]*>", " ", line)
    elif path.suffix == ".md":
        prose = CODE.sub("`", re.sub(r"\{[{%].*?[}%]\}", "{}", FENCE.sub("", source)))
        yield from enumerate(prose.split("\n\n"), 1)


def wrong_in(folder: str) -> list[str]:
    """Returns the words in the texts under a folder that should be others, each with its file and line (or paragraph)."""
    files = sorted(path for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".js", ".html", ".md"))
    assert files, folder
    return [
        f"{path.relative_to(ROOT)}:{line}: {word} in {' '.join(text.split())[:120]!r}"
        for path in files
        for line, text in texts_of(path)
        for word in found_in(text)
    ]


@pytest.mark.parametrize("folder", [*(f"parity/{name}" for name in DONE), "torch_ddp", "docs", "examples/lessons"])
def test_texts_are_in_the_words_of_the_field(folder):
    assert wrong_in(folder) == []


@pytest.mark.parametrize("folder", LEFT)
def test_the_old_words_become_fewer(folder):
    wrong = wrong_in(folder)
    assert len(wrong) <= LEFT[folder], "\n".join(wrong)
    assert len(wrong) == LEFT[folder], f"lower LEFT of {folder} to {len(wrong)}"


def test_names_in_code_become_fewer():
    names = old_names()
    assert len(names) <= NAMES_LEFT, "\n".join(names)
    assert len(names) == NAMES_LEFT, f"lower NAMES_LEFT to {len(names)}"


def old_names() -> list[str]:
    """Returns the functions, classes, parameters and variables of `parity` whose names hold old words."""
    names = []
    for path in sorted((ROOT / "parity").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            name = ""
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                name = node.name
            elif isinstance(node, ast.arg):
                name = node.arg
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                name = node.id
            if OF_CODE.search(name.lower()):
                names.append(f"{path.relative_to(ROOT)}:{node.lineno}: {name}")
    return names


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ('note = f"{side} wanders by {much}"', ["wanders"]),
        ('note = "two values are equal, " "and how far apart"', ["apart"]),
        ('key = "apart"', []),
        ('def f():\n    """Tells apart."""\n    return "fix it"', []),
        ('say = "Mend the case."', ["Mend"]),
    ],
)
def test_the_proof_that_texts_have_no_old_words_can_fail(source, found):
    assert [word for _, text in literals(source) if " " in text for word in found_in(text)] == found


def test_the_terms_of_a_report_are_those_of_the_glossary():
    page = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", page, re.MULTILINE))
    plain = {term: re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text).replace("`", "") for term, text in rows.items()}
    assert dict(TERMS).items() <= plain.items()
