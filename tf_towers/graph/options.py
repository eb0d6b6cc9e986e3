"""Every choice that a tower graph makes, with what most code chooses as the default."""

from typing import Any, Dict, NamedTuple, Optional

from tf_towers.errors import TowerError
from tf_towers.graph.placement import PLACEMENTS
from tf_towers.graph.shard import CUTS, UNEVEN
from tf_towers.graph.update.combine import MISSING, SPARSE
from tf_towers.graph.variable_sharing import SHARING

# The first choice of each is its default.
OPTION_CHOICES = {
    "reduce": ("mean", "sum", "prescaled", "mean_of_losses", "examples"),
    "variables": PLACEMENTS,
    "batch_norm": ("each_tower", "synchronised"),
    # Of 25 codebases with batch norm 11 run all towers' updates, 9 the first's, 2 the last's.
    "batch_norm_updates": ("first", "last", "all_ordered", "unordered"),
    "update_ops": ("before", "grouped"),
    "cut": CUTS,
    "uneven": UNEVEN,
    "share": tuple(SHARING),
    "missing": MISSING,
    "sparse": SPARSE,
    # Of 31 with weight decay 16 have it in every tower's loss, 5 outside of them, 5 in one tower.
    "regularization": ("none", "every_tower", "scoped", "divided", "first_tower", "last_tower", "once"),
}


class Plan(NamedTuple):
    """The choices of a tower graph.

    Fields:
      reduce: "mean" or "sum" over the towers' gradients; "prescaled": losses divided by the number of towers, then the sum;
        "mean_of_losses": the gradient of the mean loss; "examples": the mean weighted by the towers' numbers of examples.
      variables: where they live, see `tf_towers.homes`.
      batch_norm: whose statistics `tf_towers.batch_norm` normalises by in training: "each_tower"'s own, or those of all
        towers together, "synchronised"; the moving ones then move once, by the whole batch's.
      batch_norm_updates: whose `UPDATE_OPS` run: the "first" tower's, the "last" one's, all in the order of the towers
        ("all_ordered"), or all at once ("unordered"), which is a race wherever towers share the statistics.
      update_ops: `UPDATE_OPS` run "before" the update, or "grouped" with it.
      cut: how the batch is cut: with `tf.split`, as "slices", or as "feeds", one placeholder for each tower; or not at all:
        the towers take turns at one "queue" or "iterator".
      uneven: what happens to a batch that does not divide, see `tf_towers.shard_uneven`.
      share: how towers share variables, see `tf_towers.share`.
      missing, sparse: see `tf_towers.combine_gradients`.
      regularization: which towers add the terms of `REGULARIZATION_LOSSES` and of `weight_decay` to their loss: see
        `tf_towers.regularization_terms`; "once" adds their gradient after the towers are combined.
      accumulate: None, or dict with `steps`, the micro-batches that a tower's shard is cut into, and `reduce` over them.
      clip: None, or dict with `by`, `limit` and `at`, see `tf_towers.clip_gradients`; `at` is "tower" or "combined".
      ema: None, or dict with `decay`, `num_updates` (bool) and `order`, "after" the update or "unordered".
      loss_scale: None, a number, or dict with `initial`, `growth_interval` and `factor`.
      weight_decay: None, or dict with `coefficient` and `only`, a regular expression of variable names: adds
        ``coefficient * sum(w ** 2) / 2``.
    """

    accumulate: Optional[Dict[str, Any]]
    batch_norm: str
    batch_norm_updates: str
    clip: Optional[Dict[str, Any]]
    cut: str
    ema: Optional[Dict[str, Any]]
    loss_scale: Any
    missing: str
    reduce: str
    regularization: str
    share: str
    sparse: str
    uneven: str
    update_ops: str
    variables: str
    weight_decay: Optional[Dict[str, Any]]


TABLES: Dict[str, Dict[str, Any]] = {
    "accumulate": {"steps": None, "reduce": "mean"},
    # Of 58 codebases 12 clip by global norm after combining, 5 in each tower, 3 by variable, 3 by value.
    "clip": {"by": "global_norm", "limit": None, "at": "combined", "sum_duplicates": False},
    "ema": {"decay": None, "num_updates": False, "order": "after"},
    # As tf.train.experimental.DynamicLossScale (1.15) has them: 2^15, doubled after 2000 finite steps in a row.
    "loss_scale": {"initial": 32768.0, "growth_interval": 2000, "factor": 2.0},
    "weight_decay": {"coefficient": None, "only": ""},
}
TABLE_CHOICES = {
    ("accumulate", "reduce"): ("mean", "sum"),
    ("clip", "by"): ("global_norm", "norm", "value"),
    ("clip", "at"): ("combined", "tower"),
    ("ema", "order"): ("after", "unordered"),
}


