"""Blocks that are run in a place of their own: a new environment, two launchers, a copy of the checkout.

They stand in docs/getting_started.md, docs/machines.md, docs/record.md, docs/lessons.md, docs/extending.md, docs/gallery.md,
docs/port.md and CONTRIBUTING.md.
"""

import os
import re
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from pages.blocks import ROOT, blocks_of
from pages.test_blocks import environment

HERE = "tests/pages/test_blocks_apart.py"
WITHIN = 1500
# Without a folder of wheels, a new environment is a download of gigabytes.
WHEELS = os.environ.get("PIP_FIND_LINKS", "")
needs_wheels = pytest.mark.skipif(
    not Path(WHEELS or "-").is_dir(), reason="needs a folder of wheels in $PIP_FIND_LINKS"
)
MACHINE = """
import argparse, os
import torch, torch.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--backend", required=True)
backend = parser.parse_args().backend
dist.init_process_group(backend)
total = torch.ones(1)
dist.all_reduce(total)
print("rank {RANK} of {WORLD_SIZE}, node {GROUP_RANK}".format(**os.environ), "sum", int(total))
dist.destroy_process_group()
"""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


def text_of_block(page, words):
    """Returns the one block of a page that is run here and has these words in it."""
    [block] = [each for each in blocks_of(page) if words in each.text and each.marks.get("run by") == HERE]
    return block.text


