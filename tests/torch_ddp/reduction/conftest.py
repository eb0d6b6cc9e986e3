from parallel.conftest import one_torch_thread, ranks, three_ranks, two_ranks

__all__ = ["one_torch_thread", "ranks", "three_ranks", "two_ranks"]
