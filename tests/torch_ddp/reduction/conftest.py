from parallel.conftest import nccl_rank, one_torch_thread, ranks, three_ranks, two_ranks

__all__ = ["nccl_rank", "one_torch_thread", "ranks", "three_ranks", "two_ranks"]
