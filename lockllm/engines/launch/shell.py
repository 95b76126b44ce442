"""`sh -c TEXT`, where TEXT is one simple command: split as a POSIX shell splits it, and nothing guessed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh", "busybox"})
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_REDIRECT = re.compile(r"(\d*|&)(>>|>\||>&|>|<<<|<)(&?\d+-?|&-)?")


class Refused(Exception):
    """Why a text is not one simple command whose words are known."""


class Simple(msgspec.Struct, frozen=True, kw_only=True):
    """The words of a simple command and the variables set before it."""

    argv: tuple[str, ...]
    env: Mapping[str, str]


def text_of(argv: Sequence[str]) -> tuple[str, tuple[str, ...]] | None:
    """TEXT and what follows it (`$0`, `$1` …) of a `sh -c` command line; None for a script or an interactive shell."""
    at, found = 1, False
    while at < len(argv) and argv[at].startswith(("-", "+")) and len(argv[at]) > 1:
        word = argv[at]
        if word == "--":
            at += 1
            break
        if word in ("-o", "+o", "-O", "--rcfile", "--init-file"):
            at += 2
            continue
        if not word.startswith("--") and "c" in word[1:]:
            found = True
        at += 2 if not word.startswith("--") and word.endswith("o") and len(word) > 2 else 1
    return (argv[at], tuple(argv[at + 1 :])) if found and at < len(argv) else None


def split(text: str, env: Mapping[str, str], args: Sequence[str] = ()) -> Simple:
    """The words that the shell would run. Raises Refused for anything but one simple command with known words."""
    if len(text) > 200_000:
        raise Refused("it is too long")
    words = _Reader(text, env, tuple(args)).words()
    given: dict[str, str] = {}
    while words and words[0][1] and (found := re.match(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)\Z", words[0][0], re.DOTALL)):
        given[found.group(1)] = found.group(2)
        words = words[1:]
    if not words:
        raise Refused("it runs no program")
    argv = tuple(word for word, _ in words)
    if argv[0] in _NOT_A_PROGRAM:
        raise Refused(f"`{argv[0]}` is the shell's own")
    return Simple(argv=argv, env=given)


_OWN_WORDS = (
    "eval source . if then else elif fi for while until do done case esac function { } ! [[ [ cd export set trap "
    "ulimit test unset wait read local declare alias shift"
)
_NOT_A_PROGRAM = frozenset(_OWN_WORDS.split())


class _Reader:
    """Walks the text once. A word is (text, whether it began unquoted)."""

    def __init__(self, text: str, env: Mapping[str, str], args: tuple[str, ...]) -> None:
        self.text = text.strip()
        self.env = env
        self.args = args
        self.at = 0
        self.vanished = False  # an empty `"$@"` is no word at all

    def words(self) -> list[tuple[str, bool]]:
        found: list[tuple[str, bool]] = []
        while self._skip_blanks():
            if self.text[self.at] == "#":
                raise Refused("it holds a comment")
            redirect = _REDIRECT.match(self.text, self.at)
            if redirect and redirect.end() > self.at:
                self._redirect(redirect)
                continue
            found.extend(self._word())
        return found

    def _skip_blanks(self) -> bool:
        while self.at < len(self.text):
            char = self.text[self.at]
            if char in " \t":
                self.at += 1
            elif self.text.startswith("\\\n", self.at):
                self.at += 2
            elif char == "\n":
                raise Refused("it is several commands")
            else:
                return True
        return False

    def _redirect(self, found: re.Match[str]) -> None:
        if found.group(2) == "<<<":
            raise Refused("it holds a here-string")
        self.at = found.end()
        if found.group(3) is None and self._skip_blanks():
            self._word()

    def _word(self) -> list[tuple[str, bool]]:
        """One word, which unquoted variables may split into several or into none."""
        parts: list[str] = [""]
        bare = self.text[self.at] not in "\"'"
        quoted = False
        while self.at < len(self.text):
            char = self.text[self.at]
            if char in " \t\n":
                break
            if char in ";&|()<>":
                raise Refused("it is several commands" if char in ";&|\n" else f"it holds `{char}`")
            if char == "\\":
                parts[-1] += self.text[self.at + 1 : self.at + 2].replace("\n", "")
                self.at += 2
                quoted = True
            elif char == "'":
                end = self.text.find("'", self.at + 1)
                if end < 0:
                    raise Refused("a quote is not closed")
                parts[-1] += self.text[self.at + 1 : end]
                self.at, quoted = end + 1, True
            elif char == '"':
                self._double(parts)
                quoted = True
            elif char in "$`":
                self._spread(parts, self._variable())
            else:
                if char in "*?[" or (char == "{" and re.match(r"\{[^}\s]*(,|\.\.)[^}\s]*\}", self.text[self.at :])):
                    raise Refused(f"the shell expands `{char}`")
                if char == "~" and parts == [""] and not quoted:
                    char = self._home()
                else:
                    self.at += 1
                parts[-1] += char
        if parts == [""] and (self.vanished or not quoted):
            self.vanished = False
            return []
        return [(part, bare and number == 0) for number, part in enumerate(parts)]

    def _home(self) -> str:
        if not re.match(r"~(?=/|\s|\Z)", self.text[self.at :]) or "HOME" not in self.env:
            raise Refused("the shell expands `~`")
        self.at += 1
        return self.env["HOME"]

    def _double(self, parts: list[str]) -> None:
        self.at += 1
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == '"':
                self.at += 1
                return
            if char == "\\" and self.text[self.at + 1 : self.at + 2] in tuple('$`"\\\n'):
                parts[-1] += self.text[self.at + 1].replace("\n", "")
                self.at += 2
            elif char in "$`":
                value = self._variable()
                if isinstance(value, tuple):
                    self.vanished = not value
                    parts[-1] += value[0] if value else ""
                    parts.extend(value[1:])
                else:
                    parts[-1] += value
            else:
                parts[-1] += char
                self.at += 1
        raise Refused("a quote is not closed")

    def _spread(self, parts: list[str], value: str | tuple[str, ...]) -> None:
        """Field splitting of an unquoted variable."""
        fields = value.split() if isinstance(value, str) else [field for word in value for field in word.split()]
        text = value if isinstance(value, str) else " ".join(value)
        if any(char in text for char in "*?["):
            raise Refused("a variable holds a pattern that the shell expands")
        if not fields:
            return
        if text[:1].isspace() and parts[-1]:
            parts.append("")
        parts[-1] += fields[0]
        parts.extend(fields[1:])

    def _variable(self) -> str | tuple[str, ...]:
        text = self.text[self.at :]
        if text.startswith(("`", "$(")):
            raise Refused("it runs another command for a word")
        found = re.match(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*|[@*0-9])\}|([A-Za-z_][A-Za-z0-9_]*|[@*0-9]))", text)
        if found is None:
            odd = re.match(r"\$\{#?!?([A-Za-z_][A-Za-z0-9_]*)(:?[-+=?])?", text)
            if odd is None:
                if re.match(r"\$(?=[\s\"]|\Z)", text):
                    self.at += 1
                    return "$"
                raise Refused("the shell fills in a variable")
            return self._with_default(odd)
        self.at += found.end()
        name = found.group(1) or found.group(2)
        if name in ("@", "*"):
            return self.args[1:]
        if name.isdigit():
            return self.args[int(name)] if int(name) < len(self.args) else ""
        if name not in self.env:
            raise Refused(f"the shell fills in {name}, which is not set here")
        return self.env[name]

    def _with_default(self, found: re.Match[str]) -> str:
        """`${NAME:-text}`: only where the variable is set, or the operator says nothing about an unset one."""
        name, operator = found.group(1), found.group(2)
        end = self.text.find("}", self.at)
        if operator is None or end < 0 or "{" in self.text[self.at + 2 : end] or found.group(0)[2] in "#!":
            raise Refused(f"the shell fills in {name}")
        value = self.env.get(name)
        if value is None or (operator[0] == ":" and not value) or "+" in operator:
            raise Refused(f"the shell fills in {name}, which is not set here")
        self.at = end + 1
        return value
