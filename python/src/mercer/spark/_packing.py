"""Rows dealt to packed blocks in tasks: the same blocks for the same rows, however the table is partitioned.

A row's key is made of its id, or of its content; the key says its block, and rows of a block are in the order of their keys. Blocks
come in groups, which one task makes and which stay together. What the driver does with blocks is in ``_blocks``.
"""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa

from .._mercer import RowBlock
from ..errors import DataError
from . import _rows

#: Rows of a task are dealt when they take so many bytes.
DEALT = 16 << 20
#: More labels than this are no classes.
MOST_CLASSES = 1000
SURVEY = "rows long, width long, nonzeros long, labels array<double>, low binary, high binary"
PIECE = "group int, block int, rows binary, labels binary, weights binary, keys binary"
BLOCK = "group int, block int, rows binary, labels binary, weights binary"


class Source:
    """Where rows, labels, weights and ids are in a table."""

    def __init__(self, columns, label, weight, id_column, may_be_negative=True):
        self.columns, self.label, self.weight, self.id_column = columns, label, weight, id_column
        self.may_be_negative = may_be_negative

    def names(self):
        names = [*self.columns, self.label, self.weight, self.id_column]
        return list(dict.fromkeys(name for name in names if name))

    def read(self, batch, width, place):
        """Rows, labels and weights of a batch, checked."""
        rows = _rows.features(batch, self.columns, width, place)
        _rows.check_finite(batch, rows, self.columns, place)
        if not self.may_be_negative:
            _rows.check_not_negative(batch, rows, self.columns, place)
        labels = self._numbers(batch, self.label, place)
        weights = np.ones(batch.num_rows)
        if self.weight:
            weights = self._numbers(batch, self.weight, place)
            if (weights < 0).any():
                row = int(np.argmax(weights < 0))
                place.refuse(batch, row, f"column {self.weight!r} is {weights[row]}; weights must not be negative")
        return rows, labels, weights

    def _numbers(self, batch, name, place):
        found = _rows.numbers(batch, name, place)
        bad = ~np.isfinite(found)
        if bad.any():
            row = int(np.argmax(bad))
            place.refuse(batch, row, f"column {name!r} is {found[row]}; it must be finite")
        return found

    def keys(self, batch, block, labels, weights, place):
        """Two words for each row, the first well mixed."""
        if not self.id_column:
            return block.digests(labels, weights)
        column = batch.column(self.id_column)
        if column.null_count:
            row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
            place.refuse(batch, row, f"column {self.id_column!r} is null")
        if pa.types.is_integer(column.type):
            numbers = column.to_numpy(zero_copy_only=False).astype(np.int64).view(np.uint64)
            return np.column_stack([_mixed(numbers), numbers])
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            digests = [hashlib.blake2b(text.encode(), digest_size=16).digest() for text in column.to_pylist()]
            return np.frombuffer(b"".join(digests), dtype="<u8").reshape(-1, 2)
        raise DataError(f"column {self.id_column!r} has the type {column.type}; ids are whole numbers or texts", "SparkColumn")


def _mixed(words):
    """The finaliser of SplitMix64."""
    words = words + np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def survey(source, expected=None):
    """A task that counts rows and says widths, labels and ranges of columns: one record for each task."""

    def run(batches):
        place, rows, nonzeros, width = _rows.Place(source.id_column), 0, 0, expected
        labels, low, high = np.empty(0), np.empty(0), np.empty(0)
        for batch in batches:
            if not batch.num_rows:
                continue
            values, own, _ = source.read(batch, width, place)
            block = RowBlock(values)
            width, rows, nonzeros = block.columns, rows + len(block), nonzeros + block.nonzeros
            if len(labels) <= MOST_CLASSES:
                labels = np.union1d(labels, own)
            least, most = block.column_ranges()
            low = np.minimum(low, least) if len(low) else least
            high = np.maximum(high, most) if len(high) else most
            place.after(batch)
        if rows:
            record = {"rows": rows, "width": width, "nonzeros": nonzeros, "labels": labels[: MOST_CLASSES + 1].tolist()}
            yield pa.RecordBatch.from_pylist([{**record, "low": low.tobytes(), "high": high.tobytes()}])

    return run


