"""Snapshots read by the format's description alone: no code of the program, no sums."""

import array
import glob
import json
import os
import re
import struct

KINDS = {"U64": "Q", "U32": "I", "U8": "B", "F32": "f", "F64": "d"}


def read(path):
    """{name: (shape, numbers)}"""
    with open(path, "rb") as f:
        (n,) = struct.unpack("<Q", f.read(8))
        head = json.loads(f.read(n))
        head.pop("__metadata__", None)
        tensors = {}
        for name, entry in head.items():
            begin, end = entry["data_offsets"]
            f.seek(8 + n + begin)
            numbers = array.array(KINDS[entry["dtype"]], f.read(end - begin))
            count = 1
            for dim in entry["shape"]:
                count *= dim
            assert count == len(numbers), f"{path}: {name} has {len(numbers)}, not {count}"
            tensors[name] = (entry["shape"], numbers)
        return tensors


def parts(folder):
    """The folders server-<i> of one snapshot."""
    return sorted(glob.glob(os.path.join(folder, "server-*")))


def blocks(tensors):
    """{number: its numbers} of a dense table's blocks, state left out."""
    found = {}
    for lists in slots(tensors).values():
        numbers = list(lists["weights"][1])
        heads = list(lists["blocks"][1])
        for number, n_elems in zip(heads[0::4], heads[1::4]):
            assert number not in found, f"block {number} is there twice"
            found[number], numbers = numbers[:n_elems], numbers[n_elems:]
        assert numbers == [], "more weights than the blocks have"
    return found


def slots(tensors):
    """{slot: {what: (shape, numbers)}} of a sparse table."""
    found = {}
    for name, tensor in tensors.items():
        match = re.fullmatch(r"slot\.(\d+)\.(\w+)", name)
        if match:
            found.setdefault(int(match.group(1)), {})[match.group(2)] = tensor
    return found


def names(folders):
    """The tables that any part has."""
    return sorted({os.path.basename(path).removesuffix(".safetensors")
                   for folder in folders for path in glob.glob(f"{folder}/*.safetensors")})
