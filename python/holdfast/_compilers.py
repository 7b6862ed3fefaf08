"""Compilers that came with wheels: NVRTC of holdfast[cuda], clang of holdfast[compiler]."""

import os
import sys

from holdfast import _core

# Below a folder of sys.path; those that the loader, PATH and CXX lead to come first.
_ZIG = os.path.join("ziglang", "zig")
_NVRTC = (os.path.join("nvidia", "cu13", "lib"), os.path.join("nvidia", "cuda_nvrtc", "lib"))


def add_all() -> None:
    """Tells the library where they are. A few looks at the file system; nothing is imported."""
    seen = set()
    for folder in sys.path:
        if folder in seen or not folder.endswith("-packages"):
            continue
        seen.add(folder)
        zig = os.path.join(folder, _ZIG)
        if os.path.exists(zig):
            _core._add_cpp_compiler([zig, "c++"])
        for place in _NVRTC:
            nvrtc = os.path.join(folder, place)
            if os.path.isdir(nvrtc):
                _core._add_nvrtc_folder(nvrtc)
