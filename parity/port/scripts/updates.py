"""Writes how a training program makes its updates: with the script's one optimizer, or with several that take turns."""

from collections.abc import Iterator, Sequence

from parity.port.scripts.sections import Program, Section
from parity.port.source.form import indented, wrapped
from parity.port.training.rates import RATE_ARGUMENT
from parity.trace.escape import python_string

REDUCTION_OF = {
    "mean": "",
    "sum": 'torch_ddp.GradientReduction(ddp, "sum")  # the script adds its towers\' gradients up; DDP alone averages',
}
# DDP broadcasts rank 0's buffers before each forward pass: TensorFlow's common idiom updates the first tower's
# statistics alone.
RANK_0_STATISTICS = "rank 0's statistics go to all: the script moves them from its first tower"
TRAIN = "train"  # function of the program


def updates_of(program: Program) -> Iterator[list[str]]:
    """Yields the functions of a program that make its updates, as lines, and what they need of the module."""
    if len(program.sections) == 1:
        yield [*_parts_of_one(program.sections[0], program)]
        yield [*_train_one(program.sections[0])]
        return
    yield [*_train_only()]
    yield [*_parts_of_several(program)]
    yield [*_train_in_turns(program)]


def turns_line(program: Program) -> list[str]:
    """Returns the statement that says which of several optimizers makes which update; nothing where there is one."""
    if len(program.sections) == 1 or program.turns is None:
        return []
    names = ", ".join(f'"{program.sections[place].turn}"' for place in program.turns.order)
    return wrapped(f"TURNS = [{names}]  # who makes the updates, as in the recorded steps; then again from the first")


def not_trained(program: Program) -> str:
    """Returns why `train` cannot be written, in words; "" where it can."""
    if len(program.sections) == 1:
        return ""
    if program.turns is None:
        return "has several optimizers train in one run of the session, from the same weights"
    # Two wrappers around one model would reduce every gradient twice.
    if len({each.part.facts["combine"] for each in program.sections}) > 1:
        # DDP has one reduction for all gradients of a model.
        return "averages the gradients of one optimizer and adds up those of another"
    counted = [each.turn for each in program.sections if each.training.averages and each.training.averages_count]
    return f"counts the averages of {counted[0]} by steps that several optimizers make" if counted else ""


def _signature_of_train() -> Iterator[str]:
    yield f"def {TRAIN}("
    yield "    batches: Iterable[dict[str, Tensor]],"
    yield "    parts: dict[str, Any],"
    yield "    step: int = 0,"
    yield "    save: Callable[[int], None] = lambda step: None,"
    yield ") -> int:"
    yield '    """Makes one update for each batch; returns the number of updates in all.'
    yield ""
    yield "    Args:"
    yield "      batches: this rank's shares."
    yield "      parts: as `parts_of` returns them."
    yield "      step: number of updates made before."
    yield "      save: called with the number of updates after each."
    yield '    """'


def _wrapper(program: Program, arguments: str, why: str) -> Iterator[str]:
    """The statements that wrap a model in DDP."""
    comments = [*([why] if why else []), *([RANK_0_STATISTICS] if program.statistics else [])]
    if len(comments) > 1:
        yield f"    # {comments.pop(0)}"
    yield f"    ddp = DistributedDataParallel(model{arguments}){f'  # {comments[0]}' if comments else ''}"
    reduced = REDUCTION_OF[program.combine]
    if reduced:
        yield f"    {reduced}"


# One optimizer.


def _parts_of_one(section: Section, program: Program) -> Iterator[str]:
    yield "def parts_of(model: Model) -> dict[str, Any]:"
    schedule = " and its schedule" if section.schedule else ""
    yield f'    """Returns what trains, and what checkpoints hold: the model under DDP, its optimizer{schedule}."""'
    yield from _wrapper(program, "", "")
    averages = ', "averages": averages(model)' if "averages" in section.defined else ""
    if section.schedule:
        yield f"    updates = {_made(section)}"
        yield f"    scheduler = like_tf.Scheduler(updates, {section.schedule})"
        yield f'    return {{"model": ddp, "optimizer": updates, "schedule": scheduler{averages}}}'
    else:
        yield f'    return {{"model": ddp, "optimizer": {_made(section)}{averages}}}'


