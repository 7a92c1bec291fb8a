"""Writes the Arrow and Parquet files of this folder: `python make_tables.py` (pyarrow, polars)."""

import pathlib

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as parquet

here = pathlib.Path(__file__).parent
table = pa.table(
    {
        "name": ["a", "b", "c", "d", "e"],
        "i1": pa.array([-1, None, 3, 4, 5], pa.int8()),
        "u8": pa.array([200, 1, 2, 3, 4], pa.uint8()),
        "i64": pa.array([4_000_000_000, -5, 6, 7, 8], pa.int64()),
        "f2": pa.array(np.array([0.5, -2.5, 0, 1, 2], np.float16)),
        "f4": pa.array([0.25, None, None, 1.5, 2.5], pa.float32()),
        "f8": pa.array([1.0, 2.0, 3.0, 4.0, 5.0], pa.float64()),
        "flag": pa.array([True, False, True, None, True]),
        "colour": pa.array(["red", "blue", None, "red", "blue"]).dictionary_encode(),
        "label": pa.array(["yes", "no", "yes", "no", "yes"], pa.large_utf8()),
    }
)
table = table.set_column(5, "f4", pa.array([0.25, 0.1, None, 1.5, 2.5], pa.float64()))
batches = table.to_batches(max_chunksize=3)
for name, start in [("types.arrow", pa.ipc.new_file), ("types.arrows", pa.ipc.new_stream)]:
    with start(here / name, table.schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
for codec in ["lz4", "zstd"]:
    feather.write_feather(table, here / f"types-{codec}.feather", compression=codec)
parts = table.drop_columns(["f2"]).append_column("f2", table["f2"].cast(pa.float32()))
parts = parts.select(table.column_names)
for name, options in [
    ("types.parquet", {}),
    ("types-plain.parquet", {"use_dictionary": False, "compression": "none", "row_group_size": 2}),
    ("types-v2.parquet", {"data_page_version": "2.0", "compression": "zstd"}),
]:
    parquet.write_table(parts, here / name, **options)
lists = pa.table({"x": [1.0], "tags": [[1, 2]]})
with pa.ipc.new_file(here / "lists.arrow", lists.schema) as writer:
    writer.write_table(lists)
parquet.write_table(lists, here / "lists.parquet")

# Polars writes words as views: short ones in place, long ones in further buffers.
frame = pl.DataFrame(
    {
        "name": ["a", "b", "c", "d", "e"],
        "size": [1.0, 2.0, None, 4.0, 5.0],
        "colour": ["red", "a blue of more than twelve bytes", None, "red", "blue"],
        "raw": [b"x", b"more than twelve bytes here", b"x", b"y", b"y"],
        "kind": pl.Series(["up", "down", "up", "up", "down"], dtype=pl.Categorical),
        "label": ["yes", "no", "yes", "no", "certainly, or so it seems"],
    }
)
frame.write_ipc(here / "views.arrow", compression="uncompressed")
frame.write_ipc(here / "views-zstd.arrow", compression="zstd")
frame.write_parquet(here / "views.parquet", compression="snappy")
