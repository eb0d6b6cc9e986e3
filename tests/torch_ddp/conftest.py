"""Ranks that several tests share."""

from collections.abc import Iterator

import pytest
from held_ranks import HeldRanks


@pytest.fixture(scope="session")
def two_ranks() -> Iterator[HeldRanks]:
    ranks = HeldRanks(2)
    yield ranks
    ranks.close()


@pytest.fixture(scope="session")
def three_ranks() -> Iterator[HeldRanks]:
    ranks = HeldRanks(3)
    yield ranks
    ranks.close()
