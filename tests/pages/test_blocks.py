"""Every fenced block of README and docs does what it says: it is read, compiled, run, or says why not."""

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from pages.blocks import KNOWN, PAGES, ROOT, Block, blocks_of, commands, roughly, text_of
from parity.case import load_case, load_mapping

# Pages whose blocks a test of their own runs.
ELSEWHERE = {
    "README.md": "tests/pages/test_readme.py",
    "docs/amp.md": "tests/torch_ddp/amp/test_docs.py",
    "docs/apex_tests.md": "tests/torch_ddp/apex_tests/test_page.py",
    "docs/parallel.md": "tests/torch_ddp/parallel/test_page.py",
    "docs/report.md": "tests/parity/report/test_junit.py",
    "docs/towers.md": "tests/tf_towers/test_docs.py",
    "docs/training.md": "tests/torch_ddp/test_training_page.py",
}
HERE = [page for page in PAGES if page not in ELSEWHERE]
BLOCKS = [block for page in HERE for block in blocks_of(page)]
LANGUAGES = {"bash", "console", "json", "python", "text", "toml", "yaml"}
NOT_RUN = 0  # how many blocks of these pages nothing runs; each says why
WITHIN = 600
STAND_INS = ROOT / "tests" / "pages" / "stand_ins"
PLACE = re.compile(r"^( *)# the block$", re.MULTILINE)


def is_saved(block: Block) -> bool:
    """Says whether a block becomes a file, which the commands of its page use."""
    return "file" in block.marks or "more of" in block.marks


def named(blocks: list[Block]) -> dict[str, object]:
    return {"argvalues": blocks, "ids": [block.place for block in blocks]}


def test_every_block_is_closed_and_has_a_language_and_known_marks():
    for page in HERE:
        assert len(re.findall(r"^```", text_of(page), re.MULTILINE)) == 2 * len(blocks_of(page)), page
    assert [block.place for block in BLOCKS if block.language not in LANGUAGES] == []
    assert [block.place for block in BLOCKS if not set(block.marks) <= KNOWN] == []


@pytest.mark.parametrize("page", ELSEWHERE)
def test_a_page_whose_blocks_are_run_elsewhere_is_named_by_that_test(page):
    assert blocks_of(page)
    assert Path(page).name in (ROOT / ELSEWHERE[page]).read_text(encoding="utf-8")


def test_what_nothing_runs_says_why_and_is_counted():
    left_out = [block for block in BLOCKS if "not run" in block.marks]
    for block in left_out:
        print(f"{block.place}: {block.marks['not run']}")
    assert all(len(block.marks["not run"]) > 10 for block in left_out)
    assert len(left_out) == NOT_RUN


@pytest.mark.parametrize(
    "block", **named([block for block in BLOCKS if block.language == "toml" and not is_saved(block)])
)
def test_a_case_loads_and_a_mapping_is_one(block, tmp_path):
    shutil.copytree(ROOT / "tests" / "cases" / "square", tmp_path / "square")
    path = tmp_path / "square" / "case.toml"
    path.write_text(block.text, encoding="utf-8")
    if block.text.lstrip().startswith("[mapping"):
        entries, names = load_mapping(path)
        assert entries or names
    else:
        assert load_case(path).name


@pytest.mark.parametrize("block", **named([block for block in BLOCKS if block.language == "json"]))
def test_json_is_json(block):
    json.loads(block.text)


def test_a_block_that_another_test_runs_is_named_by_it():
    for block in BLOCKS:
        if test := block.marks.get("run by"):
            assert Path(block.page).name in (ROOT / test).read_text(encoding="utf-8"), block.place


def test_every_stand_in_is_one_of_a_block():
    named = {block.marks["stands in"] for block in BLOCKS if "stands in" in block.marks}
    files = {path.name: path.read_text(encoding="utf-8") for path in STAND_INS.iterdir() if path.is_file()}
    called = {name for name in files for text in files.values() if f"stand_ins/{name}" in text}
    assert named | called == set(files)


@pytest.mark.parametrize("block", **named([block for block in BLOCKS if block.language == "yaml"]))
def test_yaml_is_yaml_and_a_hook_is_one_of_this_project(block):
    loaded = yaml.safe_load(block.text)
    hooks = {hook["id"] for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))}
    assert {hook["id"] for repository in loaded.get("repos", ()) for hook in repository["hooks"]} <= hooks


def runs(block: Block) -> bool:
    return not {"not run", "run by"} & set(block.marks) and block.language in ("bash", "console", "python")


def needs_shell(page: str) -> bool:
    return any(runs(block) and block.language != "python" for block in blocks_of(page))


@pytest.mark.parametrize("page", [page for page in HERE if not needs_shell(page) and any(map(runs, blocks_of(page)))])
def test_the_programs_of_a_page_run(page, tmp_path, programs):
    run_page(page, tmp_path, programs)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("page", [page for page in HERE if needs_shell(page)])
def test_the_commands_of_a_page_do_what_it_says(page, tmp_path, programs):
    run_page(page, tmp_path, programs)


