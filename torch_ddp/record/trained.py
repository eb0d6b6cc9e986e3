"""Opens what a program trains: its one optimizer, and the modules that this is over as one."""

from collections.abc import Mapping, Sequence

from torch import nn

from torch_ddp.errors import TorchDdpError
from torch_ddp.record.sections import Section


class Together(nn.Module):
    """The modules that one optimizer trains as one, under the names that a recording has for them.

    Args:
      models: dict of prefix, "encoder." for one, to module.
    """

    def __init__(self, models: Mapping[str, nn.Module]) -> None:
        super().__init__()
        for prefix, model in models.items():
            self._modules[prefix.rstrip(".")] = model


def joined(models: Mapping[str, nn.Module]) -> nn.Module:
    """Returns the one module that is trained, or all of them in one."""
    return models[""] if list(models) == [""] else Together(models)


def the_one(sections: Sequence[Section]) -> Section:
    """Returns the only optimizer of a program.

    Raises:
      TorchDdpError: it has several, or it trains no module.
    """
    if len(sections) == 1 and sections[0].models:
        return sections[0]
    got = f"{len(sections)} of them" if len(sections) != 1 else "one whose parameters are of no module"
    raise TorchDdpError(
        f"replay: expected a program with one optimizer over a module's parameters, got {got}. "
        "Prove such a port by its parts: `parity replay --torch --loss --step`."
    )
