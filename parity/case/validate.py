"""The checks that look at several keys of a case, or at the files around it."""

import ast
import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from parity.case.errors import CaseError, Problem, shown, suggest
from parity.case.fields import FUNCTION


class NotOffered(NamedTuple):
    """One row: a key, and which of its values are refused.

    Fields:
      key: path of the key; "*" stands for every key of the table.
      values: the values refused; empty: all of them.
      instead: what to do, a sentence.
    """

    key: tuple[str, ...]
    values: tuple[object, ...] = ()
    instead: str = "Leave it out."


# What a case may say by design but this version cannot do yet; refused, for nothing in a case is ever ignored.
NOT_OFFERED = (NotOffered(("mapping", "noise", "*")),)


def take_not_offered(data: dict[str, Any]) -> list[Problem]:
    """Takes out of `data` what `NOT_OFFERED` lists, and returns a problem for each.

    Args:
      data: a case as parsed; changed in place, so that nothing is reported twice.
    """
    problems = []
    for row in NOT_OFFERED:
        *tables, last = row.key
        table: Any = data
        for name in tables:
            table = table.get(name) if isinstance(table, dict) else None
        if not isinstance(table, dict):
            continue
        for name in list(table) if last == "*" else [last]:
            if name in table and _refused(row, table[name]):
                value = table.pop(name)
                key = (*tables, name)
                got = f"{shown(value)}, which is not offered yet by this version"
                problems.append(Problem(key, "what this version can do", got, row.instead))
    return problems


def _refused(row: NotOffered, value: Any) -> bool:
    # By type too: 1 == True, and 1.0 == 1.
    return not row.values or any(type(value) is type(other) and value == other for other in row.values)


def find_source(spec: str, directory: Path) -> Path:
    """Returns the file that defines "module:function", looked up in `directory`, then in the folder above it.

    The file is parsed and never run, so that a misspelt name shows before any framework starts.

    Args:
      spec: module, dotted or not, and a name at its top level.
      directory: the case's folder.

    Raises:
      CaseError: no such module in either folder, a file that does not parse, or no such name in it.
    """
    module, _, name = spec.partition(":")
    path = _file_of(module, directory)
    try:
        # As bytes: the file says its own encoding in its first lines, where it is not UTF-8.
        tree = ast.parse(path.read_bytes(), str(path))
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:  # the last two of what is nested too deep
        line = getattr(error, "lineno", None) or 1
        reason = getattr(error, "msg", None) or str(error) or "it is nested too deep to be read"
        raise CaseError(f"case: expected Python in {path}, got at line {line}: {reason}. Fix it.") from None
    defined = set(_top_level(tree.body))
    if name not in defined and "*" not in defined:  # what a star import brings nobody knows without running it
        near = suggest(name, defined)
        write = near if near.startswith("Did you mean") else "Define it there, or write its right name."
        raise CaseError(f"case: expected {path} to define {name!r}, got no such name. {write}")
    return path


def _file_of(module: str, directory: Path) -> Path:
    parts = module.split(".")
    folders = (directory, directory.parent)
    # As Python looks it up in the worker: folder by folder, and in each a package before a module.
    for folder in folders:
        for path in (folder.joinpath(*parts, "__init__.py"), folder.joinpath(*parts).with_suffix(".py")):
            with contextlib.suppress(OSError):  # a name that is longer than a file's may be
                if path.is_file():
                    return path
    if parts[-1] == "py":
        raise CaseError(f"case: expected a module, got the file {module!r}. Write {module.removesuffix('.py')!r}.")
    raise CaseError(
        f"case: expected {'/'.join(parts)}.py in {folders[0]} or {folders[1]}, got no such file. "
        "Put it there, or write the module's right name."
    )


def _top_level(body: list[ast.stmt]) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Import | ast.ImportFrom):
            # `import a.b` binds a, `import a.b as c` binds c; of `from a import *` the name is "*".
            yield from ((alias.asname or alias.name).partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name))
        else:  # under if, try, with and loops a name is of the module as well
            for field in ("body", "orelse", "finalbody"):
                yield from _top_level(getattr(node, field, []))
            for handler in getattr(node, "handlers", []):
                yield from _top_level(handler.body)


OF_ALL = ("accumulate", "clip", "ema", "loss_scale", "weight_decay")
# Of n towers that each read and write once there are (2 n)! / 2^n orders.
MOST_RACING = 4  # towers: with four there are 2520 orders of reads and writes, with six 7.5 million
MEANS = ("prescaled", "mean_of_losses", "examples")


