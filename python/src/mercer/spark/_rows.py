"""Rows of Arrow batches: vectors, arrays and plain columns as the compiled module takes them, and sentences for bad ones."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ..errors import DataError


class Place:
    """Where a batch is, to name its rows in errors."""

    def __init__(self, id_column=None):
        from pyspark import TaskContext

        context = TaskContext.get()
        self.partition = context.partitionId() + 1 if context is not None else 1
        self.id_column, self.rows = id_column, 0

    def row(self, batch, row):
        if self.id_column:
            return f"the row with {self.id_column} = {batch.column(self.id_column)[row].as_py()!r}"
        return f"row {self.rows + row + 1} of partition {self.partition}"

    def refuse(self, batch, row, what):
        raise DataError(f"{self.row(batch, row)}: {what}", "SparkRow")

    def after(self, batch):
        self.rows += batch.num_rows


def features(batch, columns, width, place):
    """The rows of a batch: a dense array, or row starts, columns, values and width.

    ``columns`` is one column of vectors or arrays, or several of numbers; ``width`` is None if any width will do.
    """
    for name in columns:
        column = batch.column(name)
        if column.null_count:
            row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
            place.refuse(batch, row, f"column {name!r} is null")
    kinds = [batch.column(name).type for name in columns]
    if len(columns) == 1 and pa.types.is_struct(kinds[0]):
        return _vectors(batch, columns[0], width, place)
    if len(columns) == 1 and (pa.types.is_list(kinds[0]) or pa.types.is_large_list(kinds[0])):
        return _arrays(batch, columns[0], width, place)
    rows = np.empty((batch.num_rows, len(columns)))
    for at, name in enumerate(columns):
        rows[:, at] = numbers(batch, name, place)
    if width is not None and width != len(columns):
        raise DataError(f"there are {len(columns)} columns of features; {width} are needed", "Width")
    return rows


def numbers(batch, name, place):
    """A plain column as f64, without nulls."""
    column = batch.column(name)
    if not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type) or pa.types.is_boolean(column.type)):
        raise DataError(f"column {name!r} has the type {column.type}; it must hold numbers", "SparkColumn")
    if column.null_count:
        row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        place.refuse(batch, row, f"column {name!r} is null")
    return column.to_numpy(zero_copy_only=False).astype(np.float64, copy=False)


def _flat(values):
    values = values.to_numpy(zero_copy_only=False)
    return values if values.dtype in (np.float32, np.float64) else values.astype(np.float64)


def _arrays(batch, name, width, place):
    column = batch.column(name)
    values = column.flatten()
    starts = column.offsets.to_numpy()
    lengths = np.diff(starts)
    if values.null_count:
        at = int(np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))[0])
        row = int(np.searchsorted(starts - starts[0], at, side="right")) - 1
        place.refuse(batch, row, f"entry {at - int(starts[row] - starts[0]) + 1} of column {name!r} is null")
    width = _check_widths(batch, name, lengths, width, place)
    return _flat(values).reshape(batch.num_rows, width)


def _check_widths(batch, name, found, width, place):
    if len(found) == 0:
        return width or 0
    width = int(found[0]) if width is None else width
    wrong = np.flatnonzero(found != width)
    if len(wrong):
        row = int(wrong[0])
        place.refuse(batch, row, f"column {name!r} holds {int(found[row])} values; {width} are needed")
    return width


def _vectors(batch, name, width, place):
    """Spark's vectors: structs of type, size, indices and values; type 1 is dense and has neither size nor indices."""
    column = batch.column(name)
    if {field.name for field in column.type} != {"type", "size", "indices", "values"}:
        raise DataError(f"column {name!r} has the type {column.type}; vectors, arrays or numbers are needed", "SparkColumn")
    dense = column.field("type").to_numpy(zero_copy_only=False) == 1
    lists = column.field("values")
    values, starts = _flat(lists.flatten()), lists.offsets.to_numpy()
    starts = starts - starts[0]
    lengths = np.diff(starts)
    if dense.all():
        width = _check_widths(batch, name, lengths, width, place)
        return values.reshape(batch.num_rows, width)
    sizes = column.field("size").fill_null(0).to_numpy(zero_copy_only=False)
    width = _check_widths(batch, name, np.where(dense, lengths, sizes), width, place)
    indices = column.field("indices").flatten().to_numpy(zero_copy_only=False)
    if dense.any():
        # Both kinds: dense rows get the columns 0, 1, ...
        own = np.arange(len(values), dtype=np.int32) - np.repeat(starts[:-1], lengths).astype(np.int32)
        own[np.repeat(~dense, lengths)] = indices
        indices = own
    return starts.astype(np.int32, copy=False), indices, values, width


def check_finite(batch, rows, columns, place):
    """Refuses values that are not finite, by row and column."""
    values = rows if isinstance(rows, np.ndarray) else rows[2]
    _refuse_first(batch, rows, ~np.isfinite(values), columns, place, "values must be finite")


def check_not_negative(batch, rows, columns, place):
    """Refuses negative values, by row and column."""
    values = rows if isinstance(rows, np.ndarray) else rows[2]
    _refuse_first(batch, rows, values < 0, columns, place, "additive kernels need values that are not negative")


def _refuse_first(batch, rows, bad, columns, place, reason):
    """Refuses the first bad value, if there is one."""
    if not bad.any():
        return
    values = rows if isinstance(rows, np.ndarray) else rows[2]
    if isinstance(rows, np.ndarray):
        row, at = (int(place[0]) for place in np.nonzero(bad))
        value = values[row, at]
    else:
        entry = int(np.flatnonzero(bad)[0])
        row, at = int(np.searchsorted(rows[0], entry, side="right")) - 1, int(rows[1][entry])
        value = values[entry]
    what = f"column {columns[at]!r}" if len(columns) > 1 else f"entry {at + 1} of column {columns[0]!r}"
    place.refuse(batch, row, f"{what} is {value}; {reason}")


def vectors(table):
    """Dense rows as a column of Spark's vectors."""
    table = np.ascontiguousarray(table, dtype=np.float64)
    rows, width = table.shape
    lists = pa.ListArray.from_arrays(np.arange(0, (rows + 1) * width, width, dtype=np.int32), table.ravel())
    kind = pa.array(np.ones(rows, dtype=np.int8))
    nulls = pa.nulls(rows, pa.int32()), pa.nulls(rows, pa.list_(pa.int32()))
    return pa.StructArray.from_arrays([kind, *nulls, lists], ["type", "size", "indices", "values"])