def run_page(page: str, folder: Path, programs: "Programs") -> None:
    """Runs the blocks of a page from top to bottom in one folder, which has the examples in it."""
    shutil.copytree(ROOT / "examples", folder / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    for block in filter(runs_or_is_saved, blocks_of(page)):
        if is_saved(block):
            save(block, folder)
        elif block.language == "python":
            printed = programs.run(staged(block))
            assert block.marks.get("prints", "") in printed, f"{block.place}\n{printed}"
        else:
            if name := block.marks.get("stands in"):
                done = in_shell((STAND_INS / name).read_text(encoding="utf-8"), folder)
                assert done.returncode == 0, f"{block.place}: {name}\n{done.stdout}{done.stderr}"
            run_shell(block, folder)


def staged(block: Block) -> Block:
    """Returns a Python block within the program that stands in for the reader's, if it has one."""
    if "stands in" not in block.marks:
        return block
    program = (STAND_INS / block.marks["stands in"]).read_text(encoding="utf-8")
    assert len(PLACE.findall(program)) == 1, block.marks["stands in"]
    return block._replace(text=PLACE.sub(lambda found: textwrap.indent(block.text, found[1]), program))


def runs_or_is_saved(block: Block) -> bool:
    return runs(block) or is_saved(block)


def save(block: Block, folder: Path) -> None:
    name = block.marks.get("file") or block.marks["more of"]
    assert (folder / name).exists() == ("more of" in block.marks), block.place
    with (folder / name).open("a", encoding="utf-8") as file:
        file.write(block.text)
    if name.endswith(".py"):
        compile((folder / name).read_text(encoding="utf-8"), name, "exec")


def run_shell(block: Block, folder: Path) -> None:
    """Runs a bash block as a whole; of a console block each command, and compares what it prints with what is shown."""
    told = commands(block.text) if block.language == "console" else [(block.text, "")]
    assert told, block.place
    for command, shown in told:
        done = in_shell(command, folder)
        wanted = int(block.marks.get("exits", "1" if "verdict: different" in shown else "0"))
        both = done.stdout + done.stderr
        assert done.returncode == wanted, f"{block.place}: {command}\n{both}"
        assert block.marks.get("prints", "") in both, f"{block.place}\n{both}"
        assert fits(done.stdout, shown), f"{block.place}: {command}\n{both}"


def in_shell(command: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=folder,
        env=environment(folder),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=WITHIN,
        check=False,
    )


def fits(printed: str, shown: str) -> bool:
    """Says whether the lines shown are what was printed; "..." stands for anything."""
    parts = [roughly(part) for part in shown.split("...")]
    if len(parts) == 1:
        return not parts[0] or parts[0] == roughly(printed)
    return re.fullmatch(r"\s*.*?\s*".join(re.escape(part) for part in parts), roughly(printed)) is not None


def test_what_is_shown_is_compared_with_what_was_printed():
    assert fits("verdict: same\nof 3.14 s\n", "verdict: same\nof 2.7 s\n")
    assert fits("one\ntwo\nthree\n", "one\n...\nthree\n")
    assert not fits("verdict: same\n", "verdict: different\n")
    assert not fits("one\ntwo\n", "one\n...\nthree\n")


def environment(folder: Path) -> dict[str, str]:
    """Returns an environment in which `parity` and `python` are this checkout's."""
    script = folder / ".bin" / "parity"
    if not script.exists():
        script.parent.mkdir()
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m parity.cli "$@"\n')
        script.chmod(0o755)
    path = os.pathsep.join([str(script.parent), str(Path(sys.executable).parent), os.environ["PATH"]])
    kept = {name: value for name, value in os.environ.items() if name not in ("MASTER_ADDR", "MASTER_PORT")}
    return {
        **kept,
        "PATH": path,
        "PYTHONPATH": str(ROOT),
        "CHECKOUT": str(ROOT),
        "COLUMNS": "80",
        "OMP_NUM_THREADS": "1",
    }


class Programs:
    """Runs the Python blocks of pages, in one process per framework: the two never share one."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._children = folder, {}

    def run(self, block: Block) -> str:
        """Runs a block in a namespace of its own; returns what it printed."""
        side = "tf" if re.search(r"\b(tensorflow|tf_towers)\b", block.text) else "torch"
        child = self._children.get(side) or self._started(side)
        child.stdin.write(json.dumps({"text": block.text, "place": block.place}) + "\n")
        child.stdin.flush()
        answer = child.stdout.readline()
        assert answer, f"{block.place}: the process that runs the programs ended"
        assert not json.loads(answer)["error"], json.loads(answer)["error"]
        return str(json.loads(answer)["printed"])

    def close(self) -> None:
        for child in self._children.values():
            child.stdin.close()
            child.wait(timeout=60)
            child.stdout.close()

    def _started(self, side: str) -> "subprocess.Popen[str]":
        self._children[side] = subprocess.Popen(
            [sys.executable, str(Path(__file__).parent / "child.py")],
            cwd=self._folder,
            env=environment(self._folder),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self._children[side]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    started = Programs(tmp_path_factory.mktemp("programs"))
    yield started
    started.close()


def test_the_figures_of_the_migration_guide_are_those_that_tests_measured():
    figures = set(re.findall(r"\b\d\.\de[+-]\d\d\b", text_of("docs/migration.md")))
    assert len(figures) > 15
    assert sorted(figures - set(re.findall(r"\b\d\.\de[+-]\d\d\b", text_of("docs/semantics.md")))) == []
