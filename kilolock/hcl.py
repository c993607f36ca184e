"""Finds the blocks of a configuration and what they refer to.

This is no parser of HCL's meaning: expressions are kept as tokens, of which only references are
read. What is no HCL ends the reading of a file without an error, since that is terraform's to
report; ``Source.whole`` says so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

SUFFIXES = (".tf", ".tf.json", ".tofu", ".tofu.json")

_SPACE = re.compile(r"(?:[ \t\r\ufeff]+|#[^\n]*|//[^\n]*|/\*.*?\*/)+", re.DOTALL)
_IDENT = re.compile(r"[^\W\d][\w-]*")
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_HEREDOC = re.compile(r"<<-?([^\W\d][\w-]*)[ \t]*\r?\n")
_TEXT = re.compile(r"[^\\\"$%\n]+")
_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", re.DOTALL)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\"}
_OPENING, _CLOSING = "([{", ")]}"


class Token(NamedTuple):
    """A piece of an expression: ident, str (without templates in it), number, nl, or a sign."""

    kind: str
    text: str


@dataclass
class Block:
    """A block, its attributes as tokens and the blocks in it."""

    kind: str
    labels: tuple[str, ...] = ()
    attributes: dict[str, list[Token]] = field(default_factory=dict)
    blocks: list[Block] = field(default_factory=list)

    def tokens(self) -> Iterator[Token]:
        """All that its expressions hold, blocks in it too."""
        for expression in self.attributes.values():
            yield from expression
            yield _NEWLINE
        for block in self.blocks:
            yield from block.tokens()


@dataclass
class Source:
    """What was read of one file."""

    blocks: list[Block]
    whole: bool


class _Ended(Exception):
    """What follows is no HCL."""


_NEWLINE = Token("nl", "\n")
_END = Token("end", "")


def read(text: str, *, is_json: bool = False) -> Source:
    """The blocks of a configuration file."""
    if is_json:
        try:
            return Source(_json_blocks(json.loads(text)), True)
        except (ValueError, RecursionError):
            return Source([], False)
    found: list[Block] = []
    try:
        reader = _Reader(text)
        tokens = reader.code(closing="")
        _Parser(tokens).body(found_blocks=found, found_attributes={})
    except (_Ended, RecursionError):
        return Source(found, False)
    return Source(found, True)


def references(tokens: Sequence[Token]) -> Iterator[tuple[str, ...]]:
    """What an expression refers to, without indexes; the variables of for expressions too."""
    for at, token in enumerate(tokens):
        if token.kind == "ident" and not (at and tokens[at - 1].kind == "."):
            parts, _ = _traversal(tokens, at)
            if len(parts) > 1:
                yield tuple(parts)


def address(tokens: Sequence[Token]) -> str | None:
    """The address that from, to or a depends_on names; keys that are no literals are left out."""
    tokens = [t for t in tokens if t.kind != "nl"]
    if not tokens or tokens[0].kind != "ident":
        return None
    text, at = tokens[0].text, 1
    while at < len(tokens):
        following = tokens[at + 1] if at + 1 < len(tokens) else _END
        if tokens[at].kind == "." and following.kind in ("ident", "number"):
            text, at = f"{text}.{following.text}", at + 2
        elif tokens[at].kind == "[":
            closing = tokens[at + 2] if at + 2 < len(tokens) else _END
            if following.kind not in ("str", "number") or closing.kind != "]":
                break
            text, at = f"{text}[{quoted(following)}]", at + 3
        else:
            break
    return text


def quoted(token: Token) -> str:
    """An instance key as terraform writes it into an address."""
    if token.kind == "number":
        return token.text
    return quote_key(token.text)


def quote_key(key: str) -> str:
    """A string key as terraform writes it into an address, quotes included."""
    signs = {"\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "\\": "\\\\"}
    text = "".join(signs.get(c, c) for c in key)
    text = text.replace("${", "$${").replace("%{", "%%{")
    return '"' + "".join(c if c.isprintable() else _escape(c) for c in text) + '"'


def _escape(char: str) -> str:
    number = ord(char)
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def _traversal(tokens: Sequence[Token], at: int) -> tuple[list[str], int]:
    parts = [tokens[at].text]
    at += 1
    while at + 1 < len(tokens):
        if tokens[at].kind == "." and tokens[at + 1].kind in ("ident", "number", "*"):
            if tokens[at + 1].kind == "ident":
                parts.append(tokens[at + 1].text)
            at += 2
        elif tokens[at].kind == "[":
            depth = 1
            at += 1
            while at < len(tokens) and depth:
                depth += (tokens[at].kind in _OPENING) - (tokens[at].kind in _CLOSING)
                at += 1
        else:
            break
    return parts, at


class _Reader:
    """Cuts text into tokens; a template's expressions stand in parentheses."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def code(self, closing: str) -> list[Token]:
        """Tokens up to the end of the text, or to the sign that closes a template's expression."""
        text, depth = self._text, 0
        found: list[Token] = []
        while True:
            if space := _SPACE.match(text, self._at):
                self._at = space.end()
            if self._at >= len(text):
                if closing:
                    raise _Ended
                return found
            char = text[self._at]
            if char == "\n":
                self._at += 1
                found.append(_NEWLINE)
            elif match := _IDENT.match(text, self._at):
                self._at = match.end()
                found.append(Token("ident", match.group()))
            elif match := _NUMBER.match(text, self._at):
                self._at = match.end()
                found.append(Token("number", match.group()))
            elif char == '"':
                self._at += 1
                found += self._template(None)
            elif match := _HEREDOC.match(text, self._at):
                self._at = match.end()
                found += self._template(match.group(1))
            elif text.startswith("/*", self._at):
                raise _Ended
            else:
                self._at += 1
                if char == closing and not depth:
                    return found
                depth += (char == "{") - (char == "}")
                found.append(Token(char, char))

    def template(self) -> list[Token]:
        """The whole text as a template, as JSON has its strings."""
        return self._template("")

    def _template(self, marker: str | None) -> list[Token]:
        """From behind the opening to behind the end: a quote, a marker on its line, or all."""
        text = self._text
        literal: list[str] = []
        found: list[Token] = []
        line_start = bool(marker)
        while True:
            if line_start and marker:
                end = text.find("\n", self._at)
                line = text[self._at : end if end >= 0 else len(text)]
                if line.strip() == marker:
                    self._at += len(line)
                    break
                line_start = False
            if self._at >= len(text):
                if marker == "":
                    break
                raise _Ended
            char = text[self._at]
            if char == '"' and marker is None:
                self._at += 1
                break
            if char == "\n":
                if marker is None:
                    raise _Ended
                self._at += 1
                line_start = True
                literal.append(char)
            elif char == "\\" and marker is None:
                match = _ESCAPE.match(text, self._at)
                if not match:
                    raise _Ended
                self._at = match.end()
                literal.append(_unescaped(match.group()))
            elif text.startswith(("$${", "%%{"), self._at):
                self._at += 3
                literal.append(text[self._at - 2 : self._at])
            elif text.startswith(("${", "%{"), self._at):
                self._at += 2
                found += [Token("(", "("), *self.code(closing="}"), Token(")", ")")]
            else:
                match = _TEXT.match(text, self._at)
                end = match.end() if match else self._at + 1
                literal.append(text[self._at : end])
                self._at = end
        if not found:
            return [Token("str", "".join(literal))]
        return [Token("(", "("), *found, Token(")", ")")]


