"""Files of a port are written, and never over what somebody edited."""

import json
import os

import pytest

from parity.port.errors import PortError
from parity.port.files import MANIFEST, write_files


def test_what_was_written_and_not_edited_is_written_anew(tmp_path):
    assert write_files(tmp_path, {"port.py": "first\n"}) == {tmp_path / "port.py": ""}
    assert write_files(tmp_path, {"port.py": "second\n"}) == {tmp_path / "port.py": ""}
    assert (tmp_path / "port.py").read_text() == "second\n"


def test_an_edited_file_stays_and_the_new_text_with_its_difference_goes_beside_it(tmp_path):
    write_files(tmp_path, {"port.py": "first\n", "train.py": "trains\n"})
    (tmp_path / "port.py").write_text("mine\n")
    written = write_files(tmp_path, {"port.py": "second\n", "train.py": "trains more\n"})
    assert (tmp_path / "port.py").read_text() == "mine\n"
    assert (tmp_path / "port.new.py").read_text() == "second\n"
    assert (tmp_path / "train.py").read_text() == "trains more\n"
    assert written[tmp_path / "train.py"] == ""
    assert "-mine" in written[tmp_path / "port.new.py"] and "+second" in written[tmp_path / "port.new.py"]


def test_what_lies_beside_an_edited_file_is_kept_too_once_it_is_edited(tmp_path):
    write_files(tmp_path, {"port.py": "first\n"})
    (tmp_path / "port.py").write_text("mine\n")
    for text in ("second\n", "third\n"):
        assert [*write_files(tmp_path, {"port.py": text})] == [tmp_path / "port.new.py"]
    (tmp_path / "port.new.py").write_text("mine too\n")
    assert [*write_files(tmp_path, {"port.py": "fourth\n"})] == [tmp_path / "port.new2.py"]
    assert [path.read_text() for path in sorted(tmp_path.glob("port*.py"))] == ["mine too\n", "fourth\n", "mine\n"]


@pytest.mark.parametrize("listed", [None, '{"format": "tower-parity-port", "files": {}}'])
def test_a_file_that_nobody_wrote_here_is_somebodys(tmp_path, listed):
    """Also where the list of what was written is lost."""
    (tmp_path / "train.py").write_text("theirs\n")
    if listed:
        (tmp_path / MANIFEST).write_text(listed)
    assert [*write_files(tmp_path, {"train.py": "ours\n"})] == [tmp_path / "train.new.py"]
    assert (tmp_path / "train.py").read_text() == "theirs\n"


def test_what_was_edited_into_what_is_written_now_is_no_edit(tmp_path):
    (tmp_path / "port.py").write_text("same\n")
    assert write_files(tmp_path, {"port.py": "same\n"}) == {tmp_path / "port.py": ""}


LISTED_AS_LIST = json.dumps({"format": "tower-parity-port", "files": [1]})


@pytest.mark.parametrize("text", ["{}", "not json", "[1]", "[" * 100_000, LISTED_AS_LIST])
def test_a_list_of_somebody_elses_is_refused_and_stays(tmp_path, text):
    (tmp_path / MANIFEST).write_text(text)
    with pytest.raises(PortError, match=r"expected .*port\.json to list what was written there.*Name another --out"):
        write_files(tmp_path, {"port.py": "ours\n"})
    assert (tmp_path / MANIFEST).read_text() == text and not (tmp_path / "port.py").exists()


def _sparse(path, size=10_000_001):
    with open(path, "wb") as file:
        file.truncate(size)


@pytest.mark.parametrize("name", ["port.py", "train.py", MANIFEST])
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path), _sparse])
def test_what_is_no_file_of_a_port_is_not_read_and_nothing_is_written_beside_it(tmp_path, make, name):
    make(tmp_path / name)
    with pytest.raises(
        PortError, match=f"expected a file of at most 10,000,000 bytes at .*{name}, or none.*another --out"
    ):
        write_files(tmp_path, {"port.py": "ours\n", "train.py": "trains\n"})
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_an_edited_file_of_the_largest_size_stays(tmp_path):
    _sparse(tmp_path / "port.py", 10_000_000)
    assert [*write_files(tmp_path, {"port.py": "ours\n"})] == [tmp_path / "port.new.py"]
    assert (tmp_path / "port.py").stat().st_size == 10_000_000