def combinations(data: dict[str, Any]) -> list[Problem]:
    """Returns the impossible combinations of the builder's choices; keys of a wrong type are left to the other checks."""
    # `tf_towers` refuses the same once TensorFlow has started, seconds later and without the line of the file.
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
    # Three ways of one mean, which scripts have: a loss divided by N and gradients added, one loss of all towers,
    # weights.
    if reduce in MEANS and combine == "sum":
        expected = f'combine = "mean" with it, since {reduce} is a way to average'
        yield Problem(("tf", "reduce"), expected, 'combine = "sum"', "Leave tf.reduce out, or write the mean.")
    if reduce in ("mean", "sum") and combine in ("mean", "sum") and reduce != combine:
        yield Problem(("tf", "reduce"), f'"{combine}", as combine requires', f'"{reduce}"', "Leave tf.reduce out.")


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
    # Each row: whether both are there, the key to blame, and what it cannot stand with.
    rows = (
        (uneven and accumulate, "uneven", "optimizer.accumulate"),
        (uneven and tf("cut") not in (None, "split", "slices"), "uneven", f'tf.cut = "{tf("cut")}"'),
        # One gradient of one loss: there is none of a tower's own to update its copy by.
        (replicated and whole, "reduce", 'tf.variables = "replicated"'),
        (replicated and own_share, "share", 'tf.variables = "replicated"'),
        (whole and accumulate, "reduce", "optimizer.accumulate"),
        (whole and loss_scale, "reduce", "optimizer.loss_scale"),
        (whole and changed["missing"], "missing", 'tf.reduce = "mean_of_losses"'),
        (whole and changed["sparse"], "sparse", 'tf.reduce = "mean_of_losses"'),
        # Nor is there one to clip, to count as missing, or to keep in rows.
        (whole and at_tower, "reduce", 'optimizer.clip.at = "tower"'),
    )
    for both, name, other in rows:
        if both:
            yield Problem(("tf", name), f"no {other} with it", "both", "Leave one of them out.")


def _parts(data: dict[str, Any]) -> Iterator[Problem]:
    # The class is one for both tables, so that these two keys would be taken here and mean nothing.
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
                yield Problem(("optimizers", name, key), f"{key} in [optimizer]", "it in [optimizers]", write)
    own = [("tf", "optimizer"), ("torch", "optimizer"), ("torch", "step"), ("torch", "scheduler")]
    for path in own:
        if value_of(data, path) is not None:
            yield Problem(
                path, "no [optimizers] with it, which say what trains on both sides", "both", "Leave one out."
            )
    level = value_of(data, ("torch", "opt_level"))
    if level not in (None, "O0"):
        expected = "O0 with [optimizers], since mixed precision patches one optimizer here"
        yield Problem(("torch", "opt_level"), expected, str(level), "Leave one of them out.")
    if value_of(data, ("tf", "reduce")) == "mean_of_losses" and any(
        isinstance(part, dict) and "loss" in part for part in parts.values()
    ):
        expected = "no losses of [optimizers] with it, since there is one mean of one loss"
        yield Problem(("tf", "reduce"), expected, "both", "Leave one of them out.")


def _races(data: dict[str, Any]) -> Iterator[Problem]:
    if value_of(data, ("tf", "batch_norm_updates")) != "unordered":
        return
    key, towers = ("tf", "batch_norm_updates"), data.get("towers")
    if type(towers) is int and towers > MOST_RACING:
        expected = f"at most {MOST_RACING} towers with it, for which all possible orders can be tried"
        yield Problem(key, expected, str(towers), 'Write fewer towers, or "all_ordered".')
    if value_of(data, ("optimizer", "accumulate")) is not None:
        yield Problem(key, "no optimizer.accumulate with it", "both", "Leave one of them out.")
    if value_of(data, ("tf", "uneven")) not in (None, "refuse"):
        yield Problem(key, "no tf.uneven with it", "both", "Leave one of them out.")


