"""Ranks of one start after the other meet in one store; threads stand for them."""

import threading
from collections.abc import Callable
from datetime import timedelta

import pytest
import torch.distributed as dist
from hypothesis import given, settings
from hypothesis import strategies as st

from torch_ddp import Rank, TorchDdpError, process_group
from torch_ddp.rendezvous import fresh_store, shares_store_over_restarts

LONG = 60.0


def in_threads(calls: list[Callable[[], object]]) -> list[object]:
    """Runs calls at the same time; returns their results or errors."""
    results: list[object] = [None] * len(calls)

    def run(number: int) -> None:
        try:
            results[number] = calls[number]()
        except TorchDdpError as error:
            results[number] = error

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * LONG)
    assert not any(thread.is_alive() for thread in threads)
    return results


def meet(store: dist.Store, world_size: int) -> list[dist.Store]:
    calls = [lambda rank=rank: fresh_store(store, rank, world_size, LONG) for rank in range(world_size)]
    return in_threads(calls)


def come_and_die(store: dist.Store, rank: int, world_size: int) -> None:
    """Leaves what a rank leaves that comes alone and is killed while it waits."""
    with pytest.raises(TorchDdpError):
        fresh_store(store, rank, world_size, 0.02)


def says(stores: list[dist.Store]) -> list[str]:
    for rank, store in enumerate(stores):
        store.set(f"address/{rank}", f"of {rank}")
    return [store.get(f"address/{rank}").decode() for store in stores for rank in range(len(stores))]


@settings(max_examples=15)
@given(world_size=st.integers(1, 4), data=st.data())
def test_the_ranks_of_a_start_meet_each_other_and_nobody_of_an_earlier_one(world_size, data):
    store = dist.HashStore()
    for _ in range(3):
        for rank in data.draw(st.sets(st.integers(1, 3))):
            if rank < world_size:
                come_and_die(store, rank, world_size)
        stores = meet(store, world_size)
        assert not any(found.check([f"address/{rank}"]) for found in stores for rank in range(world_size))
        assert says(stores) == [f"of {rank}" for _ in range(world_size) for rank in range(world_size)]


def test_what_an_earlier_start_left_would_have_been_found_without_it():
    store = dist.HashStore()
    for start in (store, store):
        dist.PrefixStore("default_pg", start).set("address/0", "dead")
    assert dist.PrefixStore("default_pg", store).get("address/0") == b"dead"


def test_under_torchrun_each_start_of_a_group_gets_a_part_of_the_store_of_its_own(monkeypatch):
    agent = dist.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    places = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "localhost"}
    for name, value in {**places, "MASTER_PORT": str(agent.port), "TORCHELASTIC_USE_AGENT_STORE": "True"}.items():
        monkeypatch.setenv(name, value)
    given: list[dict] = []
    monkeypatch.setattr(dist, "init_process_group", lambda backend, **options: given.append(options))
    monkeypatch.setattr(dist, "destroy_process_group", lambda: None)
    for start in ("first", "second"):
        with process_group(timeout=LONG):
            given[-1]["store"].set("address", start)
    assert [options["store"].get("address") for options in given] == [b"first", b"second"]
    assert not agent.check(["address"])
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", "False")
    with process_group(timeout=LONG):
        assert given[-1]["init_method"] == "env://"


def test_ranks_that_do_not_come_are_named():
    store = dist.HashStore()
    first, second = in_threads([lambda: fresh_store(store, 0, 4, 0.3), lambda: fresh_store(store, 2, 4, 0.3)])
    assert str(first) == (
        "group: expected ranks [1, 3] to come within 0.3 seconds, got no sign of them. "
        "See that they were started, or raise the time-out."
    )
    assert isinstance(second, dist.PrefixStore)


def test_a_rank_0_that_does_not_come_is_named():
    store = dist.HashStore()
    store.set_timeout(timedelta(seconds=LONG))
    with pytest.raises(TorchDdpError, match=r"^group: expected ranks \[0\] to come within 0\.1 seconds"):
        fresh_store(store, 1, 2, 0.1)


@pytest.mark.parametrize(("value", "shared"), [("True", True), ("False", False), (None, False)])
def test_torchrun_says_whether_it_keeps_the_store(monkeypatch, value, shared):
    monkeypatch.delenv("TORCHELASTIC_USE_AGENT_STORE", raising=False)
    if value:
        monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", value)
    assert shares_store_over_restarts() == shared


def test_ranks_meet_in_a_folder_of_any_name(tmp_path):
    folder = tmp_path / "a b%20#c?d"
    folder.mkdir()
    with process_group(Rank(0, 0, 1), "gloo", (folder / "meeting").as_uri(), timeout=5.0):
        assert [each.name for each in folder.iterdir()] == ["meeting"]
    assert [each.name for each in tmp_path.iterdir()] == [folder.name]
