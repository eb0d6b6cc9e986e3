"""Reads traces with sparse gradients as if they were dense, so that rows in any order, and doubled ones, can be compared."""

from parity.trace import Quantity, TensorFile, TensorKey, Trace, parse_key
from parity.trace.arrays import Array, dense_rows
from parity.trace.checksum import Part
from parity.trace.keys import ROW_INDICES, ROW_VALUES


class DenseTrace(Trace):
    """A trace whose steps show ``grad/table`` where the files hold ``grad/table.values`` and ``grad/table.indices``."""

    def step(self, number: int) -> TensorFile:
        """Returns the quantities of step `number` as a lazy file."""
        return DenseFile(super().step(number), self)


class PartTrace(DenseTrace):
    """A trace of a run of ours that holds no weights before its first step: its tables are as large as it says."""

    def table_shape(self, variable: str) -> tuple[int, ...]:
        """Returns the shape of a variable."""
        return tuple(self.variables[variable]["shape"])


class DenseFile(TensorFile):
    """A file of tensors in which sparse gradients are read as dense ones, rows that are there twice added up.

    Args:
      file: as it was written.
      trace: that it is of, which knows the shapes of tables.
    """

    def __init__(self, file: TensorFile, trace: Trace) -> None:
        self._file, self._trace = file, trace

    def names(self, *quantities: Quantity) -> list[str]:
        """Returns the names, all of them or those of some quantities, in the order of the file."""
        found = []
        for text in self._file.names(*quantities):
            name, _, part = text.rpartition(".")
            if not self._is_sparse(name):
                found.append(text)
            elif "." + part == ROW_VALUES:
                found.append(name)
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._file or self._is_sparse(str(name))

    def shape(self, name: str | TensorKey) -> tuple[int, ...]:
        """Returns the shape of a tensor."""
        name = str(name)
        return self._dense_shape(name) if self._is_sparse(name) else self._file.shape(name)

    def dtype(self, name: str | TensorKey) -> str:
        """Returns the dtype of a tensor as the format spells it."""
        name = str(name)
        return self._file.dtype(name + ROW_VALUES if self._is_sparse(name) else name)

    def read(self, name: str | TensorKey) -> Array:
        """Reads a tensor."""
        name = str(name)
        if not self._is_sparse(name):
            return self._file.read(name)
        values, indices = (self._file.read(name + part) for part in (ROW_VALUES, ROW_INDICES))
        return dense_rows(values, indices, self._dense_shape(name))

    def part_of(self, array: Array) -> Part | None:
        """Returns what checks an array while it is read, see `TensorFile.part_of`; of what was made dense nothing."""
        return self._file.part_of(array)

    def _is_sparse(self, name: str) -> bool:
        # Asked of one name at a time: files of many tensors are opened for one of them, again and again.
        return name + ROW_VALUES in self._file and name + ROW_INDICES in self._file

    def _dense_shape(self, name: str) -> tuple[int, ...]:
        return self._trace.table_shape(parse_key(name).name)
