# ruff: noqa: F821 - programs find tf there
import sys

import numpy as np
import pytest

from parity.worker.process import SideFailed

from .tf_child import sources


def _doubled(x, word):
    return {"doubled": _twice(x), "word": word + "!", "version": tf.VERSION}


def _twice(x):
    with tf.Session() as session:
        return session.run(tf.constant(x) * 2)


def _fails():
    raise KeyError("on purpose")


def test_arrays_and_words_go_there_and_come_back_on_both_tensorflows(tf, tf_python):
    answer = tf(_doubled, x=np.arange(3.0), word="hello")
    assert answer["doubled"].tolist() == [0.0, 2.0, 4.0]
    assert answer["word"] == "hello!"
    assert answer["version"].startswith("2." if tf_python == sys.executable else "1.15")


def test_an_error_there_is_raised_here_with_its_line_and_the_process_lives_on(tf):
    with pytest.raises(SideFailed, match=r"KeyError: 'on purpose' \(test_tf_child\.py, line \d+, in _fails\)"):
        tf(_fails)
    assert tf(_doubled, x=np.zeros(1), word="")["word"] == "!"


def test_a_function_travels_with_the_functions_of_its_module_that_it_calls():
    texts = [text for _, text in sources(_doubled)]
    assert [text.split("(")[0] for text in texts] == ["def _doubled", "def _twice"]
