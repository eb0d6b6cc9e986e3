"""Scans source: reads files, finds towers, applies rules."""

import ast
import gc
import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from pathlib import Path

from parity.scan.effort import efforts_of
from parity.scan.inventory.count import is_one
from parity.scan.inventory.facts import facts_of
from parity.scan.inventory.libraries import ESTIMATOR, library_towers
from parity.scan.inventory.program import Code, code_of
from parity.scan.inventory.written_out import written_out_towers
from parity.scan.model.module import Module, build_module
from parity.scan.model.old_copies import old_copy_reason
from parity.scan.model.places import place_of
from parity.scan.model.repository import Repository, source_of
from parity.scan.plan import plans_of
from parity.scan.reading.decode import UnreadableFile, read_source
from parity.scan.reading.files import source_files, texts_in
from parity.scan.reading.statements import parse
from parity.scan.result import TOWERS, Finding, Scan, Towers, Unread
from parity.scan.rules import SCAN_RULES
from parity.scan.rules.rule import Hit, Rule, each_once
from parity.scan.suppress import without_suppressed

Tick = Callable[[str, int, int], None]
# A file that mentions none of them has nothing of towers in it, nor of what they call.
ABOUT_TENSORFLOW = re.compile(r"tensorflow|\btf\.|\bslim\b|keras|horovod|gpu|sonnet|tf_slim", re.IGNORECASE)
IMPORTS = re.compile(r"^\s*(from|import)\s", re.MULTILINE)


def scan(paths: Sequence[Path], tick: Tick | None = None, baseline: Set[str] = frozenset()) -> Scan:
    """Returns what source files contain. Nothing of them is run or imported.

    Args:
      paths: files, and folders with files.
      tick: is called with what is done, how much of it, and of how much.
      baseline: fingerprints of findings that are known and left out.
    """
    files = list(source_files(paths))
    with _without_collection():
        modules, unread, lines = _read(files, paths, tick)
        code = code_of(Repository(modules, texts=list(texts_in(paths))))
        towers = sorted(_towers(code), key=lambda each: each.place[:3])
        found = sorted(_findings(code), key=lambda each: (each.place[:3], each.rule))
        sources = {module.path.as_posix(): module.lines for module in modules}
        new = [each for each in without_suppressed(found, sources) if each.fingerprint not in baseline]
        return Scan(
            [path.as_posix() for path in paths],
            len(files),
            lines,
            towers,
            new,
            unread,
            efforts_of(code, new),
            plans_of(code),
            len(found) - len(new),
        )


