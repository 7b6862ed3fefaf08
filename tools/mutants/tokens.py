"""C++ text as tokens with brackets matched, without a compiler.

clang-format, which lint enforces, is what makes this reliable: a binary operator has white space on
both sides, a template's angle bracket has none before it, a pointer's star sticks to its type.
"""

import bisect
import re

TOKEN = re.compile(
    r"""
      (?P<space>\s+|\\\n)
    | (?P<comment>//[^\n]*|/\*.*?\*/)
    | (?P<raw>(?:u8|[uUL])?R"(?P<mark>[^()\\ ]{0,16})\(.*?\)(?P=mark)")
    | (?P<string>(?:u8|[uUL])?"(?:\\.|[^"\\\n])*")
    | (?P<char>(?:u8|[uUL])?'(?:\\.|[^'\\\n])+')
    | (?P<number>\.?[0-9](?:[eEpP][+-]|'(?=[0-9A-Za-z])|[0-9A-Za-z_.])*)
    | (?P<word>[A-Za-z_]\w*)
    | (?P<punct><=>|<<=|>>=|\.\.\.|->\*|::|->|\+\+|--|&&|\|\||[-+*/%&|^<>=!]=|<<|>>
        |[-+*/%&|^<>=!~?:;,.(){}\[\]\#])
    """,
    re.VERBOSE | re.DOTALL,
)

OPENING = {"(": ")", "[": "]", "{": "}"}
CLOSING = {")", "]", "}"}


class Token:
    """A token and its place. `match` is the index of the other bracket of its pair, else None."""

    __slots__ = ("text", "kind", "start", "end", "spaced", "followed", "match", "angle")

    def __init__(self, text, kind, start, end, spaced):
        self.text = text
        self.kind = kind
        self.start = start
        self.end = end
        self.spaced = spaced  # white space or a comment before it
        self.followed = False  # ... after it
        self.match = None
        self.angle = False  # an angle bracket of a template

    def __repr__(self):
        return self.text


class Source:
    """A file's text and its tokens; comments, preprocessor lines and white space are no tokens."""

    def __init__(self, path, text):
        self.path = path
        self.text = text
        self.tokens = []
        self._line_starts = [0] + [m.end() for m in re.finditer("\n", text)]
        self._tokenize()
        self._match_angles()
        self._match_brackets()

    def line_of(self, offset):
        return bisect.bisect_right(self._line_starts, offset)

    def line_text(self, line):
        start = self._line_starts[line - 1]
        end = self.text.find("\n", start)
        return self.text[start : end if end >= 0 else len(self.text)].strip()

    def plain(self, first, last):
        """The tokens first..last on one line, without comments."""
        parts = []
        for i in range(first, last + 1):
            token = self.tokens[i]
            if i > first and token.spaced:
                parts.append(" ")
            parts.append(token.text)
        return "".join(parts)

    def _tokenize(self):
        position = 0
        spaced = True
        text = self.text
        while position < len(text):
            match = TOKEN.match(text, position)
            if not match:
                raise ValueError(f"{self.path}:{self.line_of(position)}: no C++ token")
            kind = match.lastgroup if match.lastgroup != "mark" else "raw"
            if kind == "punct" and match.group() == "#" and self._starts_line(position):
                # A directive, to the end of its last line.
                end = position
                while True:
                    end = text.find("\n", end)
                    if end < 0:
                        end = len(text)
                        break
                    if text[end - 1] != "\\":
                        break
                    end += 1
                position = end
                spaced = True
                continue
            if kind in ("space", "comment"):
                spaced = True
                if self.tokens:
                    self.tokens[-1].followed = True
            else:
                if kind == "raw":
                    kind = "string"
                self.tokens.append(Token(match.group(), kind, position, match.end(), spaced))
                spaced = False
            position = match.end()

    def _starts_line(self, position):
        start = self.text.rfind("\n", 0, position) + 1
        return self.text[start:position].strip() == ""

    def _match_angles(self):
        """Marks the angle brackets of templates, splitting >> where it closes two."""
        open_angles = []
        tokens = self.tokens
        i = 0
        while i < len(tokens):
            token = tokens[i]
            before = tokens[i - 1].text if i else ""
            named = before == "operator"
            if token.text == "<" and (before == "template" or not (token.spaced or named)):
                token.angle = True
                open_angles.append(i)
            elif token.text in (">", ">>") and open_angles and not (token.spaced or named):
                if token.text == ">>":
                    if len(open_angles) < 2:
                        i += 1
                        continue
                    second = Token(">", "punct", token.start + 1, token.end, False)
                    second.followed = token.followed
                    token.text, token.end, token.followed = ">", token.start + 1, False
                    tokens.insert(i + 1, second)
                token.angle = True
                opening = open_angles.pop()
                token.match = opening
                tokens[opening].match = i
            elif token.text in (";", "{") and open_angles:
                for opening in open_angles:
                    tokens[opening].angle = False
                open_angles = []
            i += 1

    def _match_brackets(self):
        stack = []
        for i, token in enumerate(self.tokens):
            if token.kind != "punct":
                continue
            if token.text in OPENING:
                stack.append(i)
            elif token.text in CLOSING:
                if not stack or OPENING[self.tokens[stack[-1]].text] != token.text:
                    raise ValueError(f"{self.path}:{self.line_of(token.start)}: unmatched bracket")
                opening = stack.pop()
                token.match = opening
                self.tokens[opening].match = i
        if stack:
            raise ValueError(f"{self.path}: a bracket is never closed")
