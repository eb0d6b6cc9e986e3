"""Lets the CPU stand for a GPU: a script that says `.cuda()` throughout runs where there is none.

For trying a script out and for tests, on a machine without GPU. Devices, tensor types and streams of CUDA mean the CPU,
nccl means gloo, one GPU is said to be there; what a script computes is what the CPU computes. It cannot be undone, and
belongs into a process of its own.
"""

import functools
import os
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.utils._device import _device_constructors  # the functions that set_default_device acts on

ASKED = "TORCH_DDP_APEX_CPU"  # environment variable, for the children of a process
TENSOR_TYPES = ("Float", "Double", "Half", "BFloat16", "Byte", "Char", "Short", "Int", "Long", "Bool")
KERNELS: list[Any] = []  # what is registered with torch stays for as long as they do
MAKERS = ("new_tensor", "new_zeros", "new_ones", "new_empty", "new_full")
# What does nothing on a CPU, and what answers with a number or name.
NOTHING = [
    "init",
    "synchronize",
    "empty_cache",
    "set_device",
    "manual_seed",
    "manual_seed_all",
    "seed",
    "seed_all",
    "reset_peak_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_accumulated_memory_stats",
    "ipc_collect",
]
ANSWERS: dict[str, Any] = {
    "is_available": True,
    "is_initialized": True,
    "device_count": 1,
    "current_device": 0,
    "get_device_name": "CPU standing for a GPU",
    "get_device_capability": (7, 0),
    "memory_allocated": 0,
    "memory_reserved": 0,
    "memory_cached": 0,
    "max_memory_allocated": 0,
    "max_memory_reserved": 0,
    "max_memory_cached": 0,
    "memory_summary": "",
    "get_device_properties": SimpleNamespace(
        name="CPU standing for a GPU", total_memory=2**34, major=7, minor=0, multi_processor_count=1
    ),
}


class Idle:
    """Stands for a stream, an event, a device context or the CUDA runtime: every method does nothing."""

    def __init__(self, *args: object, **kwargs: object) -> None: ...

    def __enter__(self) -> "Idle":
        return self

    def __exit__(self, *error: object) -> None: ...

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(name)
        return _answering(None)

    def elapsed_time(self, end: object) -> float:
        """Returns 0 milliseconds."""
        return 0.0


def install() -> None:
    """Makes the CPU stand for the GPU in this process and in its children that import apex."""
    os.environ[ASKED] = "1"
    _replace_cuda_module()
    _replace_tensor_methods()
    _replace_factories()
    _replace_parallel()
    _hasten_half_convolutions()


def install_where_asked() -> None:
    """Does as `install` in a child of a process that called it."""
    if os.environ.get(ASKED) == "1" and not issubclass(torch.cuda.Stream, Idle):
        install()


def on_cpu(device: Any) -> Any:
    """Returns the CPU for a device of CUDA, by name, number or object, and anything else as it is.

    Args:
        device: what a script passes as one.
    """
    if isinstance(device, bool):
        return device
    if isinstance(device, torch.device) and device.type == "cuda":
        return torch.device("cpu")
    if isinstance(device, int) or (isinstance(device, str) and device.split(":")[0] == "cuda"):
        return "cpu"
    return device


def _answering(answer: Any) -> Callable[..., Any]:
    # A function of its own each time: torch.compile looks functions up by identity.
    return lambda *args, **kwargs: answer


def _itself(value: Any, *args: object, **kwargs: object) -> Any:
    return value


def _replace_cuda_module() -> None:
    cuda: Any = torch.cuda
    for name in NOTHING:
        setattr(cuda, name, _answering(None))
    for name, answer in ANSWERS.items():
        setattr(cuda, name, _answering(answer))
    for name in ("Stream", "Event", "device", "device_of"):
        setattr(cuda, name, type(name, (Idle,), {}))
    for name in ("stream", "current_stream", "default_stream", "cudart"):
        setattr(cuda, name, _answering(Idle()))
    for name in ("range_push", "range_pop", "mark"):
        setattr(cuda.nvtx, name, _answering(None))
    # Older scripts read its numbers.
    torch.version.cuda = "0.0"
    cuda.get_rng_state = lambda device="cuda": torch.get_rng_state()
    cuda.get_rng_state_all = lambda: [torch.get_rng_state()]
    cuda.set_rng_state = lambda new_state, device="cuda": torch.set_rng_state(new_state)
    cuda.set_rng_state_all = lambda new_states: torch.set_rng_state(new_states[0])
    for kind in TENSOR_TYPES:
        setattr(cuda, f"{kind}Tensor", getattr(torch, f"{kind}Tensor"))


