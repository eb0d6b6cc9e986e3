"""Finds what an optimizer trains: the modules that hold its parameters, their wrappers, and the names of all of them."""

import gc
import sys
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from torch_ddp.weights import named_statistics

WRAPPED = ("module", "_orig_mod")  # of DistributedDataParallel and DataParallel, and of torch.compile


class Section:
    """One optimizer of a program, and the modules whose parameters it holds.

    Args:
      optimizer: as the program made it.
      order: its number among the program's optimizers.

    Attributes:
      optimizer: as given.
      name: by which its quantities go where several optimizers train: the program's variable, or "optimizer<order>".
      models: dict of prefix to bare module, outermost first; one module has the prefix "", unless other optimizers train
        other ones.
      alone: whether no other optimizer trains another module.
      updates: number of steps that it made.
    """

    def __init__(self, optimizer: Optimizer, order: int) -> None:
        self.optimizer = optimizer
        self.order = order
        self.name = f"optimizer{order}"
        self.named = False
        self.models: dict[str, nn.Module] = {}
        self.alone = True
        self.updates = 0
        self.nested = 0
        self.hooks: list[Any] = []
        # Held by the optimizer when it was made: of parameters that no model has any more this tells how many there are.
        self.held_first = len(self.parameters())

    def parameters(self) -> list[Tensor]:
        """Returns the parameters in all groups."""
        return [parameter for group in self.optimizer.param_groups for parameter in group["params"]]

    def weights(self) -> dict[str, Tensor]:
        """Returns dict of name to those parameters of the models that the optimizer trains, half ones by their masters."""
        held = self._held()
        return {name: value for name, value in self._all_weights().items() if id(value) in held}

    def named_parameters(self) -> dict[str, Tensor]:
        """Returns dict of name to parameter of all models, in the place of half ones their float32 masters."""
        masters = masters_of(self.optimizer)
        return {name: masters.get(id(value), value) for name, value in self._all_weights().items()}

    def trained(self) -> dict[str, Tensor]:
        """Returns dict of name to what the optimizer steps: parameters, or their masters."""
        masters = masters_of(self.optimizer)
        return {name: masters.get(id(value), value) for name, value in self.weights().items()}

    def move_hooks_back(self) -> None:
        """Has our hooks come last among those of the optimizer's step."""
        # Torch calls the hooks of a step in the order of this table. Before each step, for a program adds its own at
        # any time.
        for hook in self.hooks:
            table = hook.hooks_dict_ref()
            if table is not None and hook.id in table:
                table.move_to_end(hook.id)

    def _all_weights(self) -> dict[str, Tensor]:
        return {
            prefix + name: value for prefix, model in self.models.items() for name, value in model.named_parameters()
        }

    def _held(self) -> set[int]:
        # Weights that have a master are in no group any more: their masters are.
        return {*(id(parameter) for parameter in self.parameters()), *masters_of(self.optimizer)}

    def named_statistics(self) -> dict[str, Tensor]:
        """Returns dict of name to floating-point buffer of all models."""
        return {
            prefix + name: value
            for prefix, model in self.models.items()
            for name, value in named_statistics(model).items()
        }

    def find_models(self, frame: FrameType | None = None) -> None:
        """Finds the modules that hold its parameters, among all that there are; `frame` is the program's."""
        held = self._held()
        # Through the garbage collector: an optimizer knows parameters and no module, and a program may keep its model
        # anywhere.
        found = [module for module in root_modules() if any(id(each) in held for each in module.parameters())]
        # Copies that share weights, and modules that are part of another: the one with the most comes first.
        found.sort(key=lambda module: -sum(id(each) in held for each in module.parameters()))
        covered: set[int] = set()
        roots = []
        for module in found:
            # `covered` are the held parameters of all roots so far: a module that adds none is a copy, or a second
            # view.
            own = {id(each) for each in module.parameters()} & held
            if own - covered:
                roots.append(module)
                covered |= own
        # No module any more says nothing of those that were there: what was found before stays, with its names.
        if not roots or [id(each) for each in roots] == [id(each) for each in self.models.values()]:
            return
        if len(roots) == 1 and self.alone:
            self.models = {"": roots[0]}
            return
        names = [name_of(module, frame) or f"model{self.order or ''}{number}" for number, module in enumerate(roots)]
        self.models = {f"{name}.": module for name, module in zip(names, roots, strict=True)}

    def find_name(self, frame: FrameType | None) -> None:
        """Finds by which variable the program knows the optimizer."""
        if not self.named:
            self.name = name_of(self.optimizer, frame) or self.name
            self.named = True


