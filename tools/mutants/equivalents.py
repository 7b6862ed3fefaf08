"""Reads equivalents.txt: mutants that no test can kill, each with its argument."""


class Entry:
    def __init__(self, at):
        self.at = at  # its line
        self.path = self.line = self.mutation = self.because = ""


FIELDS = {"file": "path", "line": "line", "mutation": "mutation", "because": "because"}


class Equivalents:
    def __init__(self, entries):
        self.entries = entries
        self._arguments = {(e.path, e.line, e.mutation): e.because for e in entries}

    def argument(self, site):
        """Why no test can tell this mutant from the code, or None."""
        return self._arguments.get((site.path, site.line_text, site.mutation))

    def stale(self, sites, files):
        """Entries about files that were looked at, and that match nothing there."""
        there = {(s.path, s.line_text, s.mutation) for s in sites}
        return [e for e in self.entries
                if e.path in files and (e.path, e.line, e.mutation) not in there]


def read(path):
    """Entries are paragraphs of `field: text` lines; an indented line continues the one before, and
    # begins a comment."""
    entries, entry, field = [], None, None
    with open(path, encoding="utf-8") as file:
        lines = file.read().splitlines()
    for at, text in enumerate(lines + [""], 1):
        if text.startswith("#"):
            continue
        if not text.strip():
            if entry is not None:
                for name, attribute in FIELDS.items():
                    if not getattr(entry, attribute):
                        raise SystemExit(f"error: {path}:{entry.at}: the entry has no '{name}:'")
                entries.append(entry)
            entry = field = None
            continue
        entry = entry or Entry(at)
        name, colon, rest = text.partition(":")
        if text[0] == " " and field:
            setattr(entry, field, getattr(entry, field) + " " + text.strip())
        elif colon and name in FIELDS:
            field = FIELDS[name]
            setattr(entry, field, rest.strip())
        else:
            raise SystemExit(f"error: {path}:{at}: expected one of " +
                             ", ".join(f"'{f}:'" for f in FIELDS))
    return Equivalents(entries)
