"""The two sides of a case: where each is, and how it is built and run."""

from typing import Literal

from pydantic import Field

from parity.case.table import Combine, Function, Positive, Table


class TfSide(Table):
    """The reference: where the tower is, and how its graph is built; what is None is as `tf_towers.build` has it."""

    tower: Function
    optimizer: Function | None = None
    variables: Literal["cpu", "first_gpu", "balanced", "replicated"] = "cpu"
    batch_norm: Literal["each_tower", "synchronised"] | None = None
    batch_norm_updates: Literal["first", "last", "all_ordered", "unordered"] = "first"
    reduce: Literal["mean", "sum", "prescaled", "mean_of_losses", "examples"] | None = None
    cut: Literal["split", "slices", "feeds", "queue", "iterator"] | None = None
    uneven: Literal["refuse", "drop", "pad", "sizes"] | None = None
    share: Literal["variable_scope", "auto_reuse", "reuse_variables", "make_template", "model_first", "own"] | None = (
        None
    )
    missing: Literal["refuse", "zeros", "present", "skip"] | None = None
    sparse: Literal["dense", "slices", "slices_unscaled"] | None = None
    regularization: Literal["none", "every_tower", "scoped", "divided", "first_tower", "last_tower", "once"] | None = (
        None
    )
    update_ops: Literal["before", "grouped"] | None = None
    threads: int | None = Field(default=None, ge=1)
    python: str | None = None


# The choices of the builder that are handed to it as they stand.
OF_THE_BUILDER = (
    "variables",
    "batch_norm",
    "batch_norm_updates",
    "cut",
    "uneven",
    "share",
    "missing",
    "sparse",
    "regularization",
    "update_ops",
)


class TorchSide(Table):
    """The candidate: where the port is, and how it is run; `combine` is None where it is the case's, `threads` where 1."""

    model: Function
    loss: Function
    optimizer: Function | None = None
    scheduler: Function | None = None
    step: Function | None = None
    combine: Combine | None = None
    backend: Literal["gloo", "nccl"] = "gloo"
    opt_level: Literal["O0", "O1", "O2", "O3"] = "O0"
    half_dtype: Literal["float16", "bfloat16"] = "float16"
    sync_batch_norm: bool = False
    threads: int | None = Field(default=None, ge=1)
    bucket_cap_mb: Positive | None = None