def _made(section: Section) -> str:
    rate = f", {RATE_ARGUMENT}{section.suffix}(0)" if section.training.fed else ""
    return f"optimizer{section.suffix}(model{rate})"


def _train_one(section: Section) -> Iterator[str]:
    yield from _signature_of_train()
    yield '    model, updates = parts["model"], parts["optimizer"]'
    yield "    model.train()"
    yield from ("    for batch in batches:", "        step += 1")
    yield "        updates.zero_grad()"
    # The wrapped model: called without its wrapper, the gradients of a rank would stay its own.
    yield "        torch.autograd.backward(loss(model, **batch))"
    yield "        updates.step()"
    if section.schedule:
        # Behind the optimizer's step: the rate of update n is schedule(n), counted from 0.
        yield '        parts["schedule"].step()'
    if "averages" in section.defined:
        yield f'        parts["averages"].update({"step" if section.training.averages_count else ""})'
    yield "        save(step)"
    yield "    return step"


# Several of them, which take turns.


def _train_only() -> Iterator[str]:
    yield "def train_only(model: Model, updates: torch.optim.Optimizer) -> None:"
    yield '    """Lets gradients reach what an optimizer updates and nothing else, as the script\'s `var_list` does."""'
    yield '    trained = {id(weight) for group in updates.param_groups for weight in group["params"]}'
    yield "    for weight in model.parameters():"
    yield "        weight.requires_grad_(id(weight) in trained)"


def _parts_of_several(program: Program) -> Iterator[str]:
    yield "def parts_of(model: Model) -> dict[str, Any]:"
    schedules = " and their schedules" if any(each.schedule for each in program.sections) else ""
    yield f'    """Returns what trains, and what checkpoints hold: the model under DDP, its optimizers{schedules}."""'
    # A loss reaches some of the weights, and of those only its own optimizer's want a gradient.
    yield from _wrapper(program, ", find_unused_parameters=True", "each turn trains some of the weights")
    yield '    parts: dict[str, Any] = {"model": ddp}'
    for section in program.sections:
        name = f'parts["optimizer{section.suffix}"]'
        yield from indented([f"{name} = {_made(section)}"])
        if section.schedule:
            yield from indented([f'parts["schedule{section.suffix}"] = like_tf.Scheduler({name}, {section.schedule})'])
        if "averages" in section.defined:
            yield from indented([f'parts["averages{section.suffix}"] = averages{section.suffix}(model)'])
    yield "    return parts"


def _train_in_turns(program: Program) -> Iterator[str]:
    yield from _signature_of_train()
    why = not_trained(program)
    if why:
        yield from indented(
            [f"raise NotImplementedError({python_string(f'{TRAIN}: the script {why}. Write it here.')})"]
        )
        return
    losses = ", ".join(f'"{each.turn}": loss{each.suffix}' for each in program.sections)
    yield '    model = parts["model"]'
    yield from indented([f"losses: dict[str, Callable[..., Tensor]] = {{{losses}}}"])
    yield "    model.train()"
    yield from ("    for batch in batches:", "        step += 1")
    yield "        turn = TURNS[(step - 1) % len(TURNS)]"
    yield '        updates = parts[f"optimizer_{turn}"]'
    # A GAN's discriminator gets gradients of the generator's loss too, which its own optimizer must not see.
    yield "        train_only(model.module, updates)"
    yield "        updates.zero_grad()"
    yield "        torch.autograd.backward(losses[turn](model, **batch))"
    yield "        updates.step()"
    yield from _after_some("schedule", "step", [bool(each.schedule) for each in program.sections])
    yield from _after_some("averages", "update", ["averages" in each.defined for each in program.sections])
    yield "        save(step)"
    yield "    return step"


def _after_some(part: str, method: str, has: Sequence[bool]) -> Iterator[str]:
    """The statement that follows the updates of those optimizers that have such a part."""
    if not any(has):
        return
    if not all(has):
        yield f'        if f"{part}_{{turn}}" in parts:'
    yield f'        {"" if all(has) else "    "}parts[f"{part}_{{turn}}"].{method}()'
