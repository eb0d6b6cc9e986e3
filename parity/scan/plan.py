"""The next commands: how a script that builds towers is recorded and ported, with the flags that it has."""

import ast
import re
import shlex
from collections.abc import Iterator

from parity.scan.inventory.count import count_of, flags_in
from parity.scan.inventory.program import Code, Program
from parity.scan.model.imports import imported_modules
from parity.scan.model.module import Module
from parity.scan.model.repository import Flag, Repository
from parity.scan.result import Plan

NUMBERS_OF_A_RECORDING = {"batch": "8"}  # numbers that a recording is as good with
TOWERS_OF_A_RECORDING = "2"
STEPS_OF_A_RECORDING = "4"
GPU_WORDS = re.compile(
    r"list_local_devices|list_physical_devices|CUDA_VISIBLE_DEVICES|is_gpu_available|nvidia-smi|get_available_gpus"
)


def plans_of(code: Code) -> list[Plan]:
    """Returns a plan for each script that leads to towers, by its name."""
    repository = code.repository
    plans = []
    for module in repository.modules:
        if not _is_script(module):
            continue
        imported = imported_modules(module, repository)
        programs = [each for each in code.programs if each.loop.module in imported]
        if programs:
            # Those of its own file first: the others may be of code that it imports and does not use.
            programs.sort(key=lambda each: each.loop.module is not module)
            plans.append(_plan(module, programs[0], imported, repository))
    return sorted(plans)


def _is_script(module: Module) -> bool:
    for statement in module.tree.body:
        if isinstance(statement, ast.If) and "__main__" in ast.dump(statement.test):
            return True
        if (
            isinstance(statement, ast.Expr)
            and isinstance(statement.value, ast.Call)
            and module.resolved(statement.value.func) in ("tf.app.run", "app.run", "absl.app.run", "main")
        ):
            return True
    runs = (
        each for each in module.functions[0].calls if isinstance(each.func, ast.Attribute) and each.func.attr == "run"
    )
    return any("sess" in ast.dump(each.func) for each in runs)


def _plan(module: Module, program: Program, imported: set[Module], repository: Repository) -> Plan:
    words, notes = list[str](), list[str]()
    flags = [flag for flag in repository.flags.values() if flag.module in imported]
    counted = flags_in(count_of(program), program.loop.module, repository)
    for flag in counted[:1]:
        words += _typed(flag, TOWERS_OF_A_RECORDING)
    for flag in flags:
        if flag in counted[:1]:
            continue
        if re.search(r"^(train_?)?batch_?size$", flag.name, re.IGNORECASE):
            words += _typed(flag, NUMBERS_OF_A_RECORDING["batch"])
        elif flag.required:
            words += _typed(flag, flag.name.upper())
            notes.append(f"{flag.name} has no default: say what {flag.name.upper()} is")
    gpus = _counts_gpus(imported)
    trace = f"{module.path.stem}.trace"
    options = ["--steps", STEPS_OF_A_RECORDING, *(["--gpus", TOWERS_OF_A_RECORDING] if gpus else [])]
    record = [
        "parity",
        "record",
        *options,
        "--out",
        trace,
        "--tf-python",
        "tf1/bin/python",
        "--",
        module.path.as_posix(),
    ]
    if gpus:
        notes.append("it counts the GPUs of the machine: --gpus has it find so many")
    elif not counted and not _is_several(program):
        notes.append("the number of towers is in the source: set it to 2 or more there")
    port = ["parity", "port", trace, "--out", f"{module.path.stem}_port"]
    return Plan(module.path.as_posix(), (shlex.join([*record, *words]), shlex.join(port)), tuple(notes))


def _is_several(program: Program) -> bool:
    numbers = [
        part.value
        for part in program.repository.sources(count_of(program), program.loop.module, 2)
        if isinstance(part, ast.Constant) and isinstance(part.value, int)
    ]
    return bool(numbers) and max(numbers) > 1


def _typed(flag: Flag, value: str) -> Iterator[str]:
    if flag.positional:
        yield value
    elif flag.style == "flags":
        yield f"--{flag.name}={value}"
    else:
        yield from (_option(flag), value)


def _option(flag: Flag) -> str:
    """The option as it is typed: its name may be another in the source."""
    words = [each.value for each in flag.call.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    return max(words, key=len) if words else f"--{flag.name}"


def _counts_gpus(modules: set[Module]) -> bool:
    return any(GPU_WORDS.search(line) for module in modules for line in module.lines)
