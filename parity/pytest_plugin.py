"""The pytest plugin: a fixture and a marker that keep a port's proof in its own tests.

Loaded by pytest once the package is installed. The sides start at the first test that needs them and serve all that
follow, so imports are paid for once.

Example::

    def test_the_port_is_still_what_tensorflow_trained(assert_parity):
        assert_parity("golden", "case.toml")

    @pytest.mark.parity("case.toml", golden="golden", steps=5)
    def test_five_steps_of_it():
        '''Paths are relative to this file; the proof runs before the body.'''

    @pytest.mark.parity("port", trace="trace")
    def test_the_port_that_was_written_from_a_trace():
        '''The folder as `parity port` left it, or edited since.'''
"""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

OPTION = "--parity-tf-python"
OPENED: pytest.StashKey[contextlib.ExitStack] = pytest.StashKey()
STASHED_SIDES: pytest.StashKey[dict[Any, Any]] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option that names the interpreter with TensorFlow."""
    group = parser.getgroup("parity", "proof that a port is the same training")
    group.addoption(
        OPTION, metavar="PATH", help="interpreter with TensorFlow (default: $PARITY_TF_PYTHON, the case's, this)"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Registers the marker."""
    config.addinivalue_line(
        "markers",
        "parity(case, golden=None, trace=None, levels=('function', 'float32'), **overrides): run the case before the test, "
        "against live TensorFlow or what `parity bless` kept, or the port in a folder against the trace that it was written "
        "from, and fail unless the verdict is same; paths are relative to the test's file",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> None:
    """Runs the case that a test is marked with, as part of the test, so that a difference is a failure of it."""
    marker = pyfuncitem.get_closest_marker("parity")
    if marker is not None and "trace" in marker.kwargs:
        _prove_port(pyfuncitem.path.parent, *marker.args, **marker.kwargs)
    elif marker is not None:
        from parity.trace import DamagedError  # with numpy, which tests without the marker need not wait for

        try:
            _prove(pyfuncitem, **_bound(pyfuncitem.path.parent, *marker.args, **marker.kwargs))
        except (ValueError, DamagedError) as error:
            # A case or a golden trace that is not what it should be, in words that need no traceback.
            pytest.fail(str(error), pytrace=False)


@pytest.fixture
def assert_parity(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Returns `parity.testing.assert_parity`, with sides that serve the whole session."""
    return lambda reference, candidate, **more: _prove(request.node, reference=reference, candidate=candidate, **more)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Ends the sides."""
    opened = session.stash.get(OPENED, None)
    if opened is not None:
        opened.close()


def _bound(folder: Path, case: str, golden: str | None = None, **more: Any) -> dict[str, Any]:
    return {"reference": folder / golden if golden else None, "candidate": folder / case, **more}


def _prove_port(folder: Path, port: str, trace: str) -> None:
    __tracebackhide__ = True
    from parity import testing

    testing.assert_port(folder / trace, folder / port)


def _prove(item: pytest.Item, **asked: Any) -> Any:
    __tracebackhide__ = True  # a difference is told by its report, not by where it was found
    # Here and not above: the plugin is loaded by every pytest of an environment, also where nobody proves anything.
    from parity import testing

    chosen = asked.pop("tf_python", None) or item.config.getoption(OPTION)
    return testing.assert_parity(**asked, tf_python=chosen, sides=lambda *key: _sides(item.session, key))


def _sides(session: pytest.Session, key: Any) -> Any:
    from parity.experiment import open_sides

    opened = session.stash.setdefault(OPENED, contextlib.ExitStack())
    kept = session.stash.setdefault(STASHED_SIDES, {})
    # By interpreter, and with a reference or without: live tests need one side more than golden ones. A side that has died
    # or hung in one test is of no use to the next.
    if key not in kept or kept[key].lost:
        python, reference = key
        kept[key] = opened.enter_context(open_sides(python, reference=reference))
    return kept[key]
