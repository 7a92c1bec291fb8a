"""Packed blocks as the driver sees them: made once, kept by Spark, worked on by jobs that Spark may run again."""

from __future__ import annotations

import re
import threading
import uuid

import numpy as np
from pyspark import StorageLevel
from pyspark.errors import PySparkException

from .. import errors
from .._mercer import RowBlock
from ..errors import DataError, MercerError, TrainError
from . import _packing
from ._model import check_columns

#: Bytes of a block and of a group of blocks, about.
BLOCK_BYTES, GROUP_BYTES = 8 << 20, 128 << 20
#: At least so many groups, where there are rows for them: they are what tasks work on.
LEAST_GROUPS, LEAST_ROWS = 32, 64


def sentence(error):
    """The error of ours inside an error of Spark, or None."""
    found = re.findall(r"mercer\.errors\.(\w+): (.*)", str(error))
    if not found:
        return None
    kind, text = found[-1]
    return getattr(errors, kind, MercerError)(text.strip(), "Spark")


class Counts(threading.local):
    """What the trainings of one thread moved: several may use the same blocks at a time, each in a thread of its own."""

    def __init__(self):
        #: Bytes that jobs took along, each job counted once however many executors it goes to, and bytes that came back.
        self.sent, self.received, self.jobs = 0, 0, 0

    def all(self):
        return {"bytes_sent": self.sent, "bytes_received": self.received, "jobs": self.jobs}


class Session:
    """Jobs over one packed table: errors of tasks become ours, and what interrupts the driver ends its jobs."""

    def __init__(self, spark):
        self.spark, self.tag, self.counts = spark, f"mercer-{uuid.uuid4().hex}", Counts()

    def collect(self, frame, sent=0):
        self.counts.jobs, self.counts.sent = self.counts.jobs + 1, self.counts.sent + sent
        tag = f"{self.tag}-{threading.get_ident()}"
        self.spark.addTag(tag)
        try:
            table = frame.toArrow()
        except PySparkException as error:
            raise (sentence(error) or error) from None
        except BaseException:
            self.spark.interruptTag(tag)
            raise
        finally:
            self.spark.removeTag(tag)
        self.counts.received += table.nbytes
        return table


