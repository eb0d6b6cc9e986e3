"""Each folder of the packages imports what stands before it here, and nothing that stands behind it."""

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from parity.trace import QUANTITIES

ROOT = Path(__file__).parents[2]
LAYERS = {
    "parity": "exit_codes trace console worker record mapping case judge locate diagnose experiment report port scan "
    "testing teach pytest_plugin cli __main__",
    "tf_towers": "errors tf_types float64 graph facts session step checkpoint record shadow recording worker",
    "torch_ddp": "errors shard weights momenta rank_failures rendezvous process_group gather like_tf amp fp16_utils "
    "parallel apex reduction step facts recording record checkpoint train mutations worker",
}
SHARED = (
    "parity.trace",
    *(
        f"parity.worker.{name}"
        for name in ("parent", "protocol", "user_code", "bootstrap", "program_request", "reaper")
    ),
)
MOST_FILES = 20  # in a folder


def imported(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def upward(file: str, source: str) -> list[str]:
    """What a file of a package imports that it may not."""
    package, room = (*file.removesuffix(".py").split("/"), "")[:2]
    order = LAYERS[package].split()
    assert room in ("__init__", *order), f"{file}: no room of this name in {package}; say here what it may import"
    found = []
    for name in imported(source):
        other, layer = (*name.split("."), "", "")[:2]
        if other not in LAYERS:
            continue
        if other != package:
            found += [] if name.startswith(SHARED) else [name]
        elif room != "__init__" and layer in order and order.index(layer) > order.index(room):
            found.append(name)
    return found


FILES = [path.relative_to(ROOT) for package in LAYERS for path in sorted((ROOT / package).rglob("*.py"))]


@pytest.mark.parametrize("package", LAYERS)
def test_nothing_is_imported_upwards(package):
    files = [file for file in FILES if file.parts[0] == package]
    found = {str(file): names for file in files if (names := upward(str(file), (ROOT / file).read_text()))}
    assert found == {}


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("parity/judge/judge.py", "from parity.experiment.session import run_case"),
        ("parity/trace/reader.py", "def late():\n    from parity.mapping import entry"),
        ("tf_towers/graph/build.py", "import tf_towers.record"),
        ("torch_ddp/step/update.py", "from torch_ddp.worker.rank import RankServer"),
        ("torch_ddp/amp/session.py", "from parity.judge.metrics import norm"),
        ("tf_towers/record/plan.py", "from parity.worker.launch import launch_tf"),
    ],
)
def test_what_is_imported_upwards_is_found(file, source):
    assert len(upward(file, source)) == 1


def test_no_folder_holds_more_files_than_a_reader_can_look_through():
    counts: dict[Path, int] = {}
    for file in FILES:
        counts[file.parent] = counts.get(file.parent, 0) + 1
    assert {str(folder): count for folder, count in counts.items() if count > MOST_FILES} == {}


# Names of constants that mean the same in every module that has one, and are told apart by the module's own name.
OF_THE_MODULE = {
    "ROWS",  # of a page of the catalogue of causes
    "T",  # a type variable
    "FITTED",  # the clause that says what else a cause was fitted together with
}
BUDGET = 0  # of other names with several definitions: it may only fall


def constants(source: str) -> Iterator[str]:
    """Yields the names in capitals that a module defines."""
    for node in ast.parse(source).body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        parts = [part for each in targets for part in (each.elts if isinstance(each, ast.Tuple) else [each])]
        yield from (part.id for part in parts if isinstance(part, ast.Name) and part.id.isupper())


def defined_more_than_once(sources: Iterable[str]) -> set[str]:
    counts = Counter(name for source in sources for name in set(constants(source)))
    return {name for name, count in counts.items() if count > 1} - OF_THE_MODULE


def test_a_constant_is_defined_once_and_a_name_means_one_thing():
    found = defined_more_than_once((ROOT / file).read_text() for file in FILES if file.parts[0] == "parity")
    assert len(found) <= BUDGET, f"import the one definition, or say in the name what is measured: {sorted(found)}"
    assert len(found) == BUDGET, f"lower BUDGET to {len(found)}"


def test_a_constant_that_two_modules_define_is_found():
    assert defined_more_than_once(["CLOSE = 1e-9", "NEAR, CLOSE = 1, 2", "T = 1", "T: int = 2"]) == {"CLOSE"}
    assert defined_more_than_once(["from a import CLOSE", "CLOSE = 1"]) == set()


PREFIX = re.compile(rf"({'|'.join(QUANTITIES)}|section)/")


def spelt(tree):
    """Yields the lines with a string, or a piece of a formatted one, that begins as the name of a tensor does.

    A piece that follows a value counts: behind the prefix of a section a name goes on like that. Docstrings do not.
    """
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) and id(node) not in docstrings else None
        if isinstance(text, str) and PREFIX.match(text):
            yield node.lineno


def test_one_module_spells_names():
    files = [path for package in ("parity", "tf_towers", "torch_ddp") for path in (ROOT / package).rglob("*.py")]
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in sorted(files)
        if path != ROOT / "parity" / "trace" / "keys.py"
        for line in spelt(ast.parse(path.read_text("utf-8")))
    ]
    assert not found, "use parity.trace.keys"


def test_the_proof_that_one_module_spells_names_can_fail():
    source = (
        'def f(name):\n    """var/x"""\n    return f"grad/{name}", name.startswith(("slot/", "x")), f"{name}var/x"\n'
    )
    assert list(spelt(ast.parse(source))) == [3, 3, 3]
