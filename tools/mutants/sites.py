"""Finds the places of a file that can be changed, and writes it with the changes behind switches.

Nothing here knows types. A change that does not compile is found by compiling (build.py), and is
dropped.
"""

import hashlib
import re

from tokens import Source

# Loosest first; the number is what operand() compares.
PRECEDENCE = {}
for level, operators in enumerate(
    ["= += -= *= /= %= &= |= ^= <<= >>=", "? :", "||", "&&", "|", "^", "&", "== !=", "< <= > >=",
     "<=>", "<< >>", "+ -", "* / %"]
):
    for operator in operators.split():
        PRECEDENCE[operator] = level
ASSIGNMENTS = {op for op, level in PRECEDENCE.items() if level == 0}

RELATIONAL = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
ARITHMETIC = {"+": "-", "-": "+", "*": "+", "/": "*", "%": "/", "<<": ">>", ">>": "<<", "&": "|",
              "|": "&", "^": "&", "+=": "-=", "-=": "+=", "*=": "+=", "|=": "&=", "&=": "|="}
LOGICAL = {"&&": "||", "||": "&&"}

CONTROL = {"if", "while", "for", "switch", "catch"}
KEYWORDS = CONTROL | {
    "return", "throw", "else", "do", "case", "default", "break", "continue", "goto", "using", "new",
    "typedef", "delete", "static_assert", "constexpr", "consteval", "static", "const", "auto",
    "struct", "class", "union", "enum", "template", "try", "namespace", "operator", "sizeof",
    "alignof", "decltype", "noexcept", "co_return", "co_await", "co_yield", "friend", "extern",
}
# An expression ends before these, seen from its right.
STOPS = {"return", "throw", "else", "do", "case", "co_return", "co_yield", "goto", "not"}
INTEGER = re.compile(r"(?:0[xX][0-9a-fA-F']+|0[bB][01']+|[0-9][0-9']*)[uUlLzZ]*\Z")
MACRO = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\Z")

# Calls whose arguments are for a reader only: formats, logs.
MESSAGES = {"format", "note", "warn", "warn_text", "tell_text", "join"}
MESSAGE_SCOPES = {"fmt", "log"}
# Dropping these changes the speed alone.
ONLY_SPEED = {"reserve", "shrink_to_fit", "yield"}
COMMUTATIVE = {"min", "max", "swap"}

KINDS = {
    "relational": "replace a relational operator by its neighbour",
    "arithmetic": "replace an arithmetic or bit operator by another",
    "logical": "replace && by ||, or || by &&",
    "negation": "negate a condition",
    "drop": "leave out a call, an assignment or a throw",
    "swap": "swap two neighbouring arguments",
    "constant": "add one to an integer literal, or flip a boolean",
    "return": "return a default value instead",
}


class Site:
    """One change to one place. first..last are the tokens that it replaces."""

    def __init__(self, source, kind, form, first, last, at, before, after):
        self.path = source.path
        self.kind = kind
        self.form = form  # expression, condition, drop, return
        self.first = first
        self.last = last
        self.line = source.line_of(source.tokens[at].start)
        self.line_text = source.line_text(self.line)
        self.before = before
        self.after = after
        self.alternative = after  # as written to the file; `after` is for a reader
        self.occurrence = 0  # among those alike in the file
        self.number = 0  # in a build

    @property
    def mutation(self):
        if self.form == "drop":
            return f"drop: {self.before}"
        if self.form == "condition":
            return f"negate: {self.before}"
        return f"{self.before} -> {self.after}"

    @property
    def key(self):
        """Stays the same while the line does, wherever it moves in its file."""
        return f"{self.path}|{self.line_text}|{self.mutation}|{self.occurrence}"

    @property
    def id(self):
        return hashlib.sha256(self.key.encode()).hexdigest()[:8]


