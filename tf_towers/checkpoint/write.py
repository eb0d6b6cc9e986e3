"""Writes named arrays as a checkpoint that `tf.train.Saver` restores."""

import os
from typing import Any, Mapping, Optional

import numpy as np
import tensorflow.compat.v1 as tf

from parity.trace.arrays import Array, Tensors
from parity.trace.safetensors import Path
from tf_towers.checkpoint.read import checkpoint_state
from tf_towers.errors import CheckpointError

GLOBAL_STEP_NAME = "global_step"
V1_DTYPES = frozenset(
    ["float64", "float32", "float16", "complex64"]
    + ["int64", "int32", "int16", "int8", "uint16", "uint8", "bool", "object"]
)


def write_checkpoint(
    path: Path, arrays: Mapping[str, Any], version: str = "V2", global_step: Optional[int] = None
) -> str:
    """Writes a checkpoint with these variables and no others, whole or not at all, and names it as the newest of its folder.

    No graph is kept beside it: `Saver.restore` needs none. A Saver looks its variables up by name and refuses another
    shape or dtype; what it does not ask for may be there too.

    Args:
      path: prefix of a V2 checkpoint, or the V1 file; its folder exists.
      arrays: dict of variable name, as the restoring graph has it, to array; strings as arrays of bytes.
      version: "V2", or "V1" as TensorFlow before 0.12 wrote it.
      global_step: int; appended to the path as ``Saver.save(..., global_step=...)`` does, and saved as the variable
        "global_step".

    Returns:
      The path to restore from.

    Raises:
      CheckpointError: the folder is missing, there is nothing to write, a name is empty, an array has a dtype that the
        format does not hold, `global_step` contradicts `arrays`, or the disk refuses.

    Source: tensorflow/python/training/saver.py (1.15), `BaseSaverBuilder.save_op`.
    """
    if version not in ("V1", "V2"):
        raise CheckpointError(f"write_checkpoint: expected version to be 'V1' or 'V2', got {version!r}.")
    arrays = {name: _with_known_dtype(name, value, version) for name, value in arrays.items()}
    # Absolute, for the state file names it, and relative names there are taken from its own folder.
    path = os.path.abspath(str(path))
    if global_step is not None:
        # int64, as tf.train.create_global_step makes it: a Saver refuses another dtype.
        known = arrays.setdefault(GLOBAL_STEP_NAME, np.array(global_step, np.int64))
        if int(known) != int(global_step):
            raise CheckpointError(
                f"write_checkpoint: expected global_step to be {int(known)} as in the arrays, got {global_step}. "
                "Leave one of them out."
            )
        path = f"{path}-{int(global_step)}"
    if not arrays or not all(arrays):
        raise CheckpointError(
            f"write_checkpoint: expected arrays by name, got {'an empty name' if arrays else 'none'}. Give at least one."
        )
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise CheckpointError(f"write_checkpoint: expected the folder {folder} to exist, got none. Make it first.")
    _require_no_other(path, version)
    _save(path, arrays, version)
    _name_as_newest(folder, path)
    return path


def _require_no_other(path: str, version: str) -> None:
    # A Saver takes V2 where both are: the one that is already there would be restored, and not what is written now.
    other = path + ".index" if version == "V1" else path
    if os.path.exists(other):
        raise CheckpointError(
            f"write_checkpoint: expected nothing of another format at {path}, got {other}. Remove it, or name another."
        )


def _with_known_dtype(name: str, value: Any, version: str) -> Array:
    array = np.asarray(value)
    # numpy's fixed-width bytes drop zeros at their end; TensorFlow takes strings as objects.
    if array.dtype.kind == "S":
        array = array.astype(object)
    strings = array.dtype == object and all(isinstance(one, bytes) for one in array.reshape(-1))
    known = strings or (array.dtype != object and _tensorflow_knows(array.dtype))
    if not known or (version == "V1" and array.dtype.name not in V1_DTYPES):
        instead = "Write version V2, or convert it." if known else "Convert it."
        raise CheckpointError(
            f"write_checkpoint: expected {name} in a dtype that a {version} checkpoint holds, got {array.dtype}. {instead}"
        )
    return array


def _tensorflow_knows(dtype: Any) -> bool:
    try:
        return tf.as_dtype(dtype) not in (tf.string, tf.resource, tf.variant)
    except TypeError:
        return False


def _save(path: str, arrays: Tensors, version: str) -> None:
    names = sorted(arrays)
    with tf.Graph().as_default():
        # Fed, not constants: a graph holds no more than 2 GiB.
        fed = [tf.placeholder(tf.string if arrays[name].dtype == object else arrays[name].dtype) for name in names]
        whole = [""] * len(names)
        if version == "V2":
            op = tf.raw_ops.SaveV2(prefix=path, tensor_names=names, shape_and_slices=whole, tensors=fed)
        else:
            op = tf.raw_ops.SaveSlices(filename=path, tensor_names=names, shapes_and_slices=whole, data=fed)
        try:
            with tf.Session() as session:
                session.run(op, {placeholder: arrays[name] for placeholder, name in zip(fed, names)})
        except tf.errors.OpError as error:
            raise CheckpointError(
                f"write_checkpoint: expected to write {path}, got: {error.message.splitlines()[0].rstrip('.')}. "
                "Look for a full disk, or for a folder that may not be written to."
            ) from error


def _name_as_newest(folder: str, path: str) -> None:
    state = checkpoint_state(folder)
    # Those that are there stay listed: tf.train.get_checkpoint_state tells scripts all of them.
    others = [other for other in (state.all_model_checkpoint_paths if state else []) if other != path]
    tf.train.update_checkpoint_state(folder, path, others + [path])