def deal(source, classes, width, blocks, groups):
    """A task that deals its rows to blocks: pieces of blocks."""

    def run(batches):
        place, held, size = _rows.Place(source.id_column), [], 0
        for batch in batches:
            if not batch.num_rows:
                continue
            values, labels, weights = source.read(batch, width, place)
            rows = RowBlock(values)
            held.append((rows, np.searchsorted(classes, labels), weights, source.keys(batch, rows, labels, weights, place)))
            size += batch.nbytes
            place.after(batch)
            if size >= DEALT:
                yield _pieces(held, blocks, groups)
                held, size = [], 0
        if held:
            yield _pieces(held, blocks, groups)

    return run


def _pieces(held, blocks, groups):
    rows = RowBlock.join([part[0] for part in held])
    labels, weights, keys = (np.concatenate([part[at] for part in held]) for at in (1, 2, 3))
    block_of = (keys[:, 0] % np.uint64(blocks)).astype(np.int64)
    order = np.argsort(block_of, kind="stable")
    starts = np.flatnonzero(np.diff(block_of[order], prepend=-1))
    parts = np.split(order, starts[1:])
    found = [int(block_of[part[0]]) for part in parts]
    columns = {
        "group": pa.array([block * groups // blocks for block in found], pa.int32()),
        "block": pa.array(found, pa.int32()),
        "rows": pa.array([rows.select(part).to_bytes() for part in parts], pa.binary()),
        "labels": pa.array([labels[part].astype("<i4").tobytes() for part in parts], pa.binary()),
        "weights": pa.array([weights[part].astype("<f8").tobytes() for part in parts], pa.binary()),
        "keys": pa.array([keys[part].astype("<u8").tobytes() for part in parts], pa.binary()),
    }
    return pa.RecordBatch.from_pydict(columns)


def gather(id_column):
    """A task that makes the blocks of a group from their pieces, in the order of blocks and keys."""

    def run(table):
        pieces = {}
        for piece in table.to_pylist():
            pieces.setdefault(piece["block"], []).append(piece)
        records = [_block(pieces[block], id_column) for block in sorted(pieces)]
        schema = [("group", pa.int32()), ("block", pa.int32())]
        schema += [(name, pa.binary()) for name in ("rows", "labels", "weights")]
        return pa.Table.from_pylist(records, pa.schema(schema))

    return run


def _block(pieces, id_column):
    keys = np.concatenate([np.frombuffer(piece["keys"], dtype="<u8").reshape(-1, 2) for piece in pieces])
    order = np.lexsort((keys[:, 1], keys[:, 0]))
    if id_column:
        ordered = keys[order]
        again = np.flatnonzero((ordered[1:] == ordered[:-1]).all(axis=1))
        if len(again):
            key = ordered[again[0]]
            is_number = key[0] == _mixed(key[1:])[0]
            which = f" {np.int64(key[1].astype(np.int64))}" if is_number else ""
            raise DataError(f"two rows have the same id{which} in column {id_column!r}; ids must be unique", "SparkId")
    rows = RowBlock.join([RowBlock.from_bytes(piece["rows"]) for piece in pieces]).select(order)
    labels = np.concatenate([np.frombuffer(piece["labels"], dtype="<i4") for piece in pieces])[order]
    weights = np.concatenate([np.frombuffer(piece["weights"], dtype="<f8") for piece in pieces])[order]
    return {
        "group": pieces[0]["group"],
        "block": pieces[0]["block"],
        "rows": rows.to_bytes(),
        "labels": labels.tobytes(),
        "weights": weights.tobytes(),
    }