def _replace_tensor_methods() -> None:
    tensor: Any = torch.Tensor
    to, type_of, cpu = tensor.to, tensor.type, tensor.cpu
    nn.Module.cuda = _itself  # type: ignore[method-assign,assignment]
    tensor.cuda = _itself
    tensor.pin_memory = _itself
    torch.UntypedStorage.cuda = _itself  # type: ignore[method-assign,assignment]
    tensor.get_device = lambda self: 0
    tensor.record_stream = _answering(None)

    def to_cpu(self: Any, *args: Any, **kwargs: Any) -> Any:
        return to(self, *map(on_cpu, args[:1]), *args[1:], **_with_device_on_cpu(kwargs))

    def copy_to_cpu(self: Any, *args: Any, **kwargs: Any) -> Any:
        # A copy, as from a GPU: what is kept of a weight must not change with it.
        copy = cpu(self, *args, **kwargs)
        copy = copy.clone() if copy is self else copy
        copy.left_the_gpu = True
        return copy

    def type_as_on_a_gpu(self: Any, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
        if dtype is None and getattr(self, "left_the_gpu", False):
            return type_of(self)
        if dtype is None:
            # Under a function mode torch looks the method up by its name, and comes here twice.
            name = type_of(self)
            return name if name.startswith("torch.cuda.") else name.replace("torch.", "torch.cuda.")
        return type_of(
            self, dtype.replace("torch.cuda.", "torch.") if isinstance(dtype, str) else dtype, *args, **kwargs
        )

    tensor.to, tensor.type, tensor.cpu = to_cpu, type_as_on_a_gpu, copy_to_cpu
    for name in MAKERS:
        setattr(tensor, name, _takes_devices(getattr(tensor, name)))


def _with_device_on_cpu(kwargs: dict[str, Any]) -> dict[str, Any]:
    return {**kwargs, "device": on_cpu(kwargs["device"])} if kwargs.get("device") is not None else kwargs


def _takes_devices(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def made_on_cpu(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **_with_device_on_cpu(kwargs))

    return made_on_cpu


def _replace_factories() -> None:
    makers: list[Any] = list(_device_constructors())
    for function in makers:
        name = getattr(function, "__name__", "")
        if getattr(torch, name, None) is function:
            setattr(torch, name, _takes_devices(getattr(torch, name)))
    load = torch.load

    @functools.wraps(load)
    def load_on_cpu(*args: Any, **kwargs: Any) -> Any:
        place = kwargs.get("map_location")
        return load(*args, **{**kwargs, "map_location": on_cpu(place)} if place is not None else kwargs)

    torch.load = load_on_cpu


def _hasten_half_convolutions() -> None:
    # torch has no CPU kernel for gradients of half convolutions, and falls back on loops: 0.6 s where float32 takes 4 ms
    # (64 channels, 32 x 32, two images). Summed in float32 and rounded once, as a GPU's kernels do.
    if KERNELS:
        return
    library: Any = torch.library
    KERNELS.append(library.Library("aten", "IMPL"))
    before = library.get_kernel("aten::convolution_backward", "CPU")
    cpu = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)

    def backward(gradient: torch.Tensor, x: torch.Tensor, kernel: torch.Tensor, *options: Any) -> Any:
        if gradient.dtype is not torch.float16:
            return before.call_boxed(cpu, gradient, x, kernel, *options)
        gradients = torch.ops.aten.convolution_backward(gradient.float(), x.float(), kernel.float(), *options)
        return tuple(each if each is None else each.half() for each in gradients)

    KERNELS[0].impl("convolution_backward", backward, "CPU")


def _replace_parallel() -> None:
    # DataParallel then calls its module, as without a GPU.
    nn.parallel.data_parallel.__globals__["_get_available_device_type"] = _answering(None)
    wrap: Any = nn.parallel.DistributedDataParallel.__init__

    @functools.wraps(wrap)
    def wrap_on_cpu(
        self: Any, module: nn.Module, device_ids: Any = None, output_device: Any = None, *args: Any, **kwargs: Any
    ) -> None:
        wrap(self, module, None, None, *args, **kwargs)

    nn.parallel.DistributedDataParallel.__init__ = wrap_on_cpu  # type: ignore[method-assign]
    if not dist.is_available():
        return
    begin: Any = dist.init_process_group

    @functools.wraps(begin)
    def begin_on_gloo(backend: Any = None, *args: Any, **kwargs: Any) -> Any:
        kwargs.pop("device_id", None)
        return begin("gloo" if backend in (None, "nccl", "cpu:gloo,cuda:nccl") else backend, *args, **kwargs)

    dist.init_process_group = begin_on_gloo
    dist.is_nccl_available = lambda: True
