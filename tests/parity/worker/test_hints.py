"""What the message of a failed side says to do about errors that users of old code meet first."""

import pytest

from parity.worker.failures import failure, last_frame, last_words, without_our_frames
from parity.worker.hints import hint, telling_line

IN_A_TOWER = 'File "/x/tf_towers/graph/tower.py", line 9, in build_replicas'


@pytest.mark.parametrize(
    ("side", "error", "traceback", "cure"),
    [
        (
            "tf",
            "AttributeError: module 'tensorflow' has no attribute 'variable_scope'",
            "",
            "TensorFlow 2 keeps TensorFlow 1's names elsewhere: write import tensorflow.compat.v1 as tf.",
        ),
        (
            "tf",
            "AttributeError: module 'tensorflow.compat.v1' has no attribute 'contrib'",
            "",
            "TensorFlow 2 has no contrib: run genuine TensorFlow 1.15 with --tf-python PATH, or write it with tf.layers.",
        ),
        (
            "tf",
            "ModuleNotFoundError: No module named 'tensorflow.contrib'",
            "",
            "TensorFlow 2 has no contrib: run genuine TensorFlow 1.15 with --tf-python PATH, or write it with tf.layers.",
        ),
        (
            "torch",
            "ModuleNotFoundError: No module named 'timm'",
            "",
            "Install it for the interpreter of this side, or leave the import out.",
        ),
        (
            "tf",
            "InvalidArgumentError: You must feed a value for placeholder tensor 'tower_0/keep' with dtype float",
            "",
            "Make it an argument of the tower that the batches feed, or a constant.",
        ),
        (
            "tf",
            "FailedPreconditionError: Attempting to use uninitialized value w",
            IN_A_TOWER,
            "A tower only builds the graph: leave sessions out of it.",
        ),
        (
            "torch",
            "AttributeError: 'DistributedDataParallel' object has no attribute 'G'",
            "",
            "The loss gets the model as DistributedDataParallel wraps it, which shares gradients of what forward() "
            "computes: call model(...), and have forward() return what the loss needs.",
        ),
        (
            "torch",
            "RuntimeError: expected m1 and m2 to have the same dtype, but got: float != double",
            "",
            "The port computes in float64 here: take the dtype from an input, or leave float() out.",
        ),
        (
            "tf",
            "SystemExit: 2",
            "",
            "The module is imported, not run: keep what runs it, and reads a command line, "
            'under if __name__ == "__main__".',
        ),
        (
            "torch",
            "ValueError: trying to initialize the default process group twice!",
            "",
            'The ranks are started already: leave that to the script that trains, under if __name__ == "__main__".',
        ),
        ("tf", "InvalidArgumentError: bad x", "", ""),
        ("torch", "AttributeError: module 'tensorflow' has no attribute 'x'", "", ""),
        ("tf", "KeyError: 'x'", IN_A_TOWER, ""),
    ],
)
def test_a_known_error_has_its_cure(side, error, traceback, cure):
    assert hint(side, error, traceback) == cure


def test_the_cure_stands_in_the_place_of_the_general_one():
    trace = 'Traceback (most recent call last):\n  File "/home/me/m.py", line 2, in <module>\nE'
    error = {"type": "ModuleNotFoundError", "message": "No module named 'a'", "traceback": trace, "plain": False}
    assert str(failure("data", "batches", error)) == (
        "data side: expected to get the batches, got ModuleNotFoundError: No module named 'a' (m.py, line 2). "
        "Install it for the interpreter of this side, or leave the import out. Its traceback is above."
    )


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ("boom\nmore", "boom"),
        ("", ""),
        ("\n  indented alone", "indented alone"),
        (
            "Graph execution error:\n\nDetected at node 'a' defined at (most recent call last):\n"
            "    File \"/home/me/m.py\", line 22, in tower\nNode: 'a'\nbad x : Tensor had NaN values\n\t [[{{node a}}]]",
            "bad x : Tensor had NaN values",
        ),
        (
            "Graph execution error:\n\nNode: 'a'\n2 root error(s) found.\n"
            "  (0) INVALID_ARGUMENT: You must feed a value\n\t [[{{node a}}]]\n  (1) INVALID_ARGUMENT: other",
            "You must feed a value",
        ),
        ("2 root error(s) found.\n  (0) Invalid argument: You must feed a value", "You must feed a value"),
        ("x" * 400, "x" * 300),
    ],
)
def test_of_a_long_message_the_line_that_tells_is_shown(message, line):
    assert telling_line(message) == line


def test_an_exception_of_a_chain_without_a_frame_of_the_users_is_left_out():
    ours = without_our_frames.__code__.co_filename
    text = (
        f'Traceback (most recent call last):\n  File "{ours}", line 1, in serve\nInner: a page\n\n'
        "During handling of the above exception, another exception occurred:\n\n"
        'Traceback (most recent call last):\n  File "/home/me/m.py", line 5, in tower\nOuter: a page'
    )
    assert without_our_frames(text).splitlines() == [
        "Traceback (most recent call last):",
        '  File "/home/me/m.py", line 5, in tower',
        "Outer: a page",
    ]


def test_a_chain_of_the_users_own_exceptions_stays_whole():
    text = (
        'Traceback (most recent call last):\n  File "/home/me/m.py", line 3, in f\nInner: x\n\n'
        "The above exception was the direct cause of the following exception:\n\n"
        'Traceback (most recent call last):\n  File "/home/me/m.py", line 5, in tower\nOuter: y'
    )
    assert [line for line in without_our_frames(text).splitlines() if line] == [
        line for line in text.splitlines() if line
    ]


def test_the_place_named_is_not_the_standard_librarys_either():
    library = '  File "/opt/lib/python3.7/argparse.py", line 9, in exit'
    text = f'  File "/home/me/m.py", line 6, in <module>\n{library}\nSystemExit: 2'
    assert last_frame(text) == "m.py, line 6"


def test_frames_of_torchs_own_calls_are_left_out_and_of_its_functions_kept():
    nn = "/x/site-packages/torch/nn"
    text = (
        'Traceback (most recent call last):\n  File "/home/me/m.py", line 5, in loss\n    model(x)\n'
        f'  File "{nn}/modules/module.py", line 1, in _call_impl\n    call()\n'
        f'  File "{nn}/parallel/distributed.py", line 1, in forward\n    call()\n'
        f'  File "{nn}/modules/linear.py", line 1, in forward\n    linear()\nRuntimeError: x'
    )
    assert without_our_frames(text).splitlines() == [
        "Traceback (most recent call last):",
        '  File "/home/me/m.py", line 5, in loss',
        "    model(x)",
        f'  File "{nn}/modules/linear.py", line 1, in forward',
        "    linear()",
        "RuntimeError: x",
    ]


def test_of_a_crash_the_users_stack_is_shown_and_not_ours_nor_the_list_of_modules(tmp_path):
    ours = without_our_frames.__code__.co_filename
    log = tmp_path / "log"
    log.write_text(
        "before\nFatal Python error: Aborted\n\nThread 0x1 (most recent call first):\n"
        f'  File "/home/me/m.py", line 5 in tower\n  File "{ours}", line 3 in serve\n\n'
        "Extension modules: numpy.linalg._umath_linalg (total: 1)\n"
    )
    assert last_words(log, 15).splitlines() == [
        "Fatal Python error: Aborted",
        "Thread 0x1 (most recent call first):",
        '  File "/home/me/m.py", line 5 in tower',
    ]
    log.write_text("one\ntwo\nthree\n")
    assert last_words(log, 2) == "two\nthree"
