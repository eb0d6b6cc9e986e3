"""Names and texts of a trace cannot become code, another entry of a file, or a command to a terminal."""

import ast
import re
from pathlib import Path

import numpy as np
import pytest
import tomllib
from hypothesis import given
from hypothesis import strategies as st

import parity
from parity.cli import main
from parity.experiment.replay.skeleton import write_skeleton
from parity.mapping.variable_map import table
from parity.port.source import program
from parity.port.source.classes import Classes
from parity.port.source.parameters import Parameters
from parity.port.source.writer import Refused
from parity.trace import TraceWriter
from parity.trace.escape import identifier, in_docstring, is_argument, one_line, printable, python_string, toml_string

ANY = st.text(st.characters(codec=None), max_size=20) | st.text("\"\\\n\r\t\0\x1b\x7f\u2028\u202e{}#'a1", max_size=20)
# ESC, NUL, a mark that turns the direction of text, the separator of lines that str.splitlines knows, a lone surrogate.
HOSTILE = 'x"""\x1b[31m\0\u202e\u2028\ud800\r\nraise SystemExit("code of a trace")\n#'


@given(ANY)
def test_a_text_in_source_is_the_text_again_and_nothing_else(text):
    assert ast.literal_eval(python_string(text)) == text
    assert len(python_string(text).splitlines()) == 1


@given(ANY)
def test_a_comment_and_a_docstring_hold_no_statement(text):
    source = f'"""{in_docstring(text)}"""\nx = 1  # {one_line(text)}\n'
    first, second = ast.parse(source).body
    assert isinstance(first, ast.Expr) and isinstance(second, ast.Assign)


@given(ANY, ANY)
def test_a_name_is_one_key_of_toml(name, other):
    readable = name.encode("utf-8", "replace").decode().replace("?", "") == name.replace("?", "")
    found = tomllib.loads(f"[mapping]\n{toml_string(name)} = {toml_string(other)}\n")["mapping"]
    assert len(found) == 1
    assert not readable or list(found) == [name]


@given(ANY)
def test_an_identifier_can_be_an_attribute(text):
    ast.parse(f"self.{identifier(text)} = 1")


@given(ANY)
def test_what_is_printed_moves_no_cursor(text):
    assert all(each.isprintable() or each in "\n\t" for each in printable(text))
    assert one_line(text).isprintable()
    assert printable(printable(text)) == printable(text)


def test_letters_of_every_script_stay():
    assert printable("größe 尺寸 😀\n\tend") == "größe 尺寸 😀\n\tend"


@pytest.fixture
def hostile(tmp_path):
    """A trace that says of everything what would be code if it were written as it stands."""
    facts = {
        "towers": 1,
        "combine": "mean",
        "script": HOSTILE,
        "losses": [[HOSTILE]],
        "clipped": True,
        "optimizer": {"name": HOSTILE, HOSTILE: HOSTILE},
    }
    safe = HOSTILE.replace("\ud800", "")
    variables = {
        safe: {"shape": [2], "dtype": "float32", "kind": "weight", "use": HOSTILE},
        f"{safe}2": {"shape": [2], "dtype": "float32", "kind": "statistic", "use": HOSTILE},
    }
    writer = TraceWriter(tmp_path / "hostile", {"package": "tf_towers"}, facts, variables)
    values = {f"var/{name}": np.ones(2, np.float32) for name in variables}
    writer.init(values)
    writer.step(0, {**values, f"grad/{safe}": np.ones(2, np.float32)})
    writer.close()
    return tmp_path / "hostile"


def test_no_text_of_a_trace_becomes_code_of_its_skeleton(hostile, tmp_path):
    source, mapping = (path.read_text("utf-8") for path in write_skeleton(hostile, tmp_path / "port"))
    kinds = [type(node).__name__ for node in ast.parse(source).body]
    assert kinds == ["Expr", "Import", "ImportFrom", "ClassDef", "FunctionDef", "FunctionDef"]
    assert not any(isinstance(node, ast.Name) and node.id == "SystemExit" for node in ast.walk(ast.parse(source)))
    assert len(tomllib.loads(mapping)["mapping"]) == 2


@pytest.mark.parametrize("words", [["show"], ["compare"], ["map"]])
def test_no_name_of_a_trace_reaches_the_terminal_as_a_command(hostile, capsys, words):
    main([*words, str(hostile), *([str(hostile)] if words != ["show"] else [])])
    printed = capsys.readouterr()
    assert all(each.isprintable() or each == "\n" for each in printed.out + printed.err)
    assert "\\x1b[31m" in printed.out or words == ["compare"]


def test_a_message_of_an_error_reaches_the_terminal_escaped(capsys):
    assert main(["show", "no\x1b[31m\u202esuch"]) == 2
    assert "\x1b" not in (errors := capsys.readouterr().err)
    assert "no\\x1b[31m\\u202esuch" in errors


def test_no_op_of_a_trace_becomes_code_of_a_port():
    refused = Refused(HOSTILE, HOSTILE, "not_ported_x_0", HOSTILE, [(2,)], (2,))
    (function,) = ast.parse("\n".join(program._refusing(refused))).body
    assert isinstance(function, ast.FunctionDef) and [type(each) for each in function.body] == [ast.Raise]
    parameters = Parameters({"w": (2,)}, {"w": "var"})
    parameters.layer(("w",), "w", "nn.Linear(2, 2)", {"w": ("weight", "identity")}, HOSTILE)
    assert [type(each) for each in ast.parse("\n".join(Classes().statements(parameters))).body] == [ast.Assign]
    parameters = Parameters({HOSTILE: (2,)}, {})
    parameters.plain(HOSTILE, "self")
    own = parameters.plain_ones[HOSTILE]
    entries = tomllib.loads(table([(HOSTILE, [own], "identity")]))["mapping"]
    assert [*entries.values()] == [{"to": own, "transform": "identity"}]


def test_one_module_opens_consoles():
    opening = re.compile(r"\b(Escaping)?Console\((?!Console\))")
    found = [
        str(path) for path in Path(parity.__file__).parent.rglob("*.py") if opening.search(path.read_text("utf-8"))
    ]
    assert [Path(each).name for each in found] == ["console.py"], "use parity.console.open_console"


@pytest.mark.parametrize(
    ("name", "can"),
    [("x", True), ("größe", True), ("x1", True), ("1x", False), ("a b", False), ("lambda", False), ("", False)],
)
def test_an_argument_is_a_name_that_is_no_word_of_the_language(name, can):
    assert is_argument(name) is can


@pytest.mark.parametrize(
    ("text", "name"), [("a/b:0", "a_b_0"), ("1x", "v_1x"), ("", "v_"), ("class", "class_"), ("größe", "gr__e")]
)
def test_an_identifier_is_the_text_but_for_what_no_name_can_hold(text, name):
    assert identifier(text) == name
    assert identifier("1", "layer") == "layer_1"
