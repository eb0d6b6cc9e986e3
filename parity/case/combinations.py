"""The choices of a tower graph that exclude each other; `tf_towers` refuses the same once TensorFlow has started."""

from collections.abc import Iterator
from typing import Any

from parity.case.errors import Problem

OF_ALL = ("accumulate", "clip", "ema", "loss_scale", "weight_decay")
MOST_RACING = 4  # towers: with four there are 2520 orders of reads and writes, with six 7.5 million
MEANS = ("prescaled", "mean_of_losses", "examples")


def combinations(data: dict[str, Any]) -> list[Problem]:
    """Returns the impossible combinations of the builder's choices; keys of a wrong type are left to the other checks."""
    rules = (_reductions, _excluded, _without_effect, _races, _synchronised, _parts)
    return [problem for rule in rules for problem in rule(data)]


def value_of(data: dict[str, Any], key: tuple[str, ...]) -> Any:
    """Returns what a case as parsed has under a path of keys, or None."""
    value: Any = data
    for part in key:
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _reductions(data: dict[str, Any]) -> Iterator[Problem]:
    reduce, combine = value_of(data, ("tf", "reduce")), data.get("combine")
    if reduce in MEANS and combine == "sum":
        expected = f'combine = "mean" beside it, since {reduce} is a way to average'
        yield Problem(("tf", "reduce"), expected, 'combine = "sum"', "Leave tf.reduce out, or write the mean.")
    if reduce in ("mean", "sum") and combine in ("mean", "sum") and reduce != combine:
        yield Problem(("tf", "reduce"), f'"{combine}", as combine says', f'"{reduce}"', "Leave tf.reduce out.")


def _excluded(data: dict[str, Any]) -> Iterator[Problem]:
    def tf(name: str) -> Any:
        return value_of(data, ("tf", name))

    uneven = tf("uneven") not in (None, "refuse")
    whole = tf("reduce") == "mean_of_losses"
    accumulate, loss_scale = (value_of(data, ("optimizer", name)) is not None for name in ("accumulate", "loss_scale"))
    at_tower = value_of(data, ("optimizer", "clip", "at")) == "tower"
    changed = {name: tf(name) not in (None, first) for name, first in (("missing", "refuse"), ("sparse", "dense"))}
    own_share = tf("share") not in (None, "variable_scope")
    replicated = tf("variables") == "replicated"
    rows = (
        (uneven and accumulate, "uneven", "optimizer.accumulate"),
        (uneven and tf("cut") not in (None, "split", "slices"), "uneven", f'tf.cut = "{tf("cut")}"'),
        (replicated and whole, "reduce", 'tf.variables = "replicated"'),
        (replicated and own_share, "share", 'tf.variables = "replicated"'),
        (whole and accumulate, "reduce", "optimizer.accumulate"),
        (whole and loss_scale, "reduce", "optimizer.loss_scale"),
        (whole and changed["missing"], "missing", 'tf.reduce = "mean_of_losses"'),
        (whole and changed["sparse"], "sparse", 'tf.reduce = "mean_of_losses"'),
        (whole and at_tower, "reduce", 'optimizer.clip.at = "tower"'),
    )
    for both, name, other in rows:
        if both:
            yield Problem(("tf", name), f"no {other} beside it", "both", "Leave one of them out.")


