"""Files: .npy, .npz and .safetensors."""

import math
import os
import struct

from holdfast import _core
from holdfast._core import array, async_eval

__all__ = ["load", "save", "save_safetensors", "savez"]

_NPY = {
    "|b1": "bool_",
    "|i1": "int8",
    "|u1": "uint8",
    "<i2": "int16",
    "<u2": "uint16",
    "<i4": "int32",
    "<u4": "uint32",
    "<i8": "int64",
    "<u8": "uint64",
    "<f2": "float16",
    "<f4": "float32",
    "<f8": "float64",
}
_SAFETENSORS = {
    "BOOL": "bool_",
    "I8": "int8",
    "U8": "uint8",
    "I16": "int16",
    "U16": "uint16",
    "I32": "int32",
    "U32": "uint32",
    "I64": "int64",
    "U64": "uint64",
    "F16": "float16",
    "BF16": "bfloat16",
    "F32": "float32",
    "F64": "float64",
}


class _Reading:
    """What goes wrong with a file that is not what its name says is a ValueError that names it."""

    def __init__(self, what: str, kind: str):
        self.what, self.kind = what, kind

    def __enter__(self):
        pass

    def __exit__(self, kind, error, _):
        wrong = (AttributeError, LookupError, MemoryError, RecursionError, SyntaxError, TypeError,
                 struct.error)  # fmt: skip
        if kind is not None and issubclass(kind, wrong):
            raise ValueError(f"{self.what} is not a {self.kind} file: {error}") from error


def _code_of(a: array, codes: dict[str, str], what: str) -> str:
    for code, name in codes.items():
        if getattr(_core, name) is a.dtype:
            return code
    raise ValueError(f"{what} files lack {a.dtype}; use astype(hf.float32) first")


def _with_ending(file: str | os.PathLike, ending: str) -> str:
    path = os.fspath(file)
    return path if path.endswith(ending) else path + ending


class _Replacing:
    """A file that appears whole or not at all."""

    def __init__(self, path: str):
        self.path = path
        self.part = f"{path}.{os.getpid()}.part"

    def __enter__(self):
        self.file = open(self.part, "wb")
        return self.file

    def __exit__(self, kind, *_):
        self.file.close()
        if kind is None:
            os.replace(self.part, self.path)
        else:
            os.remove(self.part)


def save(file: str | os.PathLike, arr: array) -> None:
    """Writes a .npy file; the ending is added where it is missing."""
    _core._save_npy(_with_ending(file, ".npy"), arr)


def savez(file: str | os.PathLike, *args: array, **kwargs: array) -> None:
    """Writes several arrays to a .npz file: by keyword, or as arr_0, arr_1, ..."""
    named = {f"arr_{i}": a for i, a in enumerate(args)} | kwargs
    async_eval(*named.values())
    import zipfile  # these modules take longer to import than all of holdfast

    with _Replacing(_with_ending(file, ".npz")) as out:
        with zipfile.ZipFile(out, "w") as archive:
            for name, a in named.items():
                archive.writestr(name + ".npy", _npy_header(a) + a.tobytes())


def save_safetensors(
    file: str | os.PathLike, arrays: dict[str, array], metadata: dict[str, str] | None = None
) -> None:
    """Writes arrays, by name, to a .safetensors file."""
    import json

    async_eval(*arrays.values())
    header: dict = {"__metadata__": metadata} if metadata else {}
    at = 0
    for name, a in arrays.items():
        header[name] = {
            "dtype": _code_of(a, _SAFETENSORS, ".safetensors"),
            "shape": list(a.shape),
            "data_offsets": [at, at + a.nbytes],
        }
        at += a.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with _Replacing(_with_ending(file, ".safetensors")) as out:
        out.write(struct.pack("<Q", len(text)))
        out.write(text)
        for a in arrays.values():
            out.write(a.tobytes())


def load(
    file: str | os.PathLike, *, return_metadata: bool = False, stream=None
) -> array | dict[str, array] | tuple[dict[str, array], dict[str, str]]:
    """Reads a .npy file (an array), or a .npz or .safetensors file (a dict of arrays).

    With return_metadata, a .safetensors file gives a tuple: the arrays and their metadata."""
    path = os.fspath(file)
    if path.endswith(".safetensors"):
        with _Reading(path, ".safetensors"):
            arrays, metadata = _load_safetensors(path)
        return (arrays, metadata) if return_metadata else arrays
    if path.endswith(".npz"):
        import zipfile

        with zipfile.ZipFile(path) as archive:
            arrays = {}
            for name in archive.namelist():
                with _Reading(f"{path}: {name}", ".npy"):
                    arrays[name.removesuffix(".npy")] = _from_npy(
                        archive.read(name), f"{path}: {name}"
                    )
            return arrays
    return _core._load_npy(path, stream=stream)


def _npy_header(a: array) -> bytes:
    shape = ", ".join(str(n) for n in a.shape) + ("," if a.ndim == 1 else "")
    code = _code_of(a, _NPY, ".npz")
    text = f"{{'descr': '{code}', 'fortran_order': False, 'shape': ({shape}), }}"
    # The elements begin at a multiple of 64 bytes.
    text += " " * (-(len(text) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode("latin1")


def _from_npy(data: bytes, what: str) -> array:
    import ast

    if data[:6] != b"\x93NUMPY":
        raise ValueError(f"{what} is not an .npy file")
    wide = data[6] >= 2
    start = 12 if wide else 10
    (length,) = struct.unpack("<I" if wide else "<H", data[8:start])
    header = ast.literal_eval(data[start : start + length].decode("latin1"))
    name = _NPY.get(header["descr"])
    if name is None:
        raise ValueError(f"{what} has elements of type {header['descr']}, which no dtype has")
    shape = tuple(header["shape"])
    if header["fortran_order"]:
        shape = shape[::-1]
    dtype = getattr(_core, name)
    begin = start + length
    made = _core._from_bytes(data[begin : begin + math.prod(shape) * dtype.size], dtype, shape)
    return made.T if header["fortran_order"] else made


def _load_safetensors(path: str) -> tuple[dict[str, array], dict[str, str]]:
    import json

    size = os.path.getsize(path)
    with open(path, "rb") as file:
        head = file.read(8)
        length = struct.unpack("<Q", head)[0] if len(head) == 8 else size
        if length > size - 8:
            raise ValueError(f"{path} is not a .safetensors file")
        header = json.loads(file.read(length))
        metadata = header.pop("__metadata__", {})
        arrays = {}
        for name, entry in header.items():
            begin, end = entry["data_offsets"]
            dtype = _SAFETENSORS.get(entry["dtype"])
            if dtype is None:
                raise ValueError(f"{path}: '{name}' is of {entry['dtype']}, which no dtype is")
            if not 0 <= begin <= end <= size - 8 - length:
                raise ValueError(f"{path}: '{name}' lies outside the file")
            file.seek(8 + length + begin)
            data = file.read(end - begin)
            arrays[name] = _core._from_bytes(data, getattr(_core, dtype), entry["shape"])
    return arrays, metadata
