"""Which line of a traceback is the user's."""

import os

import pytest


def _lines(frames):
    import os

    import tensorflow as real

    from tf_towers.errors import users_line

    places = {"ours": os.path.dirname(tf_towers.__file__), "tensorflow": os.path.dirname(real.__file__)}  # noqa: F821
    named = [[file.format(**places), number, "a function"] for file, number in frames]
    return {"with": users_line(named), "without": users_line(named, with_text=False)}


MODEL = ("{model}", 2)


@pytest.mark.parametrize(
    ("frames", "wanted", "text"),
    [
        ([("{model}", 1), MODEL], "model.py:2", ": `loss = second()`"),
        ([MODEL, ("{ours}/step.py", 1), ("{tensorflow}/python/ops.py", 1)], "model.py:2", ": `loss = second()`"),
        ([MODEL, ("/lib/site-packages/numpy/core.py", 1)], "model.py:2", ": `loss = second()`"),
        ([MODEL, ("/lib/python3.7/contextlib.py", 1)], "model.py:2", ": `loss = second()`"),
        ([MODEL, ("<string>", 1), ("<frozen importlib>", 1)], "model.py:2", ": `loss = second()`"),
        ([MODEL, ("{ours}_of_mine/layers.py", 7)], "layers.py:7", ""),  # a folder whose name begins alike
        ([MODEL, ("{model}", 3)], "model.py:3", ""),  # an empty line
        ([MODEL, ("{model}", 99)], "model.py:99", ""),
        ([("{ours}/step.py", 1), ("<string>", 1)], "a line that is not known", ""),
        ([], "a line that is not known", ""),
    ],
)
def test_the_innermost_line_that_is_no_librarys_is_the_users(tf, tmp_path, frames, wanted, text):
    model = tmp_path / "model.py"
    model.write_text("first()\n    loss = second()  \n\n", encoding="utf-8")
    told = [(os.fspath(model) if file == "{model}" else file, number) for file, number in frames]
    assert tf(_lines, frames=told) == {"with": wanted + text, "without": wanted}