def masters_of(optimizer: Optimizer) -> dict[int, Tensor]:
    """Returns dict of a half weight's id to its float32 master, as torch_ddp.amp and Apex keep them beside an optimizer."""
    stash = getattr(optimizer, "_amp_stash", None)
    pairs = list(getattr(stash, "pairs", ()))
    halves, masters = (getattr(stash, f"fp{kind}_groups", ()) for kind in ("16", "32_from_fp16"))
    # Apex's stash: for each group of the optimizer a list of half weights, and one of their masters in the same order.
    for half, master in zip(halves, masters, strict=False):
        pairs += zip(half, master, strict=True)
    return {id(weight): master for weight, master in pairs}


def name_uniquely(sections: Sequence[Section], frame: FrameType | None = None) -> None:
    """Gives each of several optimizers, and each of several modules that they train, a name of its own.

    Args:
      sections: of all optimizers.
      frame: the program's, whose variables name modules.
    """
    names: set[str] = set()
    for section in sections:
        section.name = section.name if section.name not in names else f"{section.name}_{section.order}"
        names.add(section.name)
    roots = {id(model): model for section in sections for model in section.models.values()}
    if len(sections) < 2 or len(roots) < 2:
        return
    # By module, for two optimizers may train one. A name that was given stays: weights are recorded under it.
    prefixes = {id(model): prefix for section in sections for prefix, model in section.models.items() if prefix}
    for number, (key, model) in enumerate(roots.items()):
        name = prefixes.get(key) or f"{name_of(model, frame) or f'model{number}'}."
        others = {prefix for other, prefix in prefixes.items() if other != key}
        prefixes[key] = name if name not in others else f"{name.rstrip('.')}_{number}."
    for section in sections:
        section.alone = False
        section.models = {prefixes[id(model)]: model for model in section.models.values()}


def all_modules() -> list[nn.Module]:
    """Returns every module of the process that is alive."""
    # By type, not by isinstance: that asks objects for their __class__, and lazy ones then import what they stand for.
    return [each for each in gc.get_objects() if issubclass(type(each), nn.Module)]


def bare(module: nn.Module) -> nn.Module:
    """Returns what is inside of all wrappers."""
    # Several around each other: a compiled model in DistributedDataParallel, or the other way round.
    while True:
        inner = next((module._modules[name] for name in WRAPPED if is_wrapper(module, name)), None)
        if inner is None:
            return module
        module = inner


def is_wrapper(module: nn.Module, name: str) -> bool:
    """Whether a module does nothing but call the child of that name: a wrapper of torch's, or a library's of its kind."""
    children = getattr(module, "_modules", {})
    return list(children) == [name] and children[name] is not None and not module._parameters


def root_modules() -> list[nn.Module]:
    """Returns the modules that are part of no other module, without their wrappers, each once."""
    modules = all_modules()
    children = {id(child) for module in modules for child in getattr(module, "_modules", {}).values()}
    roots = {id(inner): inner for module in modules if id(module) not in children for inner in [bare(module)]}
    return list(roots.values())


def wrappers_of(model: nn.Module) -> list[nn.Module]:
    """Returns the wrappers around a bare module, outermost first."""
    around = [module for module in all_modules() if module is not model and bare(module) is model]
    return sorted(around, key=lambda module: -_depth(module, model))


def _depth(module: nn.Module, model: nn.Module) -> int:
    depth = 0
    while module is not model:
        module = next(child for name in WRAPPED if (child := module._modules.get(name)) is not None)
        depth += 1
    return depth


def name_of(thing: object, frame: FrameType | None) -> str:
    """Returns the variable or attribute by which a program's frames, innermost first, know an object; "" where none does."""
    for each in frames_from(frame):
        for name, value in [*each.f_locals.items(), *each.f_globals.items()]:
            if _is(value, thing) and not name.startswith("__"):
                return str(name)
        own = each.f_locals.get("self")
        for name, value in vars(own).items() if hasattr(own, "__dict__") else ():
            if _is(value, thing):
                return str(name).lstrip("_")
    return ""


def _is(value: Any, thing: object) -> bool:
    if value is thing:
        return True
    return issubclass(type(value), nn.Module) and isinstance(thing, nn.Module) and bare(value) is thing


def frames_from(frame: FrameType | None) -> Iterator[FrameType]:
    """Yields a frame and those that called it, those of torch and of our own left out."""
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if not module.startswith(("torch.", "torch_ddp.", "importlib")):
            yield frame
        frame = frame.f_back


def calling_frame() -> FrameType:
    """Returns the frame that calls this."""
    return sys._getframe(1)
