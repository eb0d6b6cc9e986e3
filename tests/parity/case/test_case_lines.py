import pytest

from parity.case.load import line_of, lines_of_keys

TEXT = '''# comment with [brackets] and "quotes
a = 1
"quoted.key" = "a # b = ["   # c = [
b.c = [
  1,  # d = 3
  "]",
]
e = """
f = 1
\\""" g = 2
"""
h = \'\'\'
i = 1\'\'\'

[mapping] # j
"x/y" = { to = "k", transform = "l" }
'm/n' = "o"
[ mapping . "act" ]
p = 1979-05-27
"\\u00e9\\t" = 2
'''


@pytest.mark.parametrize(
    ("key", "line"),
    [
        (("a",), 2),
        (("quoted.key",), 3),
        (("b",), 4),
        (("b", "c"), 4),
        (("e",), 8),
        (("h",), 12),
        (("mapping",), 15),
        (("mapping", "x/y"), 16),
        (("mapping", "m/n"), 17),
        (("mapping", "act"), 18),
        (("mapping", "act", "p"), 19),
        (("mapping", "act", "é\t"), 20),
    ],
)
def test_each_key_has_its_line(key, line):
    assert lines_of_keys(TEXT)[key] == line


def test_nothing_else_is_taken_for_a_key():
    assert len(lines_of_keys(TEXT)) == 12


def test_a_key_that_is_not_there_has_the_line_of_the_table_around_it():
    lines = lines_of_keys(TEXT)
    assert line_of(("mapping", "act", "none"), lines) == 18
    assert line_of(("mapping", "x/y", "to"), lines) == 16
    assert line_of(("none",), lines) == 1