class _Parser:
    """Puts tokens together to blocks and attributes."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._at = 0

    def body(
        self, found_blocks: list[Block], found_attributes: dict[str, list[Token]], end: str = "end"
    ) -> None:
        """Read up to the sign that ends a body, filling what was found."""
        while True:
            token = self._next()
            if token.kind == "nl":
                continue
            if token.kind == end:
                return
            if token.kind != "ident":
                raise _Ended
            if self._peek().kind == "=" and self._peek(1).kind != "=":
                self._at += 1
                found_attributes[token.text] = self._expression()
                continue
            labels = []
            while (label := self._next()).kind in ("ident", "str"):
                labels.append(label.text)
            if label.kind != "{":
                raise _Ended
            block = Block(token.text, tuple(labels))
            self.body(block.blocks, block.attributes, "}")
            found_blocks.append(block)

    def _expression(self) -> list[Token]:
        found: list[Token] = []
        depth = 0
        while True:
            token = self._peek()
            if token.kind == "end":
                if depth:
                    raise _Ended
                return found
            if not depth and (token.kind == "nl" or token.kind == "}"):
                return found
            depth += (token.kind in _OPENING) - (token.kind in _CLOSING)
            if depth < 0:
                raise _Ended
            found.append(token)
            self._at += 1

    def _peek(self, further: int = 0) -> Token:
        at = self._at + further
        return self._tokens[at] if at < len(self._tokens) else _END

    def _next(self) -> Token:
        token = self._peek()
        self._at += 1
        return token


def _unescaped(text: str) -> str:
    if text[1] in "uU":
        number = int(text[2:], 16)
        return chr(number) if number < 0x110000 else "\ufffd"
    return _ESCAPES.get(text[1], text[1])


# How many labels the blocks of the configuration have, and that some are given several times.
_LABELS = {
    "resource": 2,
    "data": 2,
    "ephemeral": 2,
    "module": 1,
    "variable": 1,
    "output": 1,
    "provider": 1,
    "check": 1,
    "action": 2,
    "locals": 0,
    "terraform": 0,
    "moved": 0,
    "removed": 0,
    "import": 0,
}


def _json_blocks(document: Any) -> list[Block]:
    found: list[Block] = []
    for part in document if isinstance(document, list) else [document]:
        if not isinstance(part, dict):
            continue
        for kind, content in part.items():
            if kind in _LABELS:
                found += _json_labelled(kind, (), content, _LABELS[kind])
    return found


def _json_labelled(kind: str, labels: tuple[str, ...], content: Any, depth: int) -> list[Block]:
    if isinstance(content, list):
        return [b for item in content for b in _json_labelled(kind, labels, item, depth)]
    if not isinstance(content, dict):
        return []
    if depth:
        return [
            block
            for label, inner in content.items()
            for block in _json_labelled(kind, (*labels, label), inner, depth - 1)
        ]
    attributes = {name: list(_json_tokens(value, name)) for name, value in content.items()}
    return [Block(kind, labels, attributes)]


# Where JSON has a plain string that is a reference all the same.
_PLAIN = ("depends_on", "provider", "providers", "from", "to", "replace_triggered_by")


def _json_tokens(value: Any, name: str) -> Iterator[Token]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _json_tokens(inner, key if name not in _PLAIN else name)
            yield _NEWLINE
    elif isinstance(value, list):
        for inner in value:
            yield from _json_tokens(inner, name)
            yield _NEWLINE
    elif isinstance(value, str):
        try:
            reader = _Reader(value)
            yield from reader.code(closing="") if name in _PLAIN else reader.template()
        except _Ended:
            yield Token("str", value)
    elif value is not None:
        yield Token("number" if not isinstance(value, bool) else "ident", json.dumps(value))