class _Finder:
    def __init__(self, source):
        self.source = source
        self.tokens = source.tokens
        count = len(self.tokens)
        self.code = [False] * count  # inside a function's body, and may be changed
        self.starts = [False] * count  # a statement starts here
        self.parent = [None] * count  # the innermost open bracket before it
        self.sites = []

    # --- contexts

    def scan(self):
        tokens = self.tokens
        kinds = {None: "namespace"}  # of each open brace
        stack = []
        for i, token in enumerate(tokens):
            if token.match is not None and not token.angle and token.text in ")]}":
                stack.pop()
            outer = next((b for b in reversed(stack) if tokens[b].text == "{"), None)
            self.parent[i] = stack[-1] if stack else None
            kind = kinds[outer]
            self.code[i] = kind in ("code", "init")
            if token.text == "{":
                kinds[i] = self.brace_kind(i, kind)
            if kind == "code" and (not stack or tokens[stack[-1]].text == "{"):
                self.starts[i] = self.starts_statement(i, kinds)
            if token.match is not None and not token.angle and token.text in "([{":
                stack.append(i)
        for i, token in enumerate(tokens):
            self.exclude_at(i, token)

    def brace_kind(self, i, outer):
        tokens = self.tokens
        token, before = tokens[i], tokens[i - 1]
        if outer == "skip":
            return "skip"
        unspaced = not token.spaced
        if outer in ("code", "init"):
            if unspaced or before.text in ("=", "(", ",", "return", "?", "<<", "&&", "||"):
                return "init"
            if before.text == "{" and outer == "init":
                return "init"
            first = self.head(i)
            texts = [t.text for t in tokens[first:i]]
            if texts[:1] in (["struct"], ["class"], ["union"]):
                return "class"
            if "enum" in texts[:2]:
                return "skip"
            return "code"
        if unspaced:
            return "skip"
        texts = self.flat_head(i)
        if texts[:1] == ["namespace"] or texts[:2] == ["inline", "namespace"]:
            return "namespace"
        if texts[:1] == ["extern"] and "(" not in texts:
            return "namespace"
        if "enum" in texts or "constexpr" in texts or "consteval" in texts:
            return "skip"
        if any(t == "=" and (k == 0 or texts[k - 1] != "operator") for k, t in enumerate(texts)):
            return "skip"
        if "(" in texts:
            return "code"
        if any(t in ("struct", "class", "union") for t in texts):
            return "class"
        return "skip"

    def head(self, i):
        """Where the statement or declaration begins that a token is part of."""
        k = i - 1
        tokens = self.tokens
        while k >= 0:
            token = tokens[k]
            if token.text == ";" or (token.text == "{" and not token.angle):
                break
            if token.text == "}":
                opening = tokens[token.match]
                if opening.spaced:
                    break
                k = token.match
            elif token.match is not None and token.text in (")", "]", ">"):
                k = token.match
            k -= 1
        return k + 1

    def flat_head(self, i):
        """The head's tokens, without what stands in brackets."""
        texts = []
        k = self.head(i)
        while k < i:
            token = self.tokens[k]
            texts.append(token.text)
            if token.match is not None and token.match > k:
                k = token.match
            k += 1
        # Access specifiers end with a colon and no semicolon.
        while len(texts) > 2 and texts[0] in ("public", "private", "protected") and texts[1] == ":":
            texts = texts[2:]
        return texts[1:] if texts[:1] == ["template"] else texts

    def starts_statement(self, i, kinds):
        before = self.tokens[i - 1]
        if before.text == ";" or before.text in ("else", "do"):
            return True
        if before.text == "{":
            return kinds.get(i - 1) == "code"
        if before.text == "}":
            return kinds.get(before.match) in ("code", "class")
        if before.text == ")":
            keyword = self.tokens[before.match - 1].text
            return keyword in CONTROL or (
                keyword == "constexpr" and self.tokens[before.match - 2].text == "if")
        if before.text == ":":
            k = i - 2
            while k > 0 and self.tokens[k].text in ("::", ".") or self.tokens[k].kind == "word":
                if self.tokens[k].text in ("case", "default"):
                    return True
                k -= 1
        return False

    def exclude(self, first, last):
        for k in range(first, last + 1):
            self.code[k] = False

    def exclude_at(self, i, token):
        tokens = self.tokens
        if token.angle and token.match is not None and token.match > i:
            self.exclude(i, token.match)
        if token.kind != "word":
            return
        following = tokens[i + 1] if i + 1 < len(tokens) else None
        calls = following is not None and following.text == "(" and not following.spaced
        if token.text in ("static_assert", "sizeof", "alignof", "decltype", "noexcept", "alignas"):
            if calls:
                self.exclude(i, following.match)
        elif token.text == "case":
            k = i
            while tokens[k].text != ":":
                k += 1
            self.exclude(i, k)
        elif token.text in ("constexpr", "consteval", "using", "typedef") and self.code[i]:
            if i and tokens[i - 1].text == "if":
                return
            k = i
            while tokens[k].text != ";":
                if tokens[k].match is not None and tokens[k].match > k:
                    k = tokens[k].match
                k += 1
            self.exclude(i, k)
        elif calls and MACRO.match(token.text):
            self.exclude(i, following.match)
        elif calls and token.text in MESSAGES and tokens[i - 1].text == "::" and (
            tokens[i - 2].text in MESSAGE_SCOPES):
            self.exclude(i - 2, following.match)

    # --- expressions

    def is_binary(self, i):
        token = self.tokens[i]
        if token.kind != "punct" or token.angle or not (token.spaced and token.followed):
            return False
        if token.text not in PRECEDENCE or i == 0:
            return False
        before = self.tokens[i - 1]
        if before.text == "operator":
            return False
        if before.kind == "word":
            return before.text not in STOPS
        if before.kind in ("number", "string", "char") or before.angle:
            return True
        return before.text in (")", "]", "}", "++", "--")

    def left_end(self, i):
        """The first token of the left operand of the operator at i."""
        level = PRECEDENCE[self.tokens[i].text]
        k = i - 1
        while k >= 0:
            token = self.tokens[k]
            if token.text in (")", "]") or (token.angle and token.match is not None):
                if token.match > k:
                    break
                before = self.tokens[token.match - 1]
                if token.text == ")" and (before.text in CONTROL or before.text == "constexpr"):
                    break
                k = token.match
            elif token.text == "}":
                opening = self.tokens[token.match]
                called = self.tokens[k + 1].text == "(" and not self.tokens[k + 1].spaced
                if opening.spaced and not called:
                    break
                k = token.match
            elif token.text in ("(", "[", "{", ",", ";", ":", "?") or token.text in STOPS:
                break
            elif self.is_binary(k) and PRECEDENCE[token.text] < level:
                break
            k -= 1
        return k + 1

    def right_end(self, i):
        """The last token of the right operand of the operator at i."""
        level = PRECEDENCE[self.tokens[i].text]
        right_associative = level <= 1
        k = i + 1
        while k < len(self.tokens):
            token = self.tokens[k]
            if token.text in (")", "]", "}", ",", ";", ":"):
                break
            if self.is_binary(k):
                found = PRECEDENCE[token.text]
                if found < level or (found == level and not right_associative):
                    break
            if token.match is not None and token.match > k:
                k = token.match
            k += 1
        return k - 1

    def chain_start(self, i):
        """The first token of the name at i with what it is a member of: a.b(c)->name, a::name."""
        tokens = self.tokens
        k = i
        while k > 0 and tokens[k - 1].text in (".", "->", "::"):
            k -= 1
            if tokens[k].text == "::" and tokens[k].spaced:
                break
            before = tokens[k - 1]
            while before.match is not None and before.match < k:
                k = before.match
                before = tokens[k - 1]
                if tokens[k].spaced:
                    return k
            if before.kind in ("word", "string") and before.text not in STOPS:
                k -= 1
        return k

    def text(self, first, last):
        return self.source.plain(first, last)

    def mentions_ablations(self, first, last):
        return any("ablat" in self.tokens[k].text for k in range(first, last + 1))

    def add(self, kind, form, first, last, at, before, after="", alternative=None):
        if first > last or self.mentions_ablations(first, last):
            return
        site = Site(self.source, kind, form, first, last, at, before, after)
        if alternative is not None:
            site.alternative = alternative
        self.sites.append(site)

    def binary_sites(self, i):
        operator = self.tokens[i].text
        for kind, table in (("relational", RELATIONAL), ("arithmetic", ARITHMETIC),
                            ("logical", LOGICAL)):
            if operator not in table:
                continue
            first, last = self.left_end(i), self.right_end(i)
            if kind == "arithmetic" and any(
                self.tokens[k].kind == "string" for k in (first, last, i - 1, i + 1)):
                continue  # texts are joined
            left, right = self.text(first, i - 1), self.text(i + 1, last)
            self.add(kind, "expression", first, last, i, f"{left} {operator} {right}",
                     f"{left} {table[operator]} {right}")
        if operator == "?":
            first = self.left_end(i)
            if self.comparison(first, i - 1) is None:
                self.add("negation", "condition", first, i - 1, i, self.text(first, i - 1))

    def comparison(self, first, last):
        """The == or != that an expression consists of, whose neighbour is its negation."""
        found = None
        k = first
        while k <= last:
            if self.is_binary(k):
                if found is not None or self.tokens[k].text not in ("==", "!="):
                    return None
                found = k
            if self.tokens[k].match is not None and self.tokens[k].match > k:
                k = self.tokens[k].match
            k += 1
        return found

    def condition_site(self, i):
        opening = i + 1
        if self.tokens[opening].text != "(":  # if constexpr
            return
        first, last = opening + 1, self.tokens[opening].match - 1
        k = first
        while k <= last:
            token = self.tokens[k]
            if token.text == ";":
                first = k + 1
            if token.match is not None and token.match > k:
                k = token.match
            k += 1
        if first > last or any(
            self.tokens[k].text == "=" and self.parent[k] == opening
            for k in range(first, last + 1)):
            return  # a declaration
        if first == last and self.tokens[first].text in ("true", "false"):
            return
        if self.tokens[first].text == "!" and self.unary_end(first) == last:
            return  # the negation that is there is taken away
        if self.comparison(first, last) is None:
            self.add("negation", "condition", first, last, i, self.text(first, last))

    def unary_end(self, i):
        """The last token of the operand of the prefix operator at i."""
        k = i + 1
        tokens = self.tokens
        while tokens[k].text in ("!", "*", "&", "-", "~", "++", "--"):
            k += 1
        if tokens[k].match is not None and tokens[k].match > k:
            k = tokens[k].match
        while k + 1 < len(tokens):
            following = tokens[k + 1]
            if following.text in (".", "->", "::"):
                k += 2
            elif following.match is not None and following.match > k + 1 and not following.spaced:
                k = following.match
            else:
                break
        return k

    def call_site(self, i):
        """Two neighbouring arguments of the call whose name is at i."""
        tokens = self.tokens
        name, opening = tokens[i], i + 1
        if name.text in KEYWORDS or name.text in COMMUTATIVE or name.text.endswith("_cast"):
            return
        first = self.chain_start(i)
        before = tokens[first - 1]
        if before.kind == "word" and before.text not in STOPS or before.angle:
            return  # a declaration, or new
        if before.text in ("~", "&", "*") and not before.spaced:
            return
        closing = tokens[opening].match
        arguments, start, k = [], opening + 1, opening + 1
        while k <= closing:
            if k == closing or tokens[k].text == ",":
                arguments.append((start, k - 1))
                start = k + 1
            elif tokens[k].match is not None and tokens[k].match > k:
                k = tokens[k].match
            k += 1
        for left, right in zip(arguments, arguments[1:]):
            if not (self.plain_argument(*left) and self.plain_argument(*right)):
                continue
            one, two = self.text(*left), self.text(*right)
            if one == two:
                continue
            head = self.text(first, left[0] - 1)
            tail = self.text(right[1] + 1, closing)
            shown = name.text + ("({}, {})" if len(arguments) == 2 else "(... {}, {} ...)")
            self.add("swap", "expression", first, closing, left[0], shown.format(one, two),
                     shown.format(two, one), f"{head}{two}, {one}{tail}")

    def plain_argument(self, first, last):
        """Neither a lambda nor an initializer list, neither text nor a memory order."""
        if first > last:
            return False
        for token in self.tokens[first : last + 1]:
            if token.text in ("{", "...") or (token.text == "[" and token.spaced):
                return False
            if token.kind == "string" or "memory_order" in token.text:
                return False
        return True

    # --- statements

    def statement_end(self, i):
        k = i
        while self.tokens[k].text != ";":
            if self.tokens[k].text == "}" and k != i:
                return None
            if self.tokens[k].match is not None and self.tokens[k].match > k:
                k = self.tokens[k].match
            k += 1
            if k >= len(self.tokens):
                return None
        return k

    def statement_site(self, i):
        tokens = self.tokens
        end = self.statement_end(i)
        if end is None or end == i:
            return
        if tokens[i].text == "return":
            self.return_site(i, end)
            return
        if tokens[i].text == "throw":
            if end > i + 1:
                self.add("drop", "drop", i, end, i, self.text(i, end))
            return
        # ++n; n++; a.b(c); a = b; a.b[c] = d;
        k = i
        while tokens[k].text in ("*", "++", "--"):
            k += 1
        was_operand = False
        called = tokens[i].text in ("++", "--")
        names = []
        while k < end:
            token = tokens[k]
            if token.text in ASSIGNMENTS and self.is_binary(k):
                if token.text == "=" and tokens[k - 1].text != "ignore":
                    self.add("drop", "drop", i, end, i, self.text(i, end))
                return
            if token.match is not None and token.match > k:
                if token.text == "{":
                    return
                called = token.text == "("
                if token.spaced and was_operand:
                    return
                k = token.match
                was_operand = True
            elif token.kind == "word":
                if was_operand or (token.text in KEYWORDS):
                    return
                names.append(token.text)
                was_operand = True
                called = tokens[i].text in ("++", "--")
            elif token.text in (".", "->", "::"):
                was_operand = False
            elif token.text in ("++", "--"):
                called = True
            else:
                return
            k += 1
        if not called or any(n in ONLY_SPEED or MACRO.match(n) or "trace" in n for n in names):
            return
        if names[:1] == ["static_cast"] or self.text(i, i + 1) == "logging::":
            return
        self.add("drop", "drop", i, end, i, self.text(i, end))

    def return_site(self, i, end):
        tokens = self.tokens
        if end == i + 1 or tokens[i + 1].text == "{":
            return
        if end == i + 2 and (tokens[i + 1].kind in ("number", "string") or (
            tokens[i + 1].text in ("true", "false", "nullptr"))):
            return
        k = i + 1
        while k < end:
            if self.is_binary(k) and tokens[k].text in RELATIONAL | LOGICAL.keys():
                return
            if tokens[k].match is not None and tokens[k].match > k:
                k = tokens[k].match
            k += 1
        if tokens[i + 1].text == "!" or tokens[end - 1].text == "}":
            return
        self.add("return", "return", i, end, i, self.text(i, end - 1), "return {}")

    # --- all

    def find(self):
        self.scan()
        tokens = self.tokens
        for i, token in enumerate(tokens):
            if not self.code[i]:
                continue
            if self.starts[i]:
                self.statement_site(i)
            if self.is_binary(i):
                self.binary_sites(i)
            elif token.text == "!" and not token.followed:
                last = self.unary_end(i)
                operand = self.text(i + 1, last)
                self.add("negation", "expression", i, last, i, f"!{operand}", f"!!{operand}")
            elif token.kind == "number" and INTEGER.match(token.text):
                self.add("constant", "expression", i, i, i, token.text, f"{token.text} + 1")
            elif token.text in ("true", "false"):
                if tokens[i - 1].text == "(" and tokens[i - 2].text == "while":
                    continue
                self.add("constant", "expression", i, i, i, token.text,
                         "false" if token.text == "true" else "true")
            elif token.kind == "word":
                if token.text in ("if", "while"):
                    self.condition_site(i)
                elif tokens[i + 1].text == "(" and not tokens[i + 1].spaced:
                    self.call_site(i)
        seen = {}
        for site in self.sites:
            site.occurrence = seen.get(site.key, 0)
            seen[site.key] = site.occurrence + 1
        return self.sites