def make_plan(**chosen: Any) -> Plan:
    """Returns a `Plan` with the defaults filled in.

    Raises:
      TowerError: a name is unknown, a value is not one of its choices, or two choices exclude each other.
    """
    for name, value in chosen.items():
        if name not in Plan._fields:
            raise TowerError(f"build: expected one of the options {', '.join(Plan._fields)}, got {name!r}.")
        if name in OPTION_CHOICES and value not in OPTION_CHOICES[name]:
            raise TowerError(f"build: expected {name} to be one of {', '.join(OPTION_CHOICES[name])}, got {value!r}.")
    settings = dict({name: choices[0] for name, choices in OPTION_CHOICES.items()}, **chosen)
    for name in TABLES:
        settings[name] = _table(name, chosen.get(name))
    # A decay that no tower adds would be lost, which is what much code does by mistake.
    if settings["weight_decay"] and "regularization" not in chosen:
        settings["regularization"] = "every_tower"
    plan = Plan(**settings)
    _require_possible(plan)
    return plan


def _table(name: str, given: Any) -> Any:
    defaults = TABLES[name]
    number = isinstance(given, (int, float)) and not isinstance(given, bool)
    if given is None or (name == "loss_scale" and number):
        return given
    if not isinstance(given, dict):
        raise TowerError(f"build: expected {name} to be a dict of {', '.join(defaults)}, got {given!r}. Write a dict.")
    unknown = sorted(set(given) - set(defaults))
    missing = sorted(key for key, default in defaults.items() if default is None and key not in given)
    if unknown or missing:
        raise TowerError(
            f"build: expected {name} to be a dict of {', '.join(defaults)}, got {', '.join(sorted(given)) or 'nothing'}. "
            f"{'Leave out ' + ', '.join(unknown) if unknown else 'Add ' + ', '.join(missing)}."
        )
    table = dict(defaults, **given)
    for key, value in table.items():
        if value not in TABLE_CHOICES.get((name, key), (value,)):
            choices = ", ".join(TABLE_CHOICES[name, key])
            raise TowerError(f"build: expected {name}.{key} to be one of {choices}, got {value!r}.")
    return table


def _require_possible(plan: Plan) -> None:
    uneven = plan.uneven != "refuse"
    steps = plan.accumulate["steps"] if plan.accumulate else 1
    if steps < 1:
        raise TowerError(f"build: expected accumulate.steps to be at least 1, got {steps}.")
    scale = plan.loss_scale["initial"] if isinstance(plan.loss_scale, dict) else plan.loss_scale
    if scale is not None and not scale > 0:
        raise TowerError(f"build: expected loss_scale to be positive, got {scale}.")
    whole = plan.reduce == "mean_of_losses"  # one gradient of one loss: no tower has a part in it
    joined = plan.batch_norm == "synchronised"
    excluded = (
        (joined and plan.share in ("make_template", "model_first"), "synchronised batch norm", f'share="{plan.share}"'),
        (joined and plan.batch_norm_updates != "first", "synchronised batch norm", "batch_norm_updates"),
        # A tower's gradient has a part of every loss in it: no weighting of towers weights losses.
        (joined and plan.reduce == "examples", "synchronised batch norm", 'reduce="examples"'),
        (uneven and steps > 1, "uneven shards", "accumulate"),
        (uneven and plan.cut not in ("split", "slices"), "uneven shards", f'cut="{plan.cut}"'),
        (plan.variables == "replicated" and whole, "replicated variables", "mean_of_losses"),
        (plan.variables == "replicated" and plan.share != "variable_scope", "replicated variables", "share"),
        (whole and steps > 1, "accumulate", "mean_of_losses"),
        (whole and plan.loss_scale is not None, "loss_scale", "mean_of_losses"),
        (whole and plan.missing != "refuse", "missing", "mean_of_losses"),
        (whole and plan.sparse != "dense", "sparse", "mean_of_losses"),
        (whole and plan.clip and plan.clip["at"] == "tower", "clipping in towers", "mean_of_losses"),
    )
    for both, one, other in excluded:
        if both:
            raise TowerError(f"build: expected {one} or {other}, got both. Leave one of them out.")
