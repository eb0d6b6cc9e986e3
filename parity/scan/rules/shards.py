"""Rules about which examples a tower sees."""

import ast
from collections.abc import Iterator

from parity.scan.inventory.facts import shard_of
from parity.scan.inventory.kinds import runs_below
from parity.scan.inventory.loops import TowerLoop
from parity.scan.inventory.program import Code, Program
from parity.scan.model.imports import imported_modules
from parity.scan.model.repository import source_of
from parity.scan.result import SERIAL, TOWERS, Severity
from parity.scan.rules.rule import Hit, Rule


def _overlapping(code: Code) -> Iterator[Hit]:
    for loop in code.loops:
        if not _counts_by_one(loop) or not isinstance(loop.loop.target, ast.Name):
            continue
        number = loop.loop.target.id
        lines = set()
        for part in loop.body:
            for node in loop.module.inside(part):
                # Images and labels mostly stand on one line: one finding says it of both.
                if isinstance(node, ast.Subscript) and _overlaps(node.slice, number) and node.lineno not in lines:
                    lines.add(node.lineno)
                    text = (
                        f"{source_of(node)} begins one example further in each tower, and not one batch: shards overlap"
                    )
                    yield Hit(node, loop.module, text)


def _counts_by_one(loop: TowerLoop) -> bool:
    over = loop.loop.iter
    return (
        isinstance(over, ast.Call)
        and loop.module.resolved(over.func) in ("range", "xrange")
        and len(over.args) in (1, 2)
    )


def _overlaps(index: ast.expr, number: str) -> bool:
    """Whether a slice is `i:i + n` with an n that is not 1."""
    if isinstance(index, ast.Tuple) and index.elts:
        index = index.elts[0]
    if not isinstance(index, ast.Slice) or not isinstance(index.lower, ast.Name) or index.lower.id != number:
        return False
    upper = index.upper
    if not isinstance(upper, ast.BinOp) or not isinstance(upper.op, ast.Add):
        return False
    sides = [upper.left, upper.right]
    names = [side for side in sides if isinstance(side, ast.Name) and side.id == number]
    others = [side for side in sides if side not in names]
    return len(names) == 1 and not (isinstance(others[0], ast.Constant) and others[0].value == 1)


def _same(code: Code) -> Iterator[Hit]:
    for program in code.programs:
        if shard_of(program) is None:
            text = "nothing in the loop shows which examples a tower reads"
            yield Hit(program.loop.node, program.loop.module, text)


PRODUCERS = frozenset(
    ["string_input_producer", "slice_input_producer", "input_producer", "range_input_producer", "limit_epochs"]
)


def _ends(code: Code, program: Program) -> bool | None:
    """Whether the queues of a program end; None where nothing shows what fills them."""
    modules = imported_modules(program.loop.module, code.repository)
    given = [
        next((key.value for key in call.keywords if key.arg == "num_epochs"), None)
        for module in modules
        for function in module.functions
        for call in function.calls
        if module.resolved(call.func).rpartition(".")[2] in PRODUCERS
    ]
    # The second place of limit_epochs and of slice_input_producer is the number of epochs too, and is seldom used.
    ends = [each for each in given if each is not None and source_of(each) != "None"]
    return None if not given else bool(ends)


def _uneven(code: Code) -> Iterator[Hit]:
    for program in code.programs:
        ends = _ends(code, program)
        if ends is False:
            # A queue that never ends has no last batch.
            continue
        for use in program.linked_uses:
            smaller = use.argument("allow_smaller_final_batch")
            if isinstance(smaller, ast.Constant) and smaller.value is True:
                cut = shard_of(program)
                how = "cut into towers" if cut and "split" in cut[0] else "given to the towers"
                text = f"the last batch may be smaller, and is {how} all the same"
                yield Hit(smaller, use.module, text, bool(ends))


def _without_effect(code: Code) -> Iterator[Hit]:
    for loop in code.loops:
        if loop.kind == SERIAL and loop.device is not None and loop.device_module is not None and runs_below(loop):
            text = "a session runs in a block for a device: it runs where its graph was placed, one run after the other"
            yield Hit(loop.device, loop.device_module, text)


def trains(loop: TowerLoop) -> bool:
    """Whether a loop builds towers that are trained."""
    return loop.kind == TOWERS


EQUAL_EXAMPLES = (
    "It compares examples by value, as they arrived in the recorded steps: a queue that begins its data "
    "anew, or data that hold equal examples, can give two towers the same ones, which cannot be seen in source."
)
SHARD_RULES = (
    Rule(
        "TP201",
        "overlapping-shards",
        Severity.ERROR,
        "the towers' shards overlap",
        "A tower takes `x[i:i + n]` with its number i: each begins one example after the one before, where "
        "`x[i * n:(i + 1) * n]` is meant. All but a few examples are in several towers, and the rest of the batch "
        "in none.",
        "A DistributedSampler gives each rank examples of its own: the port sees more examples in each step.",
        "`DistributedSampler(dataset)`; for the script's own shards, `batch[rank * n:(rank + 1) * n]`.",
        _overlapping,
        hazards=("overlapping_data",),
        only_recorded=EQUAL_EXAMPLES,
    ),
    Rule(
        "TP202",
        "shard-not-seen",
        Severity.NOTE,
        "which examples a tower reads is not to be seen",
        "Nothing that depends on the tower's number, and no queue or iterator, gives the tower its batch here. It "
        "may be given in "
        "what is called, or all towers may read the same tensor.",
        "Where all towers read the same batch, N GPUs compute what one does; DDP's ranks have a batch each.",
        "Record the script: `parity record` compares what the towers were fed.",
        _same,
        decided=False,
        hazards=("same_data",),
        only_found="Source does not decide it (0 of 5 such guesses were right): the recording compares the numbers.",
        only_recorded=EQUAL_EXAMPLES,
    ),
    Rule(
        "TP203",
        "smaller-last-batch",
        Severity.WARNING,
        "the last batch may not divide by the number of towers",
        "Batches are made with `allow_smaller_final_batch=True`. `tf.split` raises where such a batch does not "
        "divide, and towers "
        "that take batches of their own average the mean of few examples with the mean of many. Only a queue that ends "
        "(`num_epochs=...`) has a last batch: a note where the source does not show what fills it.",
        "A DistributedSampler repeats examples, or drops them (`drop_last=True`): neither raises.",
        "`DistributedSampler(dataset, drop_last=True)` and `DataLoader(..., drop_last=True)`.",
        _uneven,
        hazards=("uneven_shards",),
        only_found="Only a recording that reaches the last batch sees it.",
    ),
    Rule(
        "TP204",
        "device-without-effect",
        Severity.WARNING,
        "sessions run one after the other, in blocks for devices that do nothing",
        "A loop over devices runs a session for each inside of `tf.device`. A device is chosen where ops are made, "
        "not where "
        "they are run: each run is an update of its own, one after the other, on the device that the graph was "
        "placed on.",
        "DDP makes one update of the mean over all ranks where this makes one update for each device.",
        "One process without DDP that makes the updates in turn is the same training; with DDP it is another.",
        _without_effect,
    ),
)
