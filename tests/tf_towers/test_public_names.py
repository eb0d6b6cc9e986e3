# ruff: noqa: F821 - programs find tf_towers there

NAMES = [
    "Stepper",
    "Tower",
    "TowerError",
    "Training",
    "batch_norm",
    "build",
    "combine_gradients",
    "describe_variables",
    "facts",
    "hyper_parameters",
    "make_optimizer",
    "perturbed",
    "place_variables",
    "session",
    "shard",
    "tower_devices",
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