class Blocks:
    """The packed rows of a table.

    Rows are numbered block after block. ``classes`` are the distinct labels in increasing order, ``labels`` the place of each
    row's label among them, ``weights`` the weight of each row.
    """

    def __init__(self, dataset, source):
        check_columns(dataset, source.names())
        spark = dataset.sparkSession
        self.session = Session(spark)
        table = dataset.select(*source.names())
        self._survey(table, source)
        size = min(8 * self.rows * self.width, 12 * self.nonzeros + 8 * self.rows)
        groups = max(-(-size // GROUP_BYTES), min(LEAST_GROUPS, -(-self.rows // LEAST_ROWS)))
        blocks = max(groups, -(-size // BLOCK_BYTES))
        pieces = table.mapInArrow(_packing.deal(source, self.classes, self.width, blocks, groups), _packing.PIECE)
        made = pieces.groupBy("group").applyInArrow(_packing.gather(source.id_column), _packing.BLOCK)
        self.frame = made.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            self._read_labels()
        except BaseException:
            self.release()
            raise

    def _survey(self, table, source):
        records = self.session.collect(table.mapInArrow(_packing.survey(source), _packing.SURVEY)).to_pylist()
        if not records:
            raise DataError("the table has no rows", "NoExamples")
        widths = sorted({record["width"] for record in records})
        if len(widths) > 1:
            # Partitions differ: the row that has another width than most is named by its task.
            usual = max(widths, key=lambda width: sum(record["rows"] for record in records if record["width"] == width))
            self.session.collect(table.mapInArrow(_packing.survey(source, usual), _packing.SURVEY))
            raise DataError(f"rows have between {widths[0]} and {widths[-1]} features; all must have the same number", "Width")
        self.rows, self.width = sum(record["rows"] for record in records), widths[0]
        if not self.width:
            raise DataError("rows have no features", "NoFeatures")
        self.nonzeros = sum(record["nonzeros"] for record in records)
        self.classes = np.unique(np.concatenate([record["labels"] for record in records]))
        if len(self.classes) < 2:
            raise TrainError(f"all rows have the label {self.classes[0]:g}; two classes at least are needed", "OneClass")
        if len(self.classes) > _packing.MOST_CLASSES:
            raise TrainError(f"there are more than {_packing.MOST_CLASSES} labels; these are no classes", "TooManyClasses")
        self.low = np.min([np.frombuffer(record["low"]) for record in records], axis=0)
        self.high = np.max([np.frombuffer(record["high"]) for record in records], axis=0)

    def _read_labels(self):
        def heads(batches):
            for batch in batches:
                yield batch.select(["block", "labels", "weights"])

        table = self.session.collect(self.frame.mapInArrow(heads, "block int, labels binary, weights binary"))
        records = sorted(table.to_pylist(), key=lambda record: record["block"])
        labels = [np.frombuffer(record["labels"], dtype="<i4") for record in records]
        self.labels = np.concatenate(labels)
        self.weights = np.concatenate([np.frombuffer(record["weights"]) for record in records])
        #: Numbers of the blocks that have rows, and where the rows of each start.
        self.numbers = np.array([record["block"] for record in records])
        self.starts = np.concatenate([[0], np.cumsum([len(part) for part in labels])])

    def centre(self):
        """What is subtracted from both sides of differences: columns whose values lie together, far from zero."""
        middle = 0.5 * (self.low + self.high)
        is_far = np.abs(middle) > self.high - self.low
        return np.where(is_far, middle, 0.0) if is_far.any() else None

    def of(self, rows):
        """Increasing row numbers as pairs of a block's number and places in it."""
        cuts = np.searchsorted(rows, self.starts)
        for at, number in enumerate(self.numbers):
            if cuts[at] < cuts[at + 1]:
                yield int(number), rows[cuts[at] : cuts[at + 1]] - self.starts[at]

    def run(self, work, schema, sent=0):
        """The records that a job yields, in the order of blocks."""
        table = self.session.collect(self.frame.mapInArrow(work, schema), sent)
        return sorted(table.to_pylist(), key=lambda record: record["block"])

    def fetch(self, rows):
        """Some rows, by increasing number."""
        wanted = dict(self.of(rows))

        def select(batches):
            import pyarrow as pa

            for batch in batches:
                for number, bytes in zip(batch.column("block").to_pylist(), batch.column("rows")):
                    if number in wanted:
                        found = RowBlock.from_bytes(bytes.as_buffer().to_pybytes()).select(wanted[number]).to_bytes()
                        yield pa.RecordBatch.from_pydict({"block": pa.array([number], pa.int32()), "rows": [found]})

        records = self.run(select, "block int, rows binary", 8 * len(rows))
        return RowBlock.join([RowBlock.from_bytes(record["rows"]) for record in records])

    def values(self, make, sent=0):
        """One number for each row: ``make()`` gives a function of a block and its labels, in each task."""

        def compute(batches):
            import pyarrow as pa

            function = make()
            for batch in batches:
                for record in batch.to_pylist():
                    labels = np.frombuffer(record["labels"], dtype="<i4")
                    found = function(record["block"], RowBlock.from_bytes(record["rows"]), labels)
                    parts = {"block": pa.array([record["block"]], pa.int32()), "values": [found.tobytes()]}
                    yield pa.RecordBatch.from_pydict(parts)

        records = self.run(compute, "block int, values binary", sent)
        return np.concatenate([np.frombuffer(record["values"]) for record in records])

    def sums(self, make, sent=0):
        """Sums over all rows, and one number for each row: the function of ``make()`` gives both for a block.

        Sums of a group are made in the order of its blocks, those of groups in their order: the bits depend on nothing else.
        """

        def compute(batches):
            import pyarrow as pa

            function, group, total = make(), None, None

            def record(number, values, sums):
                parts = {"group": pa.array([group], pa.int32()), "block": pa.array([number], pa.int32())}
                return pa.RecordBatch.from_pydict({**parts, "values": [values], "sums": [sums]})

            for batch in batches:
                for block in batch.to_pylist():
                    if group is not None and block["group"] != group:
                        yield record(-1, b"", total.tobytes())
                        total = None
                    group = block["group"]
                    labels = np.frombuffer(block["labels"], dtype="<i4")
                    weights = np.frombuffer(block["weights"])
                    sums, values = function(block, RowBlock.from_bytes(block["rows"]), labels, weights)
                    total = sums if total is None else total + sums
                    if values is not None:
                        yield record(block["block"], values.tobytes(), b"")
            if total is not None:
                yield record(-1, b"", total.tobytes())

        records = self.run(compute, "group int, block int, values binary, sums binary", sent)
        parts = sorted((record for record in records if record["block"] < 0), key=lambda record: record["group"])
        total = np.zeros(len(np.frombuffer(parts[0]["sums"])))
        for part in parts:
            total = total + np.frombuffer(part["sums"])
        values = [np.frombuffer(record["values"]) for record in records if record["block"] >= 0]
        return total, np.concatenate(values) if values else None

    def release(self):
        self.frame.unpersist()
