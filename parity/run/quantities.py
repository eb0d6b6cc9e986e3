"""The quantities that a run records, by what it is for."""

EVERYTHING = (
    "state",
    "feed",
    "act",
    "stat",
    "loss",
    "tower_grad",
    "tower_clip",
    "grad",
    "clip",
    "slot",
    "var",
    "ema",
    "metric",
)
FREE = ("state", "stat", "loss", "grad", "clip", "slot", "var", "ema", "metric")
SPREAD = ("act", "stat", "loss", "tower_grad", "tower_clip", "grad", "clip", "slot", "var", "ema", "metric")
WEIGHTS, FEEDS = frozenset(["var"]), frozenset(["feed"])
