"""Tables to pack, and what was packed of them; for test_raw_tables.py and test_raw_numbers.py."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from hdf5_packing import all_rows

LABEL = ("--as", "table", "--label", "y")


def csv(path, text, encoding="utf-8"):
    path.write_bytes(text.encode(encoding))
    return path


def lines(*rows):
    return "\n".join(",".join(map(str, row)) for row in rows) + "\n"


def packed(layout, *fields):
    """The fields in the order of the rows, which the last column of x numbers."""
    order = np.argsort(all_rows(layout, "x")[0][:, -1])
    return [values[order] for values in all_rows(layout, *fields)]


def classes(layout):
    return json.loads(layout.arrays["y"].attrs["classes"])


def parquet(path, **columns):
    pyarrow.parquet.write_table(pa.table(columns), path)
    return path
