"""Writes mutated sources and builds them, dropping the changes that do not compile."""

import hashlib
import json
import os
import re
import subprocess

import sites as sites_module

LOCATION = re.compile(r"^(?P<path>[^\s:][^:\n]*):(?P<line>\d+):(?:\d+:)?\s*(?P<rest>.*)$")
EXTRA = 1.3  # how many more than asked for are tried at first: exchanged arguments rarely compile


class BuildError(Exception):
    pass


def read_json(path, default):
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError):
        return default


def write_if_changed(path, text):
    try:
        with open(path, encoding="utf-8") as file:
            if file.read() == text:
                return
    except OSError:
        pass
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def blamed(output, path, owners, direct):
    """The sites of the mutated file `path` that the compiler's output speaks of."""
    lines, required = [], None
    for text in output.splitlines():
        match = LOCATION.match(text)
        if not match:
            continue
        here = match["path"].endswith(path)
        if "required from" in match["rest"] or "in 'constexpr' expansion" in match["rest"]:
            if here:
                required = int(match["line"])
        elif re.match(r"(fatal )?error:", match["rest"]):
            if here:
                lines.append(int(match["line"]))
            elif required is not None:
                lines.append(required)
            required = None
    found = {direct[line] for line in lines if line in direct}
    if found:
        return found
    found = {owners[line][-1] for line in lines if owners.get(line)}
    if found or not lines:
        return found
    # A consequence further down: the nearest change above the first complaint.
    above = [line for line in direct if line < lines[0]]
    return {direct[max(above)]} if above else set()


class Workspace:
    """build/mutants. What did not compile is remembered, by the content of its file."""

    def __init__(self, root, jobs, say):
        self.root = root
        self.folder = os.path.join(root, "build", "mutants")
        self.mutated = os.path.join(self.folder, "mutated")
        self.header = os.path.join(root, "tools", "mutants", "mutant.h")
        self.jobs = jobs
        self.say = say
        self._rejected_file = os.path.join(self.folder, "rejected.json")
        self._numbers_file = os.path.join(self.folder, "numbers.json")
        self._built_file = os.path.join(self.folder, "built.json")
        os.makedirs(self.folder, exist_ok=True)
        self.rejected = read_json(self._rejected_file, {})
        self.numbers = read_json(self._numbers_file, {})
        self.texts = {}
        self.maps = {}

    def text(self, path):
        if path not in self.texts:
            with open(os.path.join(self.root, path), encoding="utf-8") as file:
                self.texts[path] = file.read()
        return self.texts[path]

    def content_key(self, site):
        return hashlib.sha256((self.text(site.path) + "\0" + site.key).encode()).hexdigest()[:24]

    def number(self, site):
        if site.key not in self.numbers:
            self.numbers[site.key] = len(self.numbers) + 1
        return self.numbers[site.key]

    def save(self):
        write_if_changed(self._rejected_file, json.dumps(self.rejected))
        write_if_changed(self._numbers_file, json.dumps(self.numbers))

    def build(self, candidates, count):
        """Builds the libraries with the first `count` of `candidates` that compile, and returns
        them."""
        rounds = 0
        want = int(count * EXTRA) + 1
        while True:
            chosen = [s for s in candidates if self.content_key(s) not in self.rejected][:want]
            chosen = self.write(chosen)
            dropped = self.compile()
            rounds += 1
            if not dropped:
                write_if_changed(self._built_file,
                                 json.dumps([self.content_key(s) for s in chosen]))
                chosen = chosen[:count]
                self.say(f"{len(chosen)} mutants compile; {len(self.rejected)} changes never did")
                return chosen
            for site in dropped:
                self.rejected[self.content_key(site)] = site.mutation
            self.save()
            self.say(f"round {rounds}: {len(dropped)} changes do not compile")
            # Those past `count` stand by, so that what fails needs no others.
            want = max(count, len(chosen) - len(dropped))

    def built(self, sites):
        """Those of `sites` that the last build holds."""
        keys = set(read_json(self._built_file, []))
        return [s for s in sites if self.content_key(s) in keys]

    def write(self, chosen):
        by_path = {}
        for site in chosen:
            site.number = self.number(site)
            by_path.setdefault(site.path, []).append(site)
        self.save()
        written = []
        kept = set()
        self.maps = {}
        for path, sites in by_path.items():
            text, owners, direct, ordered = sites_module.write(
                path, self.text(path), sites, self.header)
            write_if_changed(os.path.join(self.mutated, path), text)
            self.maps[path] = (owners, direct)
            kept.update(s.key for s in ordered)
            written.append(path)
        self.remove_others(set(written))
        self.configure(sorted(written))
        return [s for s in chosen if s.key in kept]

    def remove_others(self, written):
        for folder, _, files in os.walk(self.mutated):
            for file in files:
                path = os.path.join(folder, file)
                if os.path.relpath(path, self.mutated) not in written:
                    os.remove(path)

    def configure(self, written):
        """The list of sources is made when the build is configured."""
        stamp = os.path.join(self.folder, "mutated.txt")
        listed = "\n".join(written)
        if read_text(stamp) == listed and os.path.exists(os.path.join(self.folder, "build.ninja")):
            return
        result = run(["cmake", "-S", self.root, "--preset", "mutants"], self.root)
        if result.returncode:
            raise BuildError("configuring failed:\n" + result.stdout)
        write_if_changed(stamp, listed)

    def compile(self):
        """Builds the libraries; returns the sites that a compiler complained about."""
        result = self.run_ninja(["holdfast_array"])
        if result.returncode == 0:
            return []
        dropped = []
        for path, (owners, direct) in self.maps.items():
            # One paragraph of output per failed file.
            for part in re.split(r"^FAILED: ", result.stdout, flags=re.MULTILINE)[1:]:
                if f"mutated/{path}.o" in part.split("\n", 1)[0]:
                    found = blamed(part, "mutated/" + path, owners, direct)
                    if not found:
                        raise BuildError(
                            f"no change explains why {path} does not compile:\n{part[:4000]}")
                    dropped.extend(found)
        if not dropped:
            raise BuildError(
                "the build failed, and not in a mutated file:\n" + result.stdout[-4000:])
        return dropped

    def ninja(self, targets, what):
        result = self.run_ninja(targets)
        if result.returncode:
            raise BuildError(f"building {what} failed:\n" + result.stdout[-4000:])

    def run_ninja(self, targets):
        return run(["ninja", "-k", "0", "-j", str(self.jobs), *targets], self.folder)


def run(command, folder):
    return subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False)


def read_text(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError:
        return None
