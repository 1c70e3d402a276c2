"""Offline W&B files: a LevelDB log of W&B's own records."""

import json
import struct


def records_in(file):
    """W&B's records in an offline file, which is a LevelDB log."""
    from wandb.proto.wandb_internal_pb2 import Record

    content = file.read_bytes()
    header_bytes = 7
    block_bytes = 32768
    position = header_bytes
    parts = b""
    while position + header_bytes <= len(content):
        left_in_block = -position % block_bytes
        if left_in_block < header_bytes:  # a header never crosses blocks
            position += left_in_block
        length, kind = struct.unpack("<HB", content[position + 4 : position + header_bytes])
        begin = position + header_bytes
        position = begin + length
        parts += content[begin:position]
        if kind in (1, 4):  # whole, or the last part
            record = Record.FromString(parts)
            parts = b""
            yield record


def rows_in(file):
    """What was logged, a dict for each row."""
    for record in records_in(file):
        yield {
            "/".join(item.nested_key) or item.key: json.loads(item.value_json)
            for item in record.history.item
        }


def logged_steps(file):
    """The optimizer steps of the rows with a training loss."""
    return [row["trainer/global_step"] + 1 for row in rows_in(file) if "train/loss" in row]
