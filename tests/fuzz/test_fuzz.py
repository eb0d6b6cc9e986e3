"""Every reader takes or refuses some inputs that nobody would write, and the driver finds faults that are planted."""

import json
import re
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from .campaign import Reading, made_seeds, scratch
from .demands import fault_of_refusal
from .inputs import Folder, Link, Pipe, Place, Sparse, as_json, from_json, read_folder
from .mutations import json_text, mutated_json
from .planted import FAULTS
from .readers import READERS

ROOT = Path(__file__).parents[2]
COUNTS = {
    **dict.fromkeys(["golden", "replay", "like"], 6),
    **dict.fromkeys(["show", "port", "checkpoint", "resume", "shards", "towers", "since", "baseline", "ported"], 20),
    "skeleton": 30,
}


# In a process of its own, for the hook that hears what is written cannot be taken out of one again.
@pytest.fixture(scope="module")
def outcomes():
    code = (
        "import sys, warnings; warnings.simplefilter('ignore'); from tests.fuzz.test_fuzz import read_some; read_some()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def read_some():
    found = {}
    with scratch() as folder:
        seeds = made_seeds(READERS, folder / "seeds")
        reading = Reading(folder / "read")
        for reader in READERS:
            kinds = []
            for number in range(COUNTS.get(reader.name, 60)):
                kinds.append(reading.look(reader, reader.input(1, number, seeds[reader.name])))
            right = reading.look(reader, seeds[reader.name][0])
            found[reader.name] = {"right": right, "drawn": kinds}
    print(json.dumps(found))


@pytest.mark.parametrize("name", [reader.name for reader in READERS])
def test_a_reader_takes_what_is_right_and_takes_or_refuses_what_is_not(outcomes, name):
    right, drawn = outcomes[name]["right"], outcomes[name]["drawn"]
    assert right[0] == "accepted", right
    assert [each for each in drawn if each[0] == "finding"] == []
    assert {"accepted", "refused"} & {each[0] for each in drawn}


def driver(*words, expected=1):
    command = [sys.executable, "-W", "ignore", "-m", "tests.fuzz", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == expected, done.stderr[-3000:]
    return done.stdout


SAID = {
    "raises": "KeyError at",
    "hangs": "hangs for more than 1 s",
    "allocates": "MemoryError at",
    "writes": "does: open",
    "runs": "does: os.system",
    "ends": "ends the process (-6)",
    "tells": "prints the character",
}


@pytest.mark.slow
def test_the_driver_finds_each_planted_fault_and_goes_on(tmp_path):
    planted = [word for name in FAULTS for word in ("--only", f"planted-{name}")]
    told = driver(*planted, "--findings", str(len(FAULTS)), "--most-seconds", "1", "--out", str(tmp_path))
    for name in FAULTS:
        [found] = [line for line in told.splitlines() if line.startswith(f"planted-{name} input")]
        assert SAID[name] in found
        row = next(line for line in told.splitlines() if re.match(rf"planted-{name}\s+[\d,]+\s", line))
        # It has gone on behind the first; where the worker ended, with the reader that comes next.
        assert int(row.split()[1].replace(",", "")) > (0 if name in ("hangs", "ends") else 5)
    file = next(tmp_path.glob("planted-raises-*.json"))
    assert "KeyError at" in driver("--replay", str(file))


def test_a_fault_is_found_and_can_be_replayed(tmp_path):
    words = ("--only", "planted-raises", "--only", "planted-writes", "--only", "planted-hangs")
    told = driver(*words, "--findings", "3", "--most-seconds", "0.5", "--out", str(tmp_path))
    assert all(said in told for said in ("KeyError at", "does: open", "hangs for more than 0.5 s"))
    assert "KeyError at" in driver("--replay", str(next(tmp_path.glob("planted-raises-*.json"))))


def test_an_input_follows_from_its_number():
    value = {"a": [1, 2, {"b": "c"}], "d": 0.5}
    texts = [json_text(mutated_json(Random(n), json.loads(json.dumps(value)))) for n in range(200)]
    assert texts == [json_text(mutated_json(Random(n), json.loads(json.dumps(value)))) for n in range(200)]
    assert len(set(texts)) > 150


def test_files_are_kept_and_laid_as_they_are(tmp_path):
    files = {
        "a/b.json": b"\x00\xff",
        "link": Link("a/b.json"),
        "pipe": Pipe(),
        "big": Sparse(b"x", 10**9),
        "c": Folder(),
    }
    assert from_json(as_json(files)) == files
    place = Place(tmp_path / "place")
    place.lay({"a": b"a file where a folder comes"})
    folder = place.lay(files)
    assert (folder / "link").read_bytes() == b"\x00\xff" and (folder / "big").stat().st_size == 10**9
    assert (folder / "pipe").is_fifo() and (folder / "c").is_dir()
    place.lay({"d": b"only"})
    assert read_folder(folder) == {"d": b"only"}


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        ("who: expected a, got b. Do c.", ""),
        ("\n".join(["a"] * 40), ""),
        ("\n".join(["a"] * 41), "more than 40 lines"),
        ("a" * 2001, ""),
        ("a" * 2002, "more than 2001 characters"),
        ("got 'x'\nverdict: same", "not its own"),
    ],
)
def test_what_is_wrong_with_a_message_is_said(message, fault):
    found = fault_of_refusal(message)
    assert fault in found and bool(found) == bool(fault)