@contextmanager
def _without_collection() -> Iterator[None]:
    """Turns the search for circles of objects off: a scan keeps all that it makes, and millions would be looked at.

    It took 15 to 25% of the time of a scan.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _read(files: Sequence[Path], roots: Sequence[Path], tick: Tick | None) -> tuple[list[Module], list[Unread], int]:
    modules: list[Module] = []
    unread: list[Unread] = []
    skipped: list[Module] = []
    count = 0
    for number, path in enumerate(files):
        if tick is not None:
            tick("reading", number, len(files))
        name = path.as_posix()
        try:
            source = read_source(path)
        except UnreadableFile as error:
            unread.append(Unread(name, str(error)))
            continue
        parsed = parse(source)
        count += source.count("\n") + 1
        if parsed.broken:
            unread.append(Unread(name, "is not all Python, neither 2 nor 3", parsed.broken[0]))
        if ABOUT_TENSORFLOW.search(source):
            modules.append(build_module(path, dotted(path, roots), parsed.tree, source.split("\n")))
            # A cell of a notebook that is no Python leaves the others as they are.
            modules[-1].broken = parsed.broken[0] if parsed.broken and path.suffix != ".ipynb" else 0
        elif IMPORTS.search(source):
            skipped.append(Module(path, dotted(path, roots), parsed.tree, source.split("\n")))
    if tick is not None:
        tick("reading", len(files), len(files))
    return [*modules, *_between(skipped, modules)], unread, count


def _between(skipped: Sequence[Module], modules: Sequence[Module]) -> Iterator[Module]:
    """Yields what does not mention TensorFlow and imports what does: a factory of nets."""
    names = {module.name.rpartition(".")[2] for module in modules}
    for each in skipped:
        imports = [node for node in each.tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
        sources = [name for node in imports for name in _sources(node)]
        if any(source.rpartition(".")[2] in names for source in sources):
            yield build_module(each.path, each.name, each.tree, each.lines)


def _sources(node: ast.Import | ast.ImportFrom) -> list[str]:
    named = [alias.name for alias in node.names]
    return [node.module or "", *named] if isinstance(node, ast.ImportFrom) else named


def dotted(path: Path, roots: Sequence[Path]) -> str:
    """Returns the name of a module: from the folder that was named, else that of the file."""
    for root in roots:
        if root != path and path.is_relative_to(root):
            parts = path.relative_to(root).with_suffix("").parts
            return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)
    return path.stem


def _towers(code: Code) -> Iterator[Towers]:
    known = {program.loop: program for program in code.programs}
    for loop in code.loops:
        program = known.get(loop)
        facts = facts_of(program) if program is not None and loop.kind == TOWERS else ()
        yield Towers(loop.kind, place_of(loop.node, loop.module), loop.function.name, facts)
    blocks = list(written_out_towers(code.repository))
    yield from blocks
    libraries = list(library_towers(code.repository))
    # An Estimator alone trains on one device: it is said of where something else builds towers.
    alone = not code.loops and not blocks and all(_is_estimator(each) for each in libraries)
    yield from (each for each in libraries if not alone)


def _is_estimator(towers: Towers) -> bool:
    return ESTIMATOR in (towers.kind, *(fact.value.partition(",")[0] for fact in towers.facts))


def _findings(code: Code) -> Iterator[Finding]:
    for rule in SCAN_RULES.values():
        seen: set[str] = set()
        for hit in each_once(_if_reached(each, rule, code) for each in rule.look(code)):
            place = place_of(hit.node, hit.module)
            fingerprint = fingerprint_of(rule.id, hit, seen)
            yield Finding(rule.id, hit.severity_of(rule), place, hit.message, fingerprint)


def _if_reached(hit: Hit, rule: Rule, code: Code) -> Hit:
    """Returns a finding as a note where the source shows that it does not run, or does not matter for one tower."""
    if not hit.decided:
        return hit
    why = code.endings.before(hit.node, hit.module) or code.reach.why_not(hit.node, hit.module)
    if why:
        return _as_note(hit, f"it does not run: {why}")
    why = (
        old_copy_reason(hit.module, code.repository)
        or code.reach_by_default.why_not(hit.node, hit.module)
        or code.reach_by_choice.why_not(hit.node, hit.module)
        or code.reach_by_use.why_not(hit.node, hit.module)
    )
    if not why and not rule.for_one_tower:
        why = _of_one_tower(hit.module, code)
    return _as_note(hit, why) if why else hit


def _as_note(hit: Hit, why: str) -> Hit:
    return hit._replace(decided=False, message=f"{hit.message}; {why}")


def _of_one_tower(module: Module, code: Code) -> str:
    """Returns that each loop that leads to a module builds one tower, "" where one builds several or may do so."""
    programs = code.endings.leading_to(module)
    ones = [each for each in programs if is_one(each)]
    return f"{source_of(ones[0].loop.loop.iter)} is one tower" if ones and len(ones) == len(programs) else ""


def fingerprint_of(rule: str, hit: Hit, seen: set[str]) -> str:
    """Returns what stays the same while lines are added and taken away elsewhere in the file.

    It is a hash of the rule, the file, the line without its blanks, and a number where that is there more than once.
    """
    line = getattr(hit.node, "lineno", 1)
    text = "".join(hit.module.lines[line - 1].split()) if line <= len(hit.module.lines) else ""
    for number in range(1_000_000):
        found = hashlib.sha256(f"{rule}\0{hit.module.name}\0{text}\0{number}".encode("utf-8", "replace")).hexdigest()[
            :24
        ]
        if found not in seen:
            break
    seen.add(found)
    return found


def rules_of(findings: Iterable[Finding]) -> list[str]:
    """Returns the identifiers of the rules that have findings, in order."""
    return sorted({each.rule for each in findings})
