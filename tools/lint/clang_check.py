#!/usr/bin/env python3
"""Runs one of clang's checks on sources of the dev build.

  clang_check.py tidy [--seconds N] [FILE...]            clang-tidy, with .clang-tidy
  clang_check.py thread-safety [--seconds N] [FILE...]   -Wthread-safety: which mutex guards what

FILEs are relative to the root; one per line on standard input where none is named. A file that passed
before with the same content, its headers and tools included, is not checked again (tools/ci/stamp.py).
For thread-safety, files are checked several at a time, as one source: headers are read once for all.
A file that was not checked when N seconds were over is named, and the check fails.
"""
import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "dev"
sys.path.insert(0, str(ROOT / "tools" / "ci"))
import stamp  # noqa: E402

TOOLS = {"tidy": "clang-tidy-16", "thread-safety": "clang++-16"}


def without_precompiled_header(arguments):
    """clang cannot read GCC's; and so every file is checked with what it includes itself."""
    kept, skip = [], False
    for argument in arguments:
        if skip:
            skip = False
        elif argument == "-include":
            skip = True
        elif argument not in ("-Winvalid-pch", "-fpch-preprocess"):
            kept.append(argument)
    return kept


def sources_of(file: pathlib.Path):
    """The source itself, or those that a file of the build includes (holdfast_join)."""
    if not file.is_relative_to(BUILD / "joined"):
        return [file]
    return [ROOT / name for name in re.findall(r'#include "([^"]*)"', file.read_text())]


def commands():
    """file -> compiler arguments, without launcher, output and dependency file; the same whether
    sources are compiled one by one or joined."""
    result = {}
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        if entry["file"].endswith(".c"):
            continue  # a user of the C API
        arguments = shlex.split(entry["command"])
        compiler = next(i for i, a in enumerate(arguments)
                        if os.path.basename(a).startswith(("c++", "g++", "clang++")))
        arguments = without_precompiled_header(arguments[compiler:])
        output = arguments.index("-o")
        del arguments[output:output + 2]
        for file in sources_of(pathlib.Path(entry["file"])):
            if file.is_relative_to(ROOT) and not file.is_relative_to(ROOT / "build"):
                result[str(file.relative_to(ROOT))] = [
                    str(file) if a == entry["file"] else a for a in arguments
                    if a not in ("-Wno-subobject-linkage", "-Wno-shadow")]
    return result


def write_database(database) -> pathlib.Path:
    folder = BUILD / "lint"
    folder.mkdir(parents=True, exist_ok=True)
    entries = [{"directory": str(BUILD), "file": str(ROOT / file), "arguments": arguments}
               for file, arguments in database.items()]
    (folder / "compile_commands.json").write_text(json.dumps(entries))
    return folder


class Contents:
    """The bytes of the project's files, as digests; each is read once."""

    def __init__(self):
        self._read = {}

    def _look(self, path: pathlib.Path):
        """(digest, the project's files that it includes)"""
        if path not in self._read:
            data = path.read_bytes()
            included = []
            for name in re.findall(rb'^ *# *include ["<]([^">]*)[">]', data, re.MULTILINE):
                name = name.decode()
                places = [ROOT / "src" / name.removeprefix("holdfast/"), ROOT / "include" / name,
                          path.parent / name, ROOT / "tools" / name, BUILD / "text" / name,
                          BUILD / "spirv" / name]
                included += [place for place in places if place.is_file()][:1]
            self._read[path] = (hashlib.sha256(data).digest(), included)
        return self._read[path]

    def key(self, parts, file: str) -> str:
        found, todo = set(), [ROOT / file]
        while todo:
            path = todo.pop()
            if path not in found:
                found.add(path)
                todo += self._look(path)[1]
        whole = hashlib.sha256()
        for part in parts:
            stamp.add(whole, part)
        for path in sorted(found):
            stamp.add(whole, os.path.relpath(path, ROOT).encode())
            stamp.add(whole, self._look(path)[0])
        return whole.hexdigest()


def command_for(check: str, file: str, arguments, database: pathlib.Path):
    if check == "tidy":
        # The compiler's own warnings are the build's business; clang does not know all of their names.
        return ["clang-tidy-16", "--quiet", "-p", str(database), "--extra-arg=-w", str(ROOT / file)]
    return ["clang++-16", *arguments[1:], "-fsyntax-only", "-Wno-everything", "-Wthread-safety",
            "-Werror"]


