# ruff: noqa: F821 - programs find tf_towers there

NAMES = [
    "Averages",
    "CheckpointError",
    "Clipped",
    "LossScale",
    "Part",
    "Plan",
    "Shards",
    "Stepper",
    "Tower",
    "TowerError",
    "Training",
    "all_finite",
    "balanced",
    "batch_norm",
    "batch_norm_over_towers",
    "build",
    "choose_updates",
    "clip_gradients",
    "combine_gradients",
    "decay_terms",
    "describe_variables",
    "effective_coefficient",
    "facts",
    "float32_places",
    "homes",
    "hyper_parameters",
    "local_response_normalization",
    "make_learning_rate",
    "make_optimizer",
    "make_plan",
    "over_towers",
    "perturbed",
    "place_variables",
    "racing_updates",
    "read_checkpoint",
    "recording",
    "regularization_terms",
    "session",
    "shard",
    "shard_uneven",
    "share",
    "sum_duplicate_rows",
    "tower_devices",
    "tower_feeds",
    "write_checkpoint",
]


def _names():
    import inspect

    public = [
        name for name in dir(tf_towers) if not name.startswith("_") and not inspect.ismodule(getattr(tf_towers, name))
    ]
    return {"names": public, "docs": {name: inspect.getdoc(getattr(tf_towers, name)) or "" for name in public}}


def test_the_public_names_are_these(tf):
    assert tf(_names)["names"] == sorted(NAMES)


def test_every_public_name_says_what_it_does(tf):
    docs = tf(_names)["docs"]
    assert [name for name in NAMES if not docs[name].split("\n")[0].endswith(".")] == []
