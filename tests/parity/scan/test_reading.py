"""Source as it is found: any Python, any encoding, notebooks, and files that are none of it."""

import ast
import json
import os

import pytest

from parity.scan.reading.decode import UnreadableFile, decoded, read_source
from parity.scan.reading.expressions import number_of
from parity.scan.reading.files import source_files, texts_in
from parity.scan.reading.statements import parse

PYTHON_2 = """
import cPickle
print "loss %d" % step, value
print >>log, "done"
exec "x = 1" in names
def f((a, b), c=0777):
    raise ValueError, "no"
try:
    pass
except IOError, e:
    print `e`
if a <> b or u"x" == ur"y":
    x = 10L
"""
PYTHON_3 = """
from a.b import c as d, e
import x.y as z

@mark(1)
class A(B, metaclass=C):
    def m(self, x, *rest, y=2, **more):
        with open(x) as f, (lock):
            for i, j in zip(*rest):
                yield [k for k in f if k for _ in j]
            else:
                pass
        return lambda q: {**more, "a": -q[1:, ::2, ...], 'b': {1, 2}}
if not (a and b or c < d <= e is not f) and g(*a, h=1, **b):
    s = f"{x!r}tower_%d" % i
elif (n := 2) if q else 3:
    a = b = c @ d
    a[0], *b = c
    x += 2 ** 3
while True:
    break
del x
assert x, y
"""


def test_python_2_is_read_whole():
    parsed = parse(PYTHON_2)
    assert parsed.broken == ()
    calls = [
        each.func.id for each in ast.walk(parsed.tree) if isinstance(each, ast.Call) and isinstance(each.func, ast.Name)
    ]
    assert calls.count("print") == 3
    assert {"exec"} <= set(calls)


def test_python_3_is_what_python_itself_reads():
    ours, pythons = parse(PYTHON_3), ast.parse(PYTHON_3)
    assert ours.broken == ()
    # What is left out: parameters behind a star as such, conversions of f-strings, who stores and who loads.
    kinds = [
        type(each).__name__ for each in ast.walk(pythons) if isinstance(each, ast.stmt | ast.expr | ast.comprehension)
    ]
    own = [
        type(each).__name__ for each in ast.walk(ours.tree) if isinstance(each, ast.stmt | ast.expr | ast.comprehension)
    ]
    assert sorted(own) == sorted(kinds)
    text = ast.unparse(ours.tree).replace("(x, *rest, y=2, **more)", "")
    for piece in ("from a.b import c as d, e", "-q[1:, ::2, ...]", "a and b or c < d <= e is not f", "x += 2 ** 3"):
        assert piece in text


def test_every_file_of_this_project_is_what_python_itself_reads():
    path = os.path.join(os.path.dirname(__file__), *[".."] * 3, "parity", "cli", "output.py")
    with open(path, encoding="utf-8") as file:
        source = file.read()
    calls = [each.lineno for each in ast.walk(ast.parse(source)) if isinstance(each, ast.Call)]
    assert sorted(each.lineno for each in ast.walk(parse(source).tree) if isinstance(each, ast.Call)) == sorted(calls)


@pytest.mark.parametrize(
    "source",
    [
        "if a:\n    \tif b:\n            c = 1\n    \telse:\n            c = 2\nd = 3\n",
        "def f(x):\n    if x:\n        if x > 1:\n       \t    y = 1\n            z = 2\n"
        "        else:\n            y = 3\n    return y\n",
    ],
)
def test_a_tab_behind_blanks_goes_to_the_next_multiple_of_eight(source):
    parsed = parse(source)
    assert not parsed.broken
    assert ast.unparse(parsed.tree) == ast.unparse(ast.parse(source))


def test_what_is_no_python_is_said_with_its_line_and_the_rest_is_read():
    parsed = parse("x = 1\n<<<<<<< HEAD\ny = tf.split(x)\n")
    assert parsed.broken == (2,)
    assert [each.targets[0].id for each in parsed.tree.body if isinstance(each, ast.Assign)][:1] == ["x"]


@pytest.mark.parametrize(
    "source", ["(" * 5000, "x = " + "[" * 3000 + "]" * 3000, "-" * 4000 + "x", "if a:\n" + " " * 50_000]
)
def test_what_is_nested_without_end_ends(source):
    assert isinstance(parse(source).tree, ast.Module)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("é".encode(), "é"),
        (b"\xef\xbb\xbfx = 1", "x = 1"),
        ("x".encode("utf-16"), "x"),
        ("x".encode("utf-32"), "x"),
        ("# -*- coding: gbk -*-\n中".encode("gbk"), "# -*- coding: gbk -*-\n中"),
        (
            b"#!/usr/bin/python\n# vim: set fileencoding=latin-1 :\n\xe9",
            "#!/usr/bin/python\n# vim: set fileencoding=latin-1 :\né",
        ),
        (b"# coding: no-such\n\xe9", "# coding: no-such\né"),
        (b"# coding: zlib_codec\nx", "# coding: zlib_codec\nx"),
        (b"# coding: unicode_escape\n\\x41", "# coding: unicode_escape\n\\x41"),
        (b"a\r\nb\rc", "a\nb\nc"),
        (b"caf\xe9", "café"),
    ],
)
def test_any_encoding_is_read(data, text):
    assert decoded(data) == text


