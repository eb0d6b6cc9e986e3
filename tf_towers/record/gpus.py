"""Stands in for GPUs that a script counts and the machine has not: its towers run on the CPU, by soft placement."""

import functools
import os
from typing import TYPE_CHECKING, Any, Callable, List, Optional

import tensorflow.compat.v1 as tf
from tensorflow.core.framework import device_attributes_pb2
from tensorflow.python.client import device_lib
from tensorflow.python.client import session as session_module
from tensorflow.python.eager import context
from tensorflow.python.framework import config as config_module
from tensorflow.python.framework import test_util

if TYPE_CHECKING:
    from tf_towers.record.hooks import Patches


MEMORY = 16 << 30  # bytes of each
KIND_OF_LIST = {"list_physical_devices": "PhysicalDevice", "list_logical_devices": "LogicalDevice"}


def stand_in_for_gpus(patches: "Patches", count: int) -> None:
    """Has every usual way of counting GPUs find `count` of them.

    Covered are `device_lib.list_local_devices`, `Session.list_devices`, `tf.test.is_gpu_available` and `gpu_device_name`,
    `tf.config`'s lists of devices and ``CUDA_VISIBLE_DEVICES``, where it is not set.

    Args:
      patches: the `Patches` that put it all back.
      count: number of GPUs, from 1.
    """
    # Scripts split it at commas and count.
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", ",".join(str(number) for number in range(count)))
    patches.add(device_lib, "list_local_devices", _with_more(device_lib.list_local_devices, _local, count))
    session = session_module.BaseSession
    patches.add(session, "list_devices", _with_more(session.list_devices, _of_session, count))
    for owner in (tf.test, test_util):
        patches.add(owner, "is_gpu_available", lambda *arguments, **named: True)
        patches.add(owner, "gpu_device_name", lambda: "/device:GPU:0")
    for owner in (tf.config, tf.config.experimental, config_module):
        for name in KIND_OF_LIST:
            if hasattr(owner, name):
                patches.add(owner, name, _listing(getattr(owner, name), getattr(context, KIND_OF_LIST[name]), count))


def _with_more(function: Callable[..., Any], made: Callable[[int], List[Any]], count: int) -> Callable[..., List[Any]]:
    @functools.wraps(function)
    def devices(*arguments: Any, **named: Any) -> List[Any]:
        return [each for each in function(*arguments, **named) if each.device_type != "GPU"] + made(count)

    return devices


def _local(count: int) -> List[Any]:
    return [
        device_attributes_pb2.DeviceAttributes(name=f"/device:GPU:{number}", device_type="GPU", memory_limit=MEMORY)
        for number in range(count)
    ]


def _of_session(count: int) -> List[Any]:
    name = "/job:localhost/replica:0/task:0/device:GPU:%d"
    return [session_module._DeviceAttributes(name % number, "GPU", MEMORY, number) for number in range(count)]


def _listing(function: Callable[..., Any], kind: Any, count: int) -> Callable[..., List[Any]]:
    @functools.wraps(function)
    def devices(device_type: Optional[str] = None) -> List[Any]:
        prefix = "/physical_device" if kind.__name__ == "PhysicalDevice" else "/device"
        gpus = [kind(name=f"{prefix}:GPU:{number}", device_type="GPU") for number in range(count)]
        others = function("CPU") if device_type in (None, "CPU") else []
        return list(others) + (gpus if device_type in (None, "GPU") else [])

    return devices
