"""Modules of a case are loaded from its folders, and anew where they are forgotten."""

import sys

import pytest

from parity.worker.user_code import UserCode


@pytest.fixture
def code(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    made = UserCode()
    yield made
    made.forget()


def write(folder, value):
    folder.mkdir(exist_ok=True)
    (folder / "made_for_this_test.py").write_text(f"SEEN = []\n\n\ndef get():\n    return SEEN, {value}\n")
    return str(folder)


def test_another_folders_module_of_the_same_name_is_loaded_anew(code, tmp_path):
    one, other = write(tmp_path / "one", 1), write(tmp_path / "other", 2)
    code.enter([one])
    first = code.load("made_for_this_test:get")
    assert first()[1] == 1 and [*code.modules] == ["made_for_this_test"]
    code.enter([one])
    assert code.load("made_for_this_test:get") is first
    code.enter([other])
    assert code.modules == {} and code.load("made_for_this_test:get")()[1] == 2
    assert one not in sys.path and sys.path[0] == other


def test_what_is_forgotten_is_imported_once_more_and_nothing_else_is(code, tmp_path):
    code.enter([write(tmp_path / "one", 1)])
    first = code.load("made_for_this_test:get")
    code.forget()
    assert "made_for_this_test" not in sys.modules and "json" in sys.modules
    again = code.load("made_for_this_test:get")
    assert again is not first and again()[0] is not first()[0], "with state of its own"
