"""The form of what ports are written in: long lines, and types where a checker knows none."""

import ast
import subprocess
import sys

import pytest

from parity.port.source.code import ATOM, SIGNED, Code, infix, number
from parity.port.source.form import indented, typed, wrapped

LONG = [
    f"self.stage = nn.Sequential({', '.join(['BlockWithShortcut(64, 128)'] * 4)})",
    f"self.stage = nn.Sequential({', '.join(['BlockWithShortcut(64, 128)'] * 9)})",
    f"return like_tf.RMSProp(model.parameters(), {', '.join(f'setting_{name}=0.125' for name in 'abcdef')})",
    f"decayed = [{', '.join(f'module.convolution_{name}.weight' for name in 'abcdef')}]",
    f"return {' + '.join(f'0.5 * auxiliary_loss_{name}(module.weight, 2)' for name in 'abcd')}",
    f"return {', '.join(f'F.relu(self.layer_{name}(x)).permute(0, 2, 3, 1)' for name in 'abcd')}",
    f"{', '.join(f'result_of_layer_{name}' for name in 'abcdef')} = model(images)",
    f"images = like_tf.conv({', '.join(f'weight_of_layer_{name}' for name in 'abcde')}).permute(0, 2, 3, 1)",
    f"total = {' + '.join(f'auxiliary_loss_{name}' for name in 'abcdef')}",
]


@pytest.mark.parametrize("statement", LONG)
def test_long_lines_are_wrapped_as_ruff_wraps_them(statement):
    text = "\n".join(["def function(model, module):", *indented([statement])]) + "\n"
    words = [sys.executable, "-m", "ruff", "format", "--isolated", "--line-length", "120", "-"]
    assert subprocess.run(words, input=text, capture_output=True, text=True, check=True).stdout == text
    assert all(len(line) <= 120 for line in text.splitlines())


def test_a_comment_for_which_there_is_no_room_stands_in_front():
    assert wrapped(f"x = {'a' * 100}  # train.py:12", "    ") == ["    # train.py:12", f"    x = {'a' * 100}"]
    assert wrapped("x = 1  # train.py:12") == ["x = 1  # train.py:12"]


@pytest.mark.parametrize(
    ("statements", "last"),
    [
        (["return self.fc(x)"], ["output: torch.Tensor = self.fc(x)", "return output"]),
        (["return self.logits(x)"], ["logits: torch.Tensor = self.logits(x)", "return logits"]),
        (["return F.relu(self.fc(x))"], ["return F.relu(self.fc(x))"]),
        (["x = self.fc(x)", "return x"], ["return x"]),
        (["net = self.fc(x)", "return net"], ["net: torch.Tensor = self.fc(x)", "return net"]),
        (["return x + self.fc(x)"], ["output: torch.Tensor = x + self.fc(x)", "return output"]),
        (["return x + F.relu(x)"], ["return x + F.relu(x)"]),
        (["return self.a(x), self.b(x)"], ["return self.a(x), self.b(x)"]),
    ],
)
def test_what_a_checker_cannot_know_is_said(statements, last):
    assert typed(statements, ["x"], "")[-len(last) :] == last


GROUPED = (
    "the_first_of_the_long_names - the_second_of_the_long_names + the_third_of_the_long_names - the_fourth_long_name"
)


@pytest.mark.parametrize(
    "code",
    [f"x = ({GROUPED})", f"return ({GROUPED}).square()", f"self.mean.sub_(({GROUPED}) * 0.1)", f"x = ({GROUPED}) * y"],
)
def test_wrapped_lines_are_the_same_statement(code):
    lines = ["def f():", *wrapped(code, "    ")]
    assert len(lines) > 2
    assert ast.unparse(ast.parse("\n".join(lines))) == ast.unparse(ast.parse(f"def f():\n    {code}"))


CHAINED = "outputs.permute(0, 2, 3, 1).squeeze(1).reshape(2, -1, 15, 8).permute(1, 2, 0, 3).reshape(-1, 30, 8)"


@pytest.mark.parametrize("length", range(0, 40, 3))
@pytest.mark.parametrize("code", [f"x = {CHAINED}[:, 0:29]", f"x = call({CHAINED}[:, 0:29], y)", *LONG])
def test_lines_that_are_wrapped_again_further_to_the_right_are_the_same_statement(code, length):
    code = code.replace("outputs.", f"outputs{'_' * length}.", 1)
    lines = [code]
    for levels in range(1, 5):
        lines = [*indented(lines)]
        nested = [f"{'    ' * level}if True:" for level in range(levels)]
        found, expected = (
            ast.parse("\n".join(["def f():", *(f"    {each}" for each in [*nested, *body])]))
            for body in (lines, [f"{'    ' * levels}{code}"])
        )
        assert ast.unparse(found) == ast.unparse(expected)


def test_arguments_on_one_line_get_a_line_each_where_the_call_moves_to_the_right():
    names = ["the_argument_of_a_call", *(f"argument_{name}_of_a_call" for name in "bcde")]
    lines = wrapped(f"x = call({', '.join(names)})", "    ")
    assert lines == ["    x = call(", f"        {', '.join(names)}", "    )"]
    assert [*indented(lines)] == ["        x = call(", *(f"            {name}," for name in names), "        )"]


@pytest.mark.parametrize(
    ("base", "power", "text"),
    [
        (Code("0.999"), Code("step"), "0.999**step"),
        (Code("self.scale"), Code("2"), "self.scale**2"),
        (Code("x"), Code("-0.5", SIGNED), "x ** (-0.5)"),
        (Code("torch.tanh(x)"), Code("3"), "torch.tanh(x) ** 3"),
        (number(-1e-09), Code("x"), "(-1e-09) ** x"),
    ],
)
def test_powers_stand_as_ruff_writes_them(base, power, text):
    assert infix(base, "**", power).text == text


def test_large_numbers_stand_as_ruff_writes_them():
    assert number(1e30).text == "1e30"
    assert number(2.5e-20).text == "2.5e-20"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1 / 3, "(1 / 3)"),
        (2 / 3, "(2 / 3)"),
        (2 / 999, "(2 / 999)"),
        (1 / 998, "(1 / 998)"),
        (1 / 1001, repr(1 / 1001)),
        (2 / 1003, repr(2 / 1003)),
        (4 / 7, repr(4 / 7)),
        (3 / 7, repr(3 / 7)),
        (-1 / 3, repr(-1 / 3)),
        (0.1234567891, "0.1234567891"),  # long, and of no fraction
        (1 / 2**10, "0.0009765625"),
        (1 / 128, "0.0078125"),  # short enough as it is
        (2.0, "2"),
        (-3.0, "-3"),
        (1e15 - 1, "999999999999999"),
        (1e15, "1000000000000000.0"),
        (-(1e15 - 1), "-999999999999999"),
        (float("inf"), 'float("inf")'),
        (float("-inf"), 'float("-inf")'),
        (float("nan"), 'float("nan")'),
    ],
)
def test_a_number_stands_as_a_reader_would_write_it(value, text):
    code = number(value)
    assert code.text == text
    assert code.binds == (SIGNED if text.startswith("-") else ATOM)
    read = eval(text)
    assert read == value or read != read