def bash(text, folder, **more):
    """Returns a process that runs a text in a folder, where `parity` and `python` are this checkout's."""
    return subprocess.Popen(
        ["bash", "-euo", "pipefail", "-c", text],
        cwd=folder, env={**environment(folder), **more}, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def printed(process, code=0):
    try:
        text, _ = process.communicate(timeout=WITHIN)
    finally:
        process.kill()
    assert process.returncode == code, text
    return text


def copy_of_checkout(into):
    """Copies what is committed or would be, and nothing that was built."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in (
        subprocess.run(listed, cwd=ROOT, capture_output=True, check=True, timeout=60).stdout.decode().split("\0")
    ):
        if name and (ROOT / name).is_file():
            (into / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, into / name)
    return into


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def test_two_launchers_meet_as_two_machines_do(tmp_path):
    """The page's command for two machines, as two launchers of one: another address, gloo, and two ranks each."""
    command = text_of_block("docs/machines.md", "--nnodes 2")
    instead = {
        "first-machine:29500": f"127.0.0.1:{free_port()}",
        "--nproc-per-node 8": "--nproc-per-node 2",
        "--backend nccl": "--backend gloo",
        "torchrun": "torchrun --local-addr 127.0.0.1",  # the host's name need not be known to itself
    }
    for old, new in instead.items():
        assert command.count(old) == 1, old
        command = command.replace(old, new)
    (tmp_path / "train.py").write_text(MACHINE)
    environment(tmp_path)
    both = [bash(command, tmp_path) for _ in range(2)]
    lines = "".join(printed(each) for each in both).splitlines()
    told = sorted(re.findall(r"rank \d of 4, node \d sum 4", "\n".join(lines)))
    assert [line[5] for line in told] == ["0", "1", "2", "3"] and len({line[-7] for line in told}) == 2, lines


def test_the_page_on_extending_says_how_a_row_of_the_semantics_is_written(tmp_path):
    """In a copy of the checkout that has one of the tests, whose row is missing from the page."""
    copy = copy_of_checkout(tmp_path / "checkout")
    tests = copy / "tests" / "torch_ddp" / "like_tf"
    for path in tests.rglob("test_*.py"):
        if path.name != "test_dropout.py":
            path.unlink()
    page = copy / "docs" / "semantics.md"
    lines = page.read_text(encoding="utf-8").splitlines(keepends=True)
    rows = [line for line in lines if line.startswith("| Dropout from")]
    assert rows
    page.write_text("".join(line for line in lines if line not in rows), encoding="utf-8")
    printed(bash(text_of_block("docs/extending.md", "REFRESH_SEMANTICS"), copy, PYTHONPATH=f"{copy}:{copy / 'tests'}"))
    written = page.read_text(encoding="utf-8")
    assert [row for row in rows if row.split("|")[1] not in written] == []


def test_the_page_on_lessons_says_how_their_pages_are_written_anew(tmp_path):
    """In a copy of the checkout that has four of the lessons, one of whose pages is spoilt."""
    copy = copy_of_checkout(tmp_path / "checkout")
    for folder in (copy / "examples" / "lessons").glob("[0-9][0-9]_*"):
        if int(folder.name[:2]) > 4:
            shutil.rmtree(folder)
            (copy / "parity" / "teach" / "rendered" / f"{folder.name[:2]}.html").unlink()
    page = copy / "parity" / "teach" / "rendered" / "03.html"
    right = page.read_text(encoding="utf-8")
    page.write_text(right.replace("<h1>From towers to DDP</h1>", "<h1>Another</h1>"), encoding="utf-8")
    printed(bash(text_of_block("docs/lessons.md", "PARITY_GOLDEN"), copy, PYTHONPATH=str(copy)))
    assert "<h1>From towers to DDP</h1>" in page.read_text(encoding="utf-8")


def test_the_page_on_recording_says_how_its_traces_are_replayed(tmp_path):
    """Each line on a trace that fits it: of a script with one loss, of one with two optimizers, of a training program."""
    lines = text_of_block("docs/record.md", "parity replay trace --torch").splitlines()
    assert [len(re.findall("--loss", line)) for line in lines] == [1, 2, 0]
    scripts = ROOT / "tests" / "legacy_scripts"
    for line, name in zip(lines, ("split_sum", "two_optimizers", "program"), strict=True):
        folder = tmp_path / name
        folder.mkdir()
        if name == "program":
            record = (ROOT / "tests" / "pages" / "stand_ins" / "recorded_program.sh").read_text(encoding="utf-8")
        else:
            shutil.copy(scripts / f"{name}.py", folder / "script.py")
            shutil.copy(scripts / "ports" / f"{name}_torch.py", folder / "port.py")
            shutil.copy(scripts / "ports" / f"{name}.toml", folder / "port.toml")
            record = "parity record --steps 3 --out trace -- script.py"
        printed(bash(record, folder))
        assert "verdict: same" in printed(bash(line, folder)), line


def test_the_checks_that_have_to_pass_are_what_two_pages_say(tmp_path):
    """In a copy of the checkout that has one file of tests: the whole suite would run this test again."""
    copy = copy_of_checkout(tmp_path / "checkout")
    for path in (copy / "tests").rglob("test_*.py"):
        if path.name != "test_escape.py":
            path.unlink()
    checks = text_of_block("docs/extending.md", "ruff check")
    assert checks == text_of_block("CONTRIBUTING.md", "ruff check")
    output = printed(bash(checks, copy, PYTHONPATH=str(copy)))
    assert "All checks passed!" in output and "Success: no issues found" in output
    assert re.search(r" \d+ passed in ", output), output


STAND_IN = """
[[script]]
name = "towers"
kind = "conv net"
repository = "somebody/towers"
commit = "0000000000000000000000000000000000000000"
command = ["train.py"]
"""


@pytest.mark.tf1
def test_the_gallery_is_written_as_its_page_says(tmp_path, tf1_python):
    """Of one repository that stands in for those of other people: a checkout of a script as they are found."""
    copy = copy_of_checkout(tmp_path / "checkout")
    (copy / "benchmarks" / "public_ports.toml").write_text(STAND_IN)
    (copy / "checkouts" / "somebody+towers").mkdir(parents=True)
    shutil.copy(ROOT / "examples" / "legacy_towers" / "train.py", copy / "checkouts" / "somebody+towers")
    home = tmp_path / "home" / ".cache" / "tower-parity"
    home.mkdir(parents=True)
    (home / "tf1.15").symlink_to(Path(tf1_python).parents[1])
    command = text_of_block("docs/gallery.md", "public_ports.py")
    printed(bash(command, copy, PYTHONPATH=str(copy), HOME=str(tmp_path / "home")))
    [row] = re.findall(r"^\| \[towers\].*", (copy / "docs" / "gallery.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert "(https://github.com/somebody/towers) | conv net |" in row and "| same |" in row


def test_how_ports_read_is_written_as_their_page_says(tmp_path):
    """Of one trace under the four names of the page."""
    copy = copy_of_checkout(tmp_path / "checkout")
    command = text_of_block("docs/port.md", "port_readability.py")
    first, *others = re.findall(r"traces/\w+", command)
    assert len(others) == 3
    script = "examples/legacy_towers/train.py"
    printed(bash(f"parity record --steps 2 --no-shadow --out {first} -- {script}", copy, PYTHONPATH=str(copy)))
    for each in others:
        shutil.copytree(copy / first, copy / each)
    printed(bash(command, copy, PYTHONPATH=str(copy)))
    page = (copy / "docs" / "port.md").read_text(encoding="utf-8")
    for each in (first, *others):
        [row] = re.findall(rf"^\| {Path(each).name} \|.*", page, re.MULTILINE)
        assert row.endswith(" yes |") and "ruff mypy" in row, row


@needs_wheels
def test_a_new_environment_is_installed_as_the_first_page_says_and_works(tmp_path):
    copy = copy_of_checkout(tmp_path / "checkout")
    install = text_of_block("docs/getting_started.md", "pip install -c constraints.txt")
    output = printed(bash(f"{install}\ncd ..\nparity doctor\nwhich parity", copy, PYTHONPATH=""))
    assert "`parity run` works here." in output
    assert output.splitlines()[-1] == str(copy / ".venv" / "bin" / "parity")


@pytest.mark.tf1
@needs_wheels
def test_tensorflow_1_is_installed_as_the_page_on_machines_says_and_is_compared(tmp_path, tf1_python):
    shutil.copytree(ROOT / "tests" / "cases" / "square", tmp_path / "CASE")
    interpreter = Path(subprocess.run(
        [tf1_python, "-c", "import sys; print(sys.base_prefix)"], capture_output=True, text=True, check=True, timeout=60
    ).stdout.strip())  # fmt: skip
    environment(tmp_path)
    (tmp_path / ".bin" / "python3.7").symlink_to(interpreter / "bin" / "python3.7")
    output = printed(bash(text_of_block("docs/machines.md", "tensorflow==1.15.5"), tmp_path))
    assert "verdict: same" in output and "tensorflow 1.15.5" in output
