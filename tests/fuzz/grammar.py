"""Chat templates by chance: built of everything that Jinja's grammar and sandbox know, or real ones spoiled where their syntax stands."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

from jinja2.filters import FILTERS
from jinja2.tests import TESTS

REAL = tuple(
    path.read_text()
    for path in sorted((Path(__file__).parent.parent / "prompt" / "data" / "templates").glob("*.jinja"))
)
"""Templates of real families, and small ones for one rule each."""
NAMES = (
    "messages", "message", "m", "tools", "documents", "bos_token", "eos_token", "add_generation_prompt", "enable_thinking",
    "ns", "x", "loop", "self", "caller", "varargs", "kwargs", "a", "super", "dict", "namespace", "cycler", "joiner", "range",
    "lipsum", "raise_exception", "strftime_now", "none", "true", "nothing", "_", "__class__", "messages[0]", "messages[-1]",
)  # fmt: skip
ESCAPES = (
    "lipsum.__globals__.os.environ", "lipsum.__globals__['os'].environ", "cycler.__init__.__globals__.os.environ",
    "joiner.__init__.__globals__.os.environ", "(lipsum|attr('__globals__')).os.environ", "self.__init__.__globals__.os",
    "namespace.__init__.__globals__.os.environ", "raise_exception.__globals__", "strftime_now.__globals__.json",
    "self._TemplateReference__context.environment", "'{0.__globals__[os].environ}'.format(lipsum)",
    "['{0.__globals__[os].environ}']|map('format', lipsum)|list", "('{0.__globals__[os].environ}'|attr('format'))(lipsum)",
    "'{x.__globals__[os].environ}'.format_map({'x': lipsum})", "''.__class__.__mro__[1].__subclasses__()", "dict.__class__",
    "(messages|map('upper')).gi_frame.f_globals", "messages|map(attribute='__class__.__mro__')|list",
    "messages|groupby('__class__.__base__')|list", "[lipsum]|sum(attribute='__globals__.os.environ')", "loop.__init__.__globals__",
    "[lipsum]|map(attribute='__globals__.os.environ')|list", "[lipsum]|join(',', attribute='__globals__.os.environ')",
    "dict(a='{0.__globals__[os].environ}'.format)['a'](lipsum)", "[lipsum]|sort(attribute='__globals__.os.environ.HF_TOKEN')",
)  # fmt: skip
"""The ways out of a sandbox that were found in Jinja over the years; without one, several of them print the environment."""
FIELDS = (
    "role", "content", "tool_calls", "function", "arguments", "name", "index", "index0", "first", "last", "previtem", "length",
    "depth", "cycle", "changed", "revindex", "items", "keys", "get", "split", "strip", "startswith", "format", "format_map",
    "append", "pop", "update", "copy", "join", "encode", "title", "zfill", "center", "ljust", "expandtabs", "translate",
    "__class__", "__init__", "__globals__", "__dict__", "__mro__", "__subclasses__", "__call__", "__getattribute__", "mro",
    "gi_frame", "gi_code", "f_globals", "f_back", "cr_frame", "ag_frame", "tb_frame", "func_globals", "im_func", "next", "reset",
    "_TemplateReference__context", "_Context__self", "environment", "name", "exported_vars", "fromkeys", "__html__", "__len__",
)  # fmt: skip
TEXTS = (
    "", "x", "role", "content", "user", "assistant", "\\n", "\\ud800", "\\x00", "\\x1b[31m", "%s", "%d", "%*d", "%1000000000d",
    "%(a)s", "%", "{}", "{0}", "{0.__class__}", "{0[0]}", "{:1000000000}", "{x.__init__.__globals__}", "%Y-%m-%d", "%-d %B",
    "%1000d", "%Q%E", "__class__", "/etc/passwd", "os", "<b>&amp;", "http://a.b/(c)", "www.a.com", "a@b.c", "\\u202e", "٣",
    "<|im_start|>", "CONTINUE_FINAL_MESSAGE_TAG ", "{{ x }}", "é", "\U0001f5fc",
)  # fmt: skip
NUMBERS = (
    "0",
    "1",
    "2",
    "-1",
    "3",
    "9",
    "20",
    "1000",
    "99999",
    "10**9",
    "2**64",
    "1.5",
    "1e308",
    "0x10",
    "1_000",
    "9" * 40,
)
BINARY = ("+", "-", "*", "/", "//", "%", "**", "~", "and", "or", "==", "!=", "<", ">=", "in", "not in")
ODD = (
    "{%",
    "%}",
    "{{",
    "}}",
    "{#",
    "#}",
    "-",
    "|",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "'",
    '"',
    "~",
    ".",
    ",",
    "=",
    "*",
    "\n",
    "  ",
    "\\",
)
_WORDS = re.compile(r"\{[{%#][-+]?|[-+]?[}%#]\}|\w+|\s+|.", re.DOTALL)


def template(random: Random) -> str:
    """One template: built, spoiled, or both."""
    if random.random() < 0.55:
        return Builder(random).body(random.choice((1, 2, 2, 3, 3, 4)))
    return spoiled(random.choice(REAL), random)


def spoiled(text: str, random: Random) -> str:
    """A template with some of its words taken away, doubled, moved, or replaced by what may stand there and by what may not."""
    words = _WORDS.findall(text) or [""]
    build = Builder(random)
    for _ in range(random.choice((1, 1, 1, 2, 3, 8))):
        at = random.randrange(len(words))
        how = random.randrange(8)
        if how == 0:
            del words[at : at + random.choice((1, 1, 2, 5))]
        elif how == 1:
            words[at:at] = words[at : at + random.choice((1, 3, 20))] * random.choice((1, 1, 2, 30))
        elif how == 2:
            words[at] = build.expression(2)
        elif how == 3:
            words[at:at] = [build.statement(2)]
        elif how == 4:
            words[at] = random.choice(ODD)
        elif how == 5:
            words[at] = random.choice(words)
        elif how == 6:
            names = [each for each, word in enumerate(words) if word.isidentifier()]
            words[random.choice(names or [at])] = random.choice((*NAMES, *FIELDS))
        elif random.random() < 0.3:
            words = words[at:] if random.random() < 0.5 else words[:at]
        words = words or [""]
    return "".join(words)


class Builder:
    """Sentences of the grammar, as deep as is asked, with chance in every choice."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def body(self, depth: int) -> str:
        return "".join(self.statement(depth) for _ in range(self.random.randrange(1, 5)))

    def statement(self, depth: int) -> str:
        """Text, an output, or a block with everything in it."""
        random = self.random
        if depth <= 0 or random.random() < 0.35:
            return random.choice(
                ("text ", "\n", "  \n ", self._output(depth), self._output(depth), self._output(depth))
            )
        made = random.choice(
            (
                self._for,
                self._for,
                self._if,
                self._if,
                self._set,
                self._set,
                self._macro,
                self._call,
                self._block,
                self._wrapped,
            )
        )
        return (self._rare if random.random() < 0.02 else made)(depth - 1)

    def expression(self, depth: int) -> str:
        """Anything that has a value, or should have one."""
        random = self.random
        if depth <= 0:
            return random.choice(
                (random.choice(NAMES), random.choice(NAMES), random.choice(NUMBERS), self._text(), self._escape())
            )
        inner = self.expression(depth - 1)
        how = random.randrange(12)
        if how == 0:
            return f"({inner}|default({random.choice(('messages', 'm', '1', 'x'))}, true))"
        if how <= 2:
            return f"{inner}|{self._filter(depth - 1)}"
        if how <= 4:
            return f"({inner}).{random.choice(FIELDS)}" + (self._arguments(depth - 1) if random.random() < 0.5 else "")
        if how == 5:
            return f"({inner})[{self._subscript(depth - 1)}]"
        if how == 6:
            return f"({inner} {random.choice(BINARY)} {self.expression(depth - 1)})"
        if how == 7:
            return f"{inner} is {random.choice(('', 'not '))}{self._test(depth - 1)}"
        if how == 8:
            return f"{random.choice(NAMES)}{self._arguments(depth - 1)}"
        if how == 9:
            return f"({inner} if {self.expression(depth - 1)} else {self.expression(depth - 1)})"
        if how == 10:
            return f"{random.choice(('not ', '-', '+'))}{inner}"
        return random.choice(
            ("[{}]", "({},)", "{{'a': {}}}", "{{{}: 1}}", "dict(a={})", "namespace(x={})", "({})")
        ).format(inner)

    def _escape(self) -> str:
        return self.random.choice(ESCAPES) if self.random.random() < 0.3 else self.random.choice(NAMES)

    def _text(self) -> str:
        return "'" + self.random.choice(TEXTS) + "'" + self.random.choice(("", "", "", "*3", "*1000", "*10**8"))

    def _filter(self, depth: int) -> str:
        name = self.random.choice(_FILTERS)
        return name + (self._arguments(depth) if self.random.random() < 0.4 else "")

    def _test(self, depth: int) -> str:
        name = self.random.choice(_TESTS)
        return name + (self._arguments(depth) if self.random.random() < 0.3 else "")

    def _arguments(self, depth: int) -> str:
        random = self.random
        given = [self.expression(depth - 1) for _ in range(random.choice((0, 1, 1, 1, 2, 3)))]
        if random.random() < 0.3:
            keys = (
                "attribute",
                "indent",
                "default",
                "n",
                "width",
                "start",
                "x",
                "caller",
                "by",
                "separators",
                "_x",
                "html",
            )
            given.append(f"{random.choice(keys)}={self.expression(depth - 1)}")
        if random.random() < 0.05:
            given.append(random.choice(("*", "**")) + self.expression(depth - 1))
        return "(" + ", ".join(given) + ")"

    def _subscript(self, depth: int) -> str:
        one = self.expression(depth - 1)
        return self.random.choice(
            (one, f"'{self.random.choice(FIELDS)}'", "::-1", f"{one}:", f":{one}", f"{one}:{one}:{one}")
        )

    def _tag(self, words: str) -> str:
        return "{%" + self.random.choice(("", "", "-", "+")) + f" {words} " + self.random.choice(("", "", "-")) + "%}"

    def _output(self, depth: int) -> str:
        return (
            "{{" + self.random.choice(("", "-")) + f" {self.expression(depth)} " + self.random.choice(("", "-")) + "}}"
        )

    def _for(self, depth: int) -> str:
        random = self.random
        over = random.choice(("messages", "messages", "range(3)", "m.content", "tools", "x", self.expression(depth)))
        target = random.choice(("m", "m", "message", "x", "a", "a, b"))
        rest = random.choice(("", "", "", f" if {self.expression(depth)}", " recursive"))
        inner = random.choice(
            ("", "", "", self._tag("break"), self._tag("continue"), "{{ loop(x) }}", self._tag("else"))
        )
        return self._tag(f"for {target} in {over}{rest}") + self.body(depth) + inner + self._tag("endfor")

    def _if(self, depth: int) -> str:
        rest = self.random.choice(
            ("", self._tag("else") + self.body(depth - 1), self._tag("elif x") + self.body(depth - 1))
        )
        return self._tag(f"if {self.expression(depth)}") + self.body(depth) + rest + self._tag("endif")

    def _set(self, depth: int) -> str:
        target = self.random.choice(("x", "ns", "ns.x", "a, x", "m", "messages", "ns.y", "bos_token"))
        if self.random.random() < 0.2:
            return self._tag(f"set {target}") + self.body(depth) + self._tag("endset")
        return self._tag(f"set {target} = {self.expression(depth)}")

    def _macro(self, depth: int) -> str:
        signature = self.random.choice(("a()", "a(x)", "a(x=1)", "a(x, b=messages)", "caller()", "a(x, caller=none)"))
        made = self._tag(f"macro {signature}") + self.body(depth) + self._tag("endmacro")
        return made + self.random.choice(
            ("", "{{ a() }}", "{{ a(1) }}", "{{ a(x=2) }}", "{{ a.name }}{{ a.__init__ }}")
        )

    def _call(self, depth: int) -> str:
        if self.random.random() < 0.5:
            return "{% set ns = namespace(x=" + self.expression(depth) + ") %}" + self.body(depth)
        return (
            self._tag(f"call{self.random.choice(('', '(x)'))} a({self.expression(depth)})")
            + self.body(depth)
            + self._tag("endcall")
        )

    def _block(self, depth: int) -> str:
        name = self.random.choice(("b", "b", f"b{self.random.randrange(1000)}"))
        return (
            self._tag(f"block {name}{self.random.choice(('', ' scoped'))}") + self.body(depth) + self._tag("endblock")
        )

    def _wrapped(self, depth: int) -> str:
        word, end = self.random.choice((
            ("generation", "endgeneration"), (f"filter {self._filter(depth)}", "endfilter"), ("raw", "endraw"),
            (f"with x = {self.expression(depth)}", "endwith"), ("autoescape true", "endautoescape"),
        ))  # fmt: skip
        return self._tag(word) + self.body(depth) + self._tag(end)

    def _rare(self, depth: int) -> str:
        return self.random.choice((
            self._tag(f"include {self.expression(depth)}"), self._tag(f"extends {self.expression(depth)}"),
            self._tag(f"import {self.expression(depth)} as x"), self._tag("from 'x' import y"), self._tag("do x"),
            "{# " + self.body(depth) + " #}", self._tag("debug"), self._tag("trans"), "{{ self.b() }}", "{{ super() }}",
        ))  # fmt: skip


_FILTERS = tuple(sorted(FILTERS))
_TESTS = tuple(sorted(name for name in TESTS if name.isidentifier()))
