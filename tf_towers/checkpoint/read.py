"""Reads checkpoints of `tf.train.Saver` into named arrays."""

import os
import re
from typing import Any, Optional

import tensorflow.compat.v1 as tf

from parity.trace.arrays import Array, Tensors
from parity.trace.safetensors import Path
from tf_towers.errors import CheckpointError

# The files of one V2 checkpoint: an index, shards of data, and the graph; V1 is one file without an ending.
PART = re.compile(r"\.(index|meta|data-\d+-of-\d+)$")
STATE_FILE = "checkpoint"


def read_checkpoint(path: Path) -> Tensors:
    """Reads every variable of a checkpoint, whatever graph it came from: weights, slots, averages, statistics, step.

    Tables of either format carry checksums, which are checked; nothing in a file is executed.

    Args:
      path: the prefix of a V2 checkpoint ("model.ckpt-20"), a V1 file, or a folder with the state file "checkpoint",
        whose newest checkpoint is taken, also where the folder has been moved since.

    Returns:
      Dict of variable name, as the checkpoint has it, to array in the variable's shape and dtype, sorted; strings are
      arrays of bytes with dtype object. A variable that was saved in slices is put together.

    Raises:
      CheckpointError: there is no checkpoint, or it is damaged or cut short.

    Counterpart: torch_ddp.checkpoint.read_whole
    """
    prefix = _prefix(str(path))
    _refuse_what_is_no_file(prefix)
    # The reader says what went wrong in an exception of TensorFlow's, or in one of Python's for some codes.
    try:
        reader = tf.train.load_checkpoint(prefix)
        shapes = reader.get_variable_to_shape_map()
    except (tf.errors.OpError, IndexError, RuntimeError) as error:
        raise CheckpointError(
            f"read_checkpoint: expected a checkpoint at {prefix}, got: {_first_line(error)}. "
            "Name a V2 prefix, a V1 file, or the folder of either; copy it again where it is damaged."
        ) from error
    return {name: _tensor(reader, name, prefix) for name in sorted(shapes)}


def _prefix(path: str) -> str:
    if PART.search(path):
        raise CheckpointError(
            f"read_checkpoint: expected the prefix of a checkpoint, got one of its files, {path}. "
            f"Name {PART.sub('', path)}."
        )
    if os.path.isdir(path):
        return _newest(path)
    if not (os.path.isfile(path) or os.path.isfile(path + ".index")):
        raise CheckpointError(
            f"read_checkpoint: expected a checkpoint at {path}, got neither that file nor {path}.index. "
            "Name a V2 prefix, a V1 file, or the folder of either."
        )
    return path


def _refuse_what_is_no_file(prefix: str) -> None:
    """Raises CheckpointError where a pipe, a device or a folder has the name of a part: TensorFlow would wait for it."""
    folder, name = os.path.split(prefix)
    for each in sorted(os.listdir(folder or ".")):
        path = os.path.join(folder, each)
        if PART.sub("", each) == name != each and not os.path.isfile(path):
            raise CheckpointError(
                f"read_checkpoint: expected a file at {path}, got another thing. Copy the checkpoint again."
            )


def _newest(folder: str) -> str:
    state = checkpoint_state(folder)
    if state is None or not state.model_checkpoint_path:
        raise CheckpointError(
            f"read_checkpoint: expected a readable state file {STATE_FILE!r} in the folder {folder}, got none. "
            "Name the checkpoint itself: a V2 prefix or a V1 file."
        )
    # The state file often holds the absolute path of the machine that wrote it.
    named = state.model_checkpoint_path
    here = os.path.join(folder, os.path.basename(named))
    # First where it was written, then beside the state file: trainings are moved with their whole folder.
    for path in (named, here):
        if os.path.isfile(path) or os.path.isfile(path + ".index"):
            return path
    raise CheckpointError(
        f"read_checkpoint: expected {os.path.basename(named)}, which {os.path.join(folder, STATE_FILE)} names, in {folder}, "
        "got no such checkpoint. Copy it there, or name another."
    )


def checkpoint_state(folder: str) -> Any:
    """Returns what the state file of a folder says, a `CheckpointState`, or None where there is none that can be read."""
    try:
        return tf.train.get_checkpoint_state(folder)
    except (tf.errors.OpError, UnicodeDecodeError):
        return None


def _tensor(reader: Any, name: str, prefix: str) -> Array:
    try:
        return reader.get_tensor(name)
    except (tf.errors.OpError, IndexError, RuntimeError) as error:
        restored = _restored(prefix, name, reader.get_variable_to_dtype_map()[name])
        if restored is not None:
            return restored
        raise CheckpointError(
            f"read_checkpoint: expected to read {name} of {prefix}, got: {_first_line(error)}. "
            "Copy the checkpoint again, all of its files."
        ) from error


def _restored(prefix: str, name: str, dtype: Any) -> Optional[Array]:
    # The op of a Saver puts slices of a V1 file together and takes half precision, both of which the reader refuses.
    # V2 has no file of its prefix alone.
    if not os.path.isfile(prefix):
        return None
    try:
        with tf.Graph().as_default(), tf.Session() as session:
            return session.run(tf.raw_ops.Restore(file_pattern=prefix, tensor_name=name, dt=dtype))
    except tf.errors.OpError:
        return None


def _first_line(error: BaseException) -> str:
    lines = (getattr(error, "message", None) or str(error)).strip().splitlines()
    # TensorFlow's messages go on with the graph's node and its Python traceback.
    return lines[0].rstrip(".") if lines else type(error).__name__