def find(path, text):
    """The sites of a file, in order. `path` is relative to the project's root."""
    return _Finder(Source(path, text)).find()


def without_overlap(sites):
    """Sites whose tokens nest: of two that overlap otherwise, only the first."""
    kept = []
    for site in sorted(sites, key=lambda s: (s.first, -s.last, s.number)):
        if all(other.last < site.first or site.last <= other.last for other in kept):
            kept.append(site)
    return kept


SWITCH = "::holdfast::mutants::on({})"


def write(path, text, sites, header):
    """The file with every site behind a switch, so that compiler output can be traced to sites.

    Returns the text; for each of its lines the sites it lies in, innermost last; the site whose
    changed text stands on a line, which is a line of its own; and the sites written. Sites need a
    number.
    """
    source = Source(path, text)
    tokens = source.tokens
    output = [f'#include "{header}"\n']
    owners = {}
    direct = {}
    line = [2]

    def emit(piece, stack):
        output.append(piece)
        for k in range(piece.count("\n") + 1):
            line[0] += k > 0
            if stack:
                owners[line[0]] = stack

    ordered = without_overlap(sites)

    def render(first_offset, last_offset, pending, stack):
        """Text from one offset to the other, with the sites that lie in it."""
        at = first_offset
        while pending and tokens[pending[0].first].start < last_offset:
            site = pending.pop(0)
            start, end = tokens[site.first].start, tokens[site.last].end
            emit(text[at:start], stack)
            inner = []
            while pending and pending[0].first <= site.last:
                inner.append(pending.pop(0))
            deeper = stack + [site]
            on = SWITCH.format(site.number)
            emit("\n", stack)
            direct[line[0]] = site
            if site.form == "expression":
                emit(f"({on} ? ({site.alternative}) :\n(", deeper)
                render(start, end, inner, deeper)
                emit("))\n", deeper)
            elif site.form == "condition":
                emit(f"({on} != static_cast<bool>(\n", deeper)
                render(start, end, inner, deeper)
                emit("))\n", deeper)
            elif site.form == "drop":
                emit(f"{{ if (!{on})\n", deeper)
                render(start, end, inner, deeper)
                emit("}\n", deeper)
            elif site.form == "return":
                emit(f"{{ if ({on}) return {{}};\n", deeper)
                render(start, end, inner, stack)
                emit("}\n", stack)
            at = end
        emit(text[at:last_offset], stack)

    render(0, len(text), list(ordered), [])
    return "".join(output), owners, direct, ordered