def test_what_holds_no_text_is_refused():
    with pytest.raises(UnreadableFile, match="NUL"):
        decoded(b"\x7fELF\0\0")


@pytest.mark.parametrize(
    ("text", "number"),
    [("0777", 511), ("10L", 10), ("0x1F", 31), ("1_000", 1000), ("1e-4", 1e-4), ("2j", 2j), ("0", 0)],
)
def test_numbers_of_both_pythons(text, number):
    assert number_of(text) == number


def notebook(folder, *cells, indent=1):
    path = folder / "train.ipynb"
    found = [{"cell_type": "code", "source": cell.splitlines(keepends=True)} for cell in cells]
    path.write_text(json.dumps({"cells": [{"cell_type": "markdown", "source": ["# T"]}, *found]}, indent=indent))
    return path


def test_a_notebook_s_lines_are_where_its_file_has_them(tmp_path):
    path = notebook(
        tmp_path, "%matplotlib inline\nimport os", "!pip install x\nfor i in range(2):\n    %time f(i)", "%%bash\nls"
    )
    lines, raw = read_source(path).split("\n"), path.read_text().split("\n")
    assert len(lines) == len(raw)
    code = {number: line for number, line in enumerate(lines) if line}
    assert all(json.dumps(line.split("#")[-1].strip())[1:-1] in raw[number] for number, line in code.items())
    assert parse("\n".join(lines)).broken == ()
    assert "for i in range(2):" in code.values()
    assert not any("ls" in line.split() for line in code.values())


def test_a_shell_command_of_a_notebook_goes_on_behind_a_backslash(tmp_path):
    text = read_source(notebook(tmp_path, "!make \\\n  --all \\\n  --of it\nx = 1"))
    assert parse(text).broken == ()
    assert [line for line in text.split("\n") if line and "#" not in line] == ["x = 1"]


def test_a_notebook_on_one_line_is_read_too(tmp_path):
    assert read_source(notebook(tmp_path, "x = 1", "y = 2", indent=None)).split() == ["x", "=", "1", "y", "=", "2"]


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"cells": 3}', '{"cells": [3]}', "[" * 5000, '{"cells": [{"cell_type": "code"}]}']
)
def test_what_is_no_notebook_is_refused_or_empty(tmp_path, text):
    path = tmp_path / "a.ipynb"
    path.write_text(text)
    try:
        assert read_source(path) == ""
    except UnreadableFile as error:
        assert "is no notebook" in str(error)


def test_files_are_found_once_and_circles_of_links_end(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.py").write_text("")
    (tmp_path / "a" / "y.txt").write_text("")
    (tmp_path / "a" / "again").symlink_to(tmp_path / "a", target_is_directory=True)
    (tmp_path / "z.py").symlink_to(tmp_path / "a" / "x.py")
    for name in (".hidden", "site-packages"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "n.py").write_text("")
    os.mkfifo(tmp_path / "pipe.py")
    found = list(source_files([tmp_path, tmp_path / "a" / "x.py"]))
    assert len(found) == 1
    assert list(source_files([tmp_path / "missing.py"])) == [tmp_path / "missing.py"]


def test_what_cannot_be_opened_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe.py")
    for name in ("missing.py", "pipe.py"):
        with pytest.raises(UnreadableFile):
            read_source(tmp_path / name)


def test_what_is_too_large_is_refused(tmp_path):
    path = tmp_path / "large.py"
    with path.open("wb") as file:
        file.truncate((4 << 20) + 1)
    with pytest.raises(UnreadableFile, match="larger than 4 MiB"):
        read_source(path)


def test_texts_that_say_how_scripts_are_started_are_read_and_data_last(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / ".git").mkdir()
    for name in ("data/a.txt", "run.sh", "Makefile", "image.png", ".git/config.sh", "train.py"):
        (tmp_path / name).write_bytes(name.encode() + b"\xff")
    (tmp_path / "large.yaml").write_bytes(b"a" * (256 * 1024 + 1))
    (tmp_path / "small.yaml").write_bytes(b"a" * (256 * 1024))
    os.mkfifo(tmp_path / "pipe.sh")
    names = [path.relative_to(tmp_path).as_posix() for path, _ in texts_in([tmp_path])]
    assert names == ["Makefile", "run.sh", "small.yaml", "train.py", "data/a.txt"]
    assert list(texts_in([tmp_path / "run.sh"])) == []
