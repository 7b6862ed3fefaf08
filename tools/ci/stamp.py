#!/usr/bin/env python3
"""Remembers that a check passed for exactly this content.

  stamp.py check NAME [--with TEXT]... PATH...   exit 0 if NAME passed with this content, else 1
  stamp.py set   NAME [--with TEXT]... PATH...   NAME passed with this content

PATHs are files or folders below the root of the checkout; their names and bytes are the content, and
so are each TEXT (the versions of tools, say) and the versions of the packages in use. Stamps are empty
files outside the checkout, in $HOLDFAST_STAMPS or ~/.cache/holdfast/stamps, so that clones share them;
without a stamp everything runs.
"""
import argparse
import hashlib
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def folder() -> pathlib.Path:
    given = os.environ.get("HOLDFAST_STAMPS")
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return pathlib.Path(given) if given else pathlib.Path(cache) / "holdfast" / "stamps"


def packages() -> bytes:
    """What the system's package manager has installed; nothing where there is none."""
    try:
        return subprocess.run(["dpkg-query", "-W"], capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return b""


def add(digest, part: bytes) -> None:
    digest.update(len(part).to_bytes(8, "little"))
    digest.update(part)


def files_below(path: pathlib.Path):
    if path.is_file():
        return [path]
    if not path.is_dir():
        sys.exit(f"stamp: there is no {path}")
    return sorted(p for p in path.rglob("*") if p.is_file() and "__pycache__" not in p.parts)


def key(name: str, texts, paths) -> str:
    digest = hashlib.sha256()
    for text in (name, *texts):
        add(digest, text.encode())
    add(digest, packages())
    for path in paths:
        for file in files_below(ROOT / path):
            add(digest, str(file.relative_to(ROOT)).encode())
            add(digest, file.read_bytes())
    return digest.hexdigest()


def stamp_file(name: str, digest: str) -> pathlib.Path:
    return folder() / name / digest


def put(path: pathlib.Path) -> None:
    """A stamp that cannot be written costs time later and nothing else."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    except OSError as error:
        print(f"note: no stamp was kept: {error}", file=sys.stderr)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=["check", "set"])
    parser.add_argument("name")
    parser.add_argument("--with", dest="texts", action="append", default=[])
    parser.add_argument("paths", nargs="*")
    arguments = parser.parse_intermixed_args()
    path = stamp_file(arguments.name, key(arguments.name, arguments.texts, arguments.paths))
    if arguments.verb == "check":
        return 0 if path.exists() else 1
    put(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