def _synchronised(data: dict[str, Any]) -> Iterator[Problem]:
    key, both = ("tf", "batch_norm"), 'tf.batch_norm = "synchronised"'
    if value_of(data, key) != "synchronised":
        return
    share, updates = (value_of(data, ("tf", name)) for name in ("share", "batch_norm_updates"))
    if share in ("make_template", "model_first"):
        expected = f'no tf.share = "{share}" with it, which builds one whole model before the others'
        yield Problem(key, expected, "both", "Leave one of them out.")
    if updates not in (None, "first"):
        expected = f'no tf.batch_norm_updates = "{updates}" with it, since the statistics move once, for all towers'
        yield Problem(key, expected, "both", "Leave one of them out.")
    if value_of(data, ("tf", "reduce")) == "examples":
        expected = "no tf.reduce = \"examples\" with it, since each tower's gradient has a part of every tower's loss"
        yield Problem(key, expected, "both", "Weight the losses, in the tower and in the port.")
    # Asked for and not guessed: a port may bring torch's SyncBatchNorm itself, or a norm that has to be turned into
    # one.
    if value_of(data, ("torch", "sync_batch_norm")) is None:
        write = "Write true to have the port's batch norm converted, false where it has SyncBatchNorm of its own."
        yield Problem(("torch", "sync_batch_norm"), f"true or false with {both}", "neither", write)


def _without_effect(data: dict[str, Any]) -> Iterator[Problem]:
    if value_of(data, ("tf", "regularization")) == "none" and value_of(data, ("optimizer", "weight_decay")) is not None:
        expected = "no optimizer.weight_decay with it, which no tower would add to its loss"
        yield Problem(("tf", "regularization"), expected, "both", "Leave one of them out.")
    clip = value_of(data, ("optimizer", "clip"))
    # Towers that stack gradients make them dense first, as all do that copy the cifar10 tutorial: no row is there twice
    # then.
    kept = value_of(data, ("tf", "sparse")) in ("slices", "slices_unscaled")
    if isinstance(clip, dict) and clip.get("sum_duplicates") is True and clip.get("at") != "tower" and not kept:
        expected = 'sparse gradients to clip: at = "tower", or tf.sparse = "slices"'
        yield Problem(
            ("optimizer", "clip", "sum_duplicates"), expected, "neither", "Leave it out, or write one of them."
        )


SAYS_WHO = ("why", "by")
OF_THE_OPTIMIZER = ("learning_rate_factor", "weight_decay")


def declarations(data: dict[str, Any]) -> list[Problem]:
    """Returns what is impossible in a parsed case's [expect]; keys of a wrong type are left to the other checks."""
    expect = data.get("expect")
    if not isinstance(expect, dict) or not expect:
        return []
    declared = [key for key in expect if key not in SAYS_WHO]
    if not declared:
        write = (
            "Write what the port does otherwise (combine, learning_rate_factor, loss_factor, weight_decay), or nothing."
        )
        return [Problem(("expect",), "a difference", "none", write)]
    return [*_nothing(expect, data), *_not_described(expect, data), *_another_decay(expect, data)]


def _nothing(expect: dict[str, Any], data: dict[str, Any]) -> list[Problem]:
    problems = []
    if expect.get("combine") in ("mean", "sum") and expect["combine"] == data.get("combine"):
        other = "sum" if expect["combine"] == "mean" else "mean"
        expected = f'"{other}", since the towers do what [expect] declares of the port'
        problems.append(Problem(("expect", "combine"), expected, shown(expect["combine"]), "Leave it out."))
    for key in ("learning_rate_factor", "loss_factor"):
        # By type, for true is 1 in Python.
        if type(expect.get(key)) in (int, float) and expect[key] == 1:
            problems.append(Problem(("expect", key), "a factor other than 1", "1", "Leave it out."))
    return problems


def _not_described(expect: dict[str, Any], data: dict[str, Any]) -> list[Problem]:
    # Described, an optimizer can be built otherwise than the case says; a function of the towers' own cannot.
    if "optimizer" in data:
        return []
    expected = "an [optimizer] table, from which the reference is built with the difference in it"
    return [
        Problem(("expect", key), expected, "an optimizer of its own", "Describe the towers' optimizer in [optimizer].")
        for key in OF_THE_OPTIMIZER
        if key in expect
    ]


def _another_decay(expect: dict[str, Any], data: dict[str, Any]) -> list[Problem]:
    optimizer = data.get("optimizer")
    there = optimizer.get("weight_decay") if isinstance(optimizer, dict) else None
    more = expect.get("weight_decay")
    if not isinstance(there, dict) or not isinstance(more, dict) or there.get("only", "") == more.get("only", ""):
        return []
    expected = f"only = {shown(there.get('only', ''))} as in optimizer.weight_decay, which it adds to"
    got = shown(more.get("only", ""))
    return [Problem(("expect", "weight_decay", "only"), expected, got, "Write the same weights in both.")]


