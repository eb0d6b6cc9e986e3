"""Fails the tests that this machine cannot run instead of skipping them, for the words in $PARITY_REQUIRE."""

import os

import pytest

from .machine import NEEDS, MissingError, required

KEY = pytest.StashKey[set[str]]()


def pytest_configure(config: pytest.Config) -> None:
    try:
        config.stash[KEY] = required(os.environ.get("PARITY_REQUIRE", ""))
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None


def _path(word: str, config: pytest.Config) -> str:
    try:
        return NEEDS[word]()
    except MissingError as missing:
        if word in config.stash[KEY]:
            pytest.fail(f"{missing} (PARITY_REQUIRE has {word})", pytrace=False)
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def tf1_python(pytestconfig: pytest.Config) -> str:
    """An interpreter with genuine TensorFlow 1.15."""
    return _path("tf1", pytestconfig)


@pytest.fixture(scope="session")
def chromium_path(pytestconfig: pytest.Config) -> str:
    """A Chromium."""
    return _path("browser", pytestconfig)