def _parts(data: dict[str, Any]) -> Iterator[Problem]:
    for name in ("only", "loss"):
        if value_of(data, ("optimizer", name)) is not None:
            write = "Leave it out here: the first optimizer has what no other takes."
            yield Problem(("optimizer", name), "it in a table [optimizers.NAME]", "it in [optimizer]", write)
    parts = data.get("optimizers")
    if not isinstance(parts, dict) or not parts:
        return
    for name, part in parts.items():
        if isinstance(part, dict) and not isinstance(part.get("only"), str):
            write = 'Write only = "head", a regular expression.'
            yield Problem(("optimizers", name, "only"), "a pattern of the names of its variables", "none", write)
        for key in OF_ALL:
            if isinstance(part, dict) and key in part:
                write = "Write it there: it is about the update of all variables."
                yield Problem(("optimizers", name, key), f"{key} in [optimizer]", "it in a part", write)
    own = [("tf", "optimizer"), ("torch", "optimizer"), ("torch", "step"), ("torch", "scheduler")]
    for path in own:
        if value_of(data, path) is not None:
            yield Problem(
                path, "no [optimizers] beside it, which say what trains on both sides", "both", "Leave one out."
            )
    level = value_of(data, ("torch", "opt_level"))
    if level not in (None, "O0"):
        expected = "O0 beside [optimizers], since mixed precision patches one optimizer here"
        yield Problem(("torch", "opt_level"), expected, str(level), "Leave one of them out.")
    if value_of(data, ("tf", "reduce")) == "mean_of_losses" and any(
        isinstance(part, dict) and "loss" in part for part in parts.values()
    ):
        expected = "no losses of [optimizers] beside it, since there is one mean of one loss"
        yield Problem(("tf", "reduce"), expected, "both", "Leave one of them out.")


def _races(data: dict[str, Any]) -> Iterator[Problem]:
    if value_of(data, ("tf", "batch_norm_updates")) != "unordered":
        return
    key, towers = ("tf", "batch_norm_updates"), data.get("towers")
    if type(towers) is int and towers > MOST_RACING:
        expected = f"at most {MOST_RACING} towers beside it, for which all possible orders can be tried"
        yield Problem(key, expected, str(towers), 'Write fewer towers, or "all_ordered".')
    if value_of(data, ("optimizer", "accumulate")) is not None:
        yield Problem(key, "no optimizer.accumulate beside it", "both", "Leave one of them out.")
    if value_of(data, ("tf", "uneven")) not in (None, "refuse"):
        yield Problem(key, "no tf.uneven beside it", "both", "Leave one of them out.")


def _synchronised(data: dict[str, Any]) -> Iterator[Problem]:
    key, beside = ("tf", "batch_norm"), 'tf.batch_norm = "synchronised"'
    if value_of(data, key) != "synchronised":
        return
    share, updates = (value_of(data, ("tf", name)) for name in ("share", "batch_norm_updates"))
    if share in ("make_template", "model_first"):
        expected = f'no tf.share = "{share}" beside it, which builds one whole model before the others'
        yield Problem(key, expected, "both", "Leave one of them out.")
    if updates not in (None, "first"):
        expected = f'no tf.batch_norm_updates = "{updates}" beside it, since the statistics move once, for all towers'
        yield Problem(key, expected, "both", "Leave one of them out.")
    if value_of(data, ("tf", "reduce")) == "examples":
        expected = "no tf.reduce = \"examples\" beside it, since each tower's gradient has a part of every tower's loss"
        yield Problem(key, expected, "both", "Weight the losses, in the tower and in the port.")
    if value_of(data, ("torch", "sync_batch_norm")) is None:
        write = "Write true to have the port's batch norm converted, false where it has SyncBatchNorm of its own."
        yield Problem(("torch", "sync_batch_norm"), f"true or false beside {beside}", "neither", write)


def _without_effect(data: dict[str, Any]) -> Iterator[Problem]:
    if value_of(data, ("tf", "regularization")) == "none" and value_of(data, ("optimizer", "weight_decay")) is not None:
        expected = "no optimizer.weight_decay beside it, which no tower would add to its loss"
        yield Problem(("tf", "regularization"), expected, "both", "Leave one of them out.")
    clip = value_of(data, ("optimizer", "clip"))
    kept = value_of(data, ("tf", "sparse")) in ("slices", "slices_unscaled")
    if isinstance(clip, dict) and clip.get("sum_duplicates") is True and clip.get("at") != "tower" and not kept:
        expected = 'sparse gradients to clip: at = "tower", or tf.sparse = "slices"'
        yield Problem(
            ("optimizer", "clip", "sum_duplicates"), expected, "neither", "Leave it out, or write one of them."
        )