FUNCTION_KEYS = (
    ("batches",),
    ("tf", "tower"),
    ("tf", "optimizer"),
    ("torch", "model"),
    ("torch", "loss"),
    ("torch", "optimizer"),
    ("torch", "scheduler"),
    ("torch", "step"),
)


def cross_checks(data: dict[str, Any]) -> list[Problem]:
    """Returns the impossible combinations in a parsed case; keys of a wrong type are left to the other checks."""
    own = [*_whole_shards(data), *_optimizers(data), *_own_step(data)]
    return [*own, *combinations(data), *declarations(data)]


def missing_sources(data: dict[str, Any], directory: Path) -> list[Problem]:
    """Returns a problem for each "module:function" whose file or name does not exist."""
    problems = []
    for key in FUNCTION_KEYS:
        spec = value_of(data, key)
        if not isinstance(spec, str) or not re.match(FUNCTION, spec):
            continue
        try:
            find_source(spec, directory)
        except CaseError as error:
            # The text of an error is "case: expected X, got Y. Do Z.", which is a problem in one string.
            expected, _, rest = str(error).removeprefix("case: expected ").partition(", got ")
            got, _, write = rest.partition(". ")
            problems.append(Problem(key, expected, got, write))
    return problems


def _whole_shards(data: dict[str, Any]) -> list[Problem]:
    if value_of(data, ("tf", "uneven")) not in (None, "refuse"):
        return []
    # type() and not isinstance: a bool is pydantic's to refuse, and would divide.
    size, towers, steps = data.get("batch_size"), data.get("towers"), _micro_batches(data)
    if type(size) is not int or type(towers) is not int or size < 1 or towers < 1 or size % (towers * steps) == 0:
        return []
    parts = towers * steps
    below, above = size // parts * parts, (size // parts + 1) * parts
    nearest = f"{below} or {above}" if below else str(above)
    if steps == 1:
        expected = f"a multiple of towers = {towers}, so that every tower gets as many examples"
        return [Problem(("batch_size",), expected, str(size), f"Write {nearest}, or another number of towers.")]
    expected = f"a multiple of towers = {towers} times accumulate = {steps}, so that every micro-batch is as large"
    return [Problem(("batch_size",), expected, str(size), f"Write {nearest}, or other numbers of them.")]


def _micro_batches(data: dict[str, Any]) -> int:
    steps = value_of(data, ("optimizer", "accumulate"))
    steps = steps.get("steps") if isinstance(steps, dict) else steps
    return steps if type(steps) is int and steps >= 1 else 1


def _optimizers(data: dict[str, Any]) -> list[Problem]:
    described = "optimizer" in data
    of_tf, of_torch = (value_of(data, (side, "optimizer")) is not None for side in ("tf", "torch"))
    # Beside [optimizer] a torch.optimizer alone is right: it says what the port really uses of what both are to do.
    if described and of_tf:
        write = "Leave [optimizer] out and write torch.optimizer too, or leave tf.optimizer out."
        return [Problem(("tf", "optimizer"), "either [optimizer] or an optimizer of its own", "both", write)]
    if described or (of_tf and of_torch):
        return []
    if not of_tf and not of_torch:
        write = "Write [optimizer] with name and learning_rate, or tf.optimizer and torch.optimizer."
        return [Problem(("optimizer",), "an optimizer", "none", write)]
    one, other = ("tf", "torch") if of_tf else ("torch", "tf")
    write = f"Write {other}.optimizer, or an [optimizer] table."
    return [Problem((other, "optimizer"), f"an optimizer with {one}.optimizer", "none", write)]


def _own_step(data: dict[str, Any]) -> list[Problem]:
    if value_of(data, ("torch", "step")) is None:
        return []
    return [
        Problem(
            ("torch", "step"),
            f"no optimizer.{name} with it, since what happens inside of the port's own step is not seen piece by piece",
            "both",
            f"Leave torch.step or optimizer.{name} out.",
        )
        # Both are between the backward pass and the update: clipping and averages the tool can see or make around a
        # step.
        for name in ("accumulate", "loss_scale")
        if value_of(data, ("optimizer", name)) is not None
    ]