# How many files are one source; more gain little.
TOGETHER = 10


def batches(check: str, files, database):
    """The files in lists; those of one list have the same arguments."""
    if check == "tidy":
        return [[file] for file in files]
    by_arguments = {}
    for file in files:
        others = tuple(a for a in database[file] if a != str(ROOT / file))
        by_arguments.setdefault(others, []).append(file)
    return [group[i:i + TOGETHER] for group in by_arguments.values()
            for i in range(0, len(group), TOGETHER)]


OFFENCE = """
#include "holdfast/base/sync/mutex.h"
struct Counter {
  void add() { ++count; }
  holdfast::sync::Mutex mutex;
  int count HOLDFAST_GUARDED_BY(mutex) = 0;
};
"""


def sees_an_offence() -> bool:
    """Whether the thread-safety check notices a guarded member touched without its mutex; where it
    does not, its silence about the sources means nothing."""
    run = subprocess.run(
        ["clang++-16", "-std=c++20", f"-I{ROOT}/include", "-fsyntax-only", "-Wthread-safety", "-x", "c++",
         "-"], input=OFFENCE, capture_output=True, text=True, check=False)
    return run.returncode == 0 and "requires holding mutex" in run.stderr


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("check", choices=sorted(TOOLS))
    parser.add_argument("--seconds", type=int, default=0)
    parser.add_argument("files", nargs="*")
    options = parser.parse_args()

    database = commands()
    folder = write_database(database)
    files = options.files or [line for line in sys.stdin.read().splitlines() if line]
    unknown = [file for file in files if file not in database]
    files = [file for file in files if file in database]
    for file in unknown:
        print(f"  not part of the dev build: {file}")

    if options.check == "thread-safety" and not sees_an_offence():
        print("thread-safety: clang does not notice an offence made on purpose", file=sys.stderr)
        return 1
    version = subprocess.run([TOOLS[options.check], "--version"], capture_output=True, check=True).stdout
    packages = stamp.packages()
    contents = Contents()

    def stamp_of(file: str) -> pathlib.Path:
        arguments = "\0".join(database[file]).replace(str(ROOT), "")
        parts = [version, packages, (ROOT / ".clang-tidy").read_bytes(), arguments.encode()]
        return stamp.stamp_file(options.check, contents.key(parts, file))

    stamps = {file: stamp_of(file) for file in files}
    todo = [file for file in files if not stamps[file].exists()]
    print(f"{options.check}: {len(files)} files, {len(files) - len(todo)} of them passed before with "
          "the same content")
    deadline = time.monotonic() + options.seconds if options.seconds else None
    failed, late = [], []

    def check(file: str) -> None:
        if deadline is not None and time.monotonic() >= deadline:
            late.append(file)
            return
        run = subprocess.run(command_for(options.check, file, database[file], folder), cwd=BUILD,
                             capture_output=True, text=True, check=False)
        if run.returncode == 0:
            stamp.put(stamps[file])
            return
        failed.append(file)
        lines = [line for line in (run.stdout + run.stderr).splitlines()
                 if not line.endswith(("warnings generated.", "warning generated."))]
        print(f"  {file}: FAILED\n" + "\n".join(lines), flush=True)

    def pass_together(batch) -> bool:
        others = [a for a in database[batch[0]] if a != str(ROOT / batch[0])]
        run = subprocess.run(
            [*command_for(options.check, "", others, folder), "-x", "c++", "-"], cwd=BUILD,
            capture_output=True, text=True, check=False,
            input="".join(f'#include "{ROOT / file}"\n' for file in batch))
        return run.returncode == 0

    def check_batch(batch) -> None:
        if len(batch) > 1 and (deadline is None or time.monotonic() < deadline) and pass_together(batch):
            for file in batch:
                stamp.put(stamps[file])
            return
        for file in batch:  # which one fails, and with what
            check(file)

    with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count() or 2) as pool:
        list(pool.map(check_batch, batches(options.check, todo, database)))
    for file in late:
        print(f"  out of time, not checked: {file}")
    if failed or late:
        print(f"{options.check}: {len(failed)} failed, {len(late)} not checked in "
              f"{options.seconds} seconds", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
