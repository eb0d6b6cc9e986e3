import numpy as np
import pytest

from .tf_child import TfChild


def _versions(tf, np, session, x):
    return {"major": int(tf.__version__.split(".")[0]), "doubled": session().run(tf.constant(x) * 2)}


def _fails(tf, np, session):
    raise KeyError("on purpose")


def test_arrays_go_there_and_come_back(tf2):
    out = tf2(_versions, x=np.arange(3.0))
    assert out["major"] == 2
    assert out["doubled"].tolist() == [0.0, 2.0, 4.0]
    assert out["doubled"].dtype == np.float64


@pytest.mark.tf1
def test_the_legacy_child_runs_tensorflow_1(tf1):
    assert tf1(_versions, x=np.arange(3.0))["major"] == 1


def test_an_error_in_the_child_is_raised_here_and_the_child_lives_on(tf2):
    with pytest.raises(RuntimeError, match="on purpose"):
        tf2(_fails)
    assert tf2(_versions, x=np.zeros(1))["major"] == 2


def test_a_child_that_does_not_answer_is_ended(tmp_path):
    script = tmp_path / "python"
    script.write_text("#!/bin/sh\nexec sleep 60\n")
    script.chmod(0o755)
    child = TfChild(str(script), timeout=0.2)
    with pytest.raises(TimeoutError, match=r"_versions took more than 0.2 seconds"):
        child(_versions, x=np.zeros(1))
    child.close()


def test_a_child_that_cannot_start_is_an_error_and_not_a_wait(tmp_path):
    script = tmp_path / "python"
    script.write_text("#!/bin/sh\nread line\necho broken >&2\nexit 1\n")
    script.chmod(0o755)
    child = TfChild(str(script))
    with pytest.raises(RuntimeError, match="broken"):
        child(_versions, x=np.zeros(1))
    child.close()
