"""The words of one simple command of a shell, expanded as a POSIX shell expands them; what is not sure is refused.

Source: POSIX.1-2017, Shell Command Language, 2.2 (quoting), 2.6 (expansions), 2.9.1 (simple commands), and the bash and dash
manuals where the two differ: what they read differently is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh", "busybox"})
NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_ASSIGN = re.compile(rf"({NAME})=")
_REDIRECT = re.compile(r"(\d*|&)(>>|>\||>&|>|<<<|<<-|<<|<&|<>|<)(&?\d+-?(?=[\s;|]|\Z)|&-)?")
_PLAIN = re.compile(rf"\$(?:\{{({NAME}|[@*]|\d+)\}}|({NAME}|[@*0-9]))")
_BRACED = re.compile(rf"\$\{{({NAME}|\d+)(:?[-+=?])")
_OF_KUBERNETES = re.compile(r"\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)")
_OF_THE_SHELL = frozenset(
    "PWD OLDPWD IFS SHLVL RANDOM SRANDOM SECONDS LINENO PPID UID EUID GROUPS HOSTNAME OPTIND OPTARG REPLY _ BASHPID "
    "BASH BASH_VERSION BASH_SOURCE BASHOPTS SHELLOPTS DIRSTACK FUNCNAME EPOCHSECONDS EPOCHREALTIME PIPESTATUS".split()
)
"""Variables that the shell itself sets, whatever the environment holds."""


class Refused(Exception):
    """Why a text is not read."""


class Scope(msgspec.Struct, kw_only=True):
    """What a shell's text may refer to: its variables and positional parameters, and those whose value is not known."""

    variables: dict[str, str]
    args: tuple[str, ...] = ()  # $0, $1 ...
    unknown: dict[str, str] = {}  # name -> why its value is not known
    tainted: str = ""  # why no variable is known any more
    splits: bool = True  # zsh does not split an unquoted variable
    defaults: list[str] = []  # variables that are not set, whose default in the text was taken

    def value(self, name: str) -> str | None:
        """The value of a variable, None where it is unset. Raises Refused where it is not known."""
        if self.tainted:
            raise Refused(f"{name} may come from {self.tainted}")
        if name in self.unknown:
            raise Refused(f"the value of {name} is not known: {self.unknown[name]}")
        if name in _OF_THE_SHELL:
            raise Refused(f"the shell itself sets {name}")
        return self.variables.get(name)


class Simple(msgspec.Struct, frozen=True, kw_only=True):
    """A simple command: its words, the variables set before it, and whether it writes to a file."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    writes: bool = False


def text_of(argv: Sequence[str]) -> tuple[str, tuple[str, ...]] | None:
    """TEXT and what follows it (`$0`, `$1` …) of a `sh -c` command line; None for a script or an interactive shell."""
    at, commands = 1, False
    while at < len(argv) and argv[at].startswith(("-", "+")) and len(argv[at]) > 1:
        word = argv[at]
        if word == "--":
            at += 1
            break
        if word in ("-o", "+o", "-O", "--rcfile", "--init-file"):
            at += 2
            continue
        if not word.startswith("--") and "c" in word[1:]:
            commands = True
        at += 2 if not word.startswith("--") and word.endswith("o") and len(word) > 2 else 1
    return (argv[at], tuple(argv[at + 1 :])) if commands and at < len(argv) else None


def simple(text: str, scope: Scope, declares: bool = False) -> Simple:
    """The words that the shell would run for one simple command. `declares`: words like `A=1` are assignments everywhere.

    Raises Refused where a word of it is not sure. Assignments and `${NAME:=text}` change the scope only where no program
    follows; the caller sees them in `env`.
    """
    return _Reader(text, scope).simple(declares)


def closing(text: str, at: int) -> int:
    """Where the quote, escape or expansion that begins at a place ends; the next place where none begins there."""
    char = text[at]
    if char == "\\":
        return min(at + 2, len(text))
    if char in "'`":
        end = text.find(char, at + 1)
        while char == "`" and end > 0 and text[end - 1] == "\\":
            end = text.find(char, end + 1)
        if end < 0:
            raise Refused("a quote is not closed")
        return end + 1
    if char == '"':
        return _inside(text, at + 1, '"', "\\$`")
    if text.startswith("${", at):
        return _inside(text, at + 2, "}", "\\'\"$`")
    if text.startswith("$(", at):
        return _inside(text, at + 2, ")", "\\'\"$`(")
    if char == "(":
        return _inside(text, at + 1, ")", "\\'\"$`(")
    return at + 1


def _inside(text: str, at: int, end: str, opens: str) -> int:
    while at < len(text):
        if text[at] == end:
            return at + 1
        at = closing(text, at) if text[at] in opens else at + 1
    raise Refused("a quote is not closed" if end == '"' else f"a `{end}` is missing")


class _Word:
    """Fields that one word becomes: text, and whether a quote made it (an empty one then stays)."""

    def __init__(self) -> None:
        self.fields: list[list[str | bool]] = [["", False]]

    def add(self, text: str, *, quoted: bool = False) -> None:
        self.fields[-1][0] = f"{self.fields[-1][0]}{text}"
        self.fields[-1][1] = bool(self.fields[-1][1]) or quoted

    def cut(self) -> None:
        """Begin a new field, unless nothing stands in the last one."""
        if self.fields[-1][0] or self.fields[-1][1]:
            self.fields.append(["", False])

    def texts(self) -> list[str]:
        return [str(text) for text, quoted in self.fields if text or quoted]


class _Reader:
    """Walks the text of one simple command once."""

    def __init__(self, text: str, scope: Scope) -> None:
        self.text = text
        self.scope = scope
        self.at = 0
        self.writes = False

    def simple(self, declares: bool) -> Simple:
        argv: list[str] = []
        env: dict[str, str] = {}
        while self._skip_blanks():
            redirect = _REDIRECT.match(self.text, self.at)
            if redirect:
                self._redirect(redirect)
                continue
            assign = _ASSIGN.match(self.text, self.at)
            if assign and (not argv or declares):
                self.at = assign.end()
                env[assign.group(1)] = self._assigned(env)
            elif not argv and re.compile(rf"{NAME}\+=").match(self.text, self.at):
                raise Refused("it appends to a variable")
            else:
                argv += self.word().texts()
        return Simple(argv=tuple(argv), env=env, writes=self.writes)

    def _assigned(self, env: Mapping[str, str]) -> str:
        """The value after `NAME=`: never split, and seen by the assignments after it."""
        before = self.scope
        self.scope = msgspec.structs.replace(before, variables={**before.variables, **env})
        if self.text[self.at : self.at + 1] == "(":
            raise Refused("it holds an array")
        value = "".join(self.word(assigned=True).texts())
        self.scope = before
        return value

    def _skip_blanks(self) -> bool:
        while self.at < len(self.text):
            if self.text[self.at] in " \t\n":
                self.at += 1
            elif self.text.startswith("\\\n", self.at):
                self.at += 2
            else:
                return True
        return False

    def _redirect(self, redirect: re.Match[str]) -> None:
        self.at = redirect.end()
        descriptor = redirect.group(3) is not None
        if not descriptor and self._skip_blanks():
            start = self.at
            try:
                target = "".join(self.word().texts())
            except Refused:
                target = self.text[start : self.at] or "?"
                self.at = start + len(re.match(r"\S*", self.text[start:]).group())  # type: ignore[union-attr]
            if ">" in redirect.group(2) and not target.startswith("/dev/"):
                self.writes = True

    def word(self, *, assigned: bool = False, until: str = " \t\n") -> _Word:
        """One word, which unquoted variables may split into several or into none."""
        word = _Word()
        while self.at < len(self.text) and self.text[self.at] not in until:
            char = self.text[self.at]
            if char == "\\":
                following = self.text[self.at + 1 : self.at + 2]
                word.add("" if following == "\n" else following, quoted=following != "\n")
                self.at += 2
            elif char == "'":
                end = self.text.index("'", self.at + 1)
                word.add(self.text[self.at + 1 : end], quoted=True)
                self.at = end + 1
            elif char == '"':
                self.at += 1
                self._double(word, '"')
                self.at += 1
            elif char in "$`":
                self._spread(word, assigned=assigned)
            elif char == "~" and self._at_tilde(word, assigned):
                word.add(self._home(assigned), quoted=True)
            elif not assigned and (char in "*?[" or (char == "{" and re.search(r",|\.\.", self.text[self.at :]))):
                raise Refused(f"the shell expands `{char}`")
            elif char in "()<>;|&":
                raise Refused(f"it holds `{char}`")
            else:
                word.add(char)
                self.at += 1
        return word

    def _at_tilde(self, word: _Word, assigned: bool) -> bool:
        if assigned:
            return self.text[self.at - 1] in "=:"
        return word.fields == [["", False]]

    def _home(self, assigned: bool) -> str:
        end = r"~(?=[/:\s]|\Z)" if assigned else r"~(?=[/\s]|\Z)"
        home = self.scope.value("HOME")
        if not re.match(end, self.text[self.at :]) or not home:
            raise Refused("the shell expands `~`")
        self.at += 1
        return home

    def _double(self, word: _Word, until: str) -> None:
        """Text between double quotes, or the operand of a variable between them."""
        word.add("", quoted=True)
        while self.at < len(self.text) and self.text[self.at] not in until:
            char = self.text[self.at]
            if char == "\\" and self.text[self.at + 1 : self.at + 2] in tuple('$`"\\\n'):
                word.add(self.text[self.at + 1].replace("\n", ""), quoted=True)
                self.at += 2
            elif char in "$`":
                value = self._value(quoted=True)
                if isinstance(value, _Word):
                    value = tuple(str(text) for text, _ in value.fields)
                several = (value,) if isinstance(value, str) else value
                if isinstance(value, tuple) and not value and word.fields[-1][0] == "":
                    word.fields[-1][1] = False  # an empty `"$@"` is no word at all
                for number, each in enumerate(several):
                    if number:
                        word.fields.append(["", True])
                    word.add(each, quoted=True)
            else:
                word.add(char, quoted=True)
                self.at += 1

    def _spread(self, word: _Word, *, assigned: bool) -> None:
        """Field splitting of an unquoted variable."""
        value = self._value(quoted=False)
        if isinstance(value, _Word):
            if assigned and len(value.fields) > 1:
                raise Refused("a default holds blanks")
            for number, (text, solid) in enumerate(value.fields):
                word.cut() if number else None
                word.add(str(text), quoted=bool(solid))
            return
        several = (value,) if isinstance(value, str) else value
        for number, text in enumerate(several):
            if number:
                word.add(" ") if assigned else word.cut()
            if assigned:
                word.add(text)
                continue
            if any(char in text for char in "*?["):
                raise Refused("a variable holds a pattern that the shell expands")
            if not self.scope.splits and len(text.split()) > 1:
                raise Refused("shells split a variable that holds blanks differently")
            word.cut() if text[:1].isspace() else None
            for place, field in enumerate(text.split()):
                word.cut() if place else None
                word.add(field)
            word.cut() if text[-1:].isspace() else None

    def _value(self, *, quoted: bool) -> str | tuple[str, ...] | _Word:
        text = self.text[self.at :]
        of_kubernetes = _OF_KUBERNETES.match(text)
        if of_kubernetes and of_kubernetes.group(1).isupper():
            name = of_kubernetes.group(1)
            raise Refused(f"$({name}) is filled in by Kubernetes alone: write its value, or ${{{name}}} for a shell")
        if text.startswith(("`", "$(")):
            raise Refused("it runs another command for a word")
        plain = _PLAIN.match(text)
        if plain is None:
            braced = _BRACED.match(text)
            if braced is not None:
                return self._with_operand(braced, quoted)
            if re.match(r"\$(?=\s|\Z)" if not quoted else r"\$(?=[\s\"]|\Z)", text):
                self.at += 1
                return "$"
            raise Refused("the shell fills in a variable")
        self.at += plain.end()
        name = plain.group(1) or plain.group(2)
        if name in ("@", "*"):
            words = self._args()[1:]
            return " ".join(words) if name == "*" and quoted else words
        value = self._variable(name)
        if value is None:
            raise Refused(f"the shell fills in {name}, which is not set here: set it for this command too")
        return value

    def _args(self) -> tuple[str, ...]:
        if self.scope.tainted:
            raise Refused(f"its arguments may come from {self.scope.tainted}")
        return self.scope.args

    def _variable(self, name: str) -> str | None:
        if name.isdigit():
            args = self._args()
            return args[int(name)] if int(name) < len(args) else ""
        return self.scope.value(name)

    def _with_operand(self, found: re.Match[str], quoted: bool) -> str | _Word:
        """`${NAME:-text}` and its like: the value, or the text after the operator."""
        name, operator = found.group(1), found.group(2)
        end = closing(self.text, self.at)
        operand = self.text[self.at + found.end() : end - 1]
        self.at = end
        value = self._variable(name)
        empty = value is None or (operator[0] == ":" and not value)
        kind = operator[-1]
        if kind == "+":
            return "" if empty else self._operand(operand, quoted)
        if not empty:
            return value or ""
        if kind == "?":
            raise Refused(f"the shell fills in {name}, which is not set here: set it for this command too")
        self.scope.defaults.append(name)
        taken = self._operand(operand, quoted)
        if kind == "=":
            if len(taken.fields) > 1:
                raise Refused(f"the default of {name} holds blanks")
            self.scope.variables[name] = "".join(taken.texts())
        return taken

    def _operand(self, text: str, quoted: bool) -> _Word:
        """The fields of an operand: its unquoted blanks separate them."""
        inner = _Reader(text, self.scope)
        whole = _Word()
        if quoted:
            inner._double(whole, "")
            return whole
        if text != text.strip():
            raise Refused("blanks stand around a default")
        while inner._skip_blanks():
            whole.cut()
            for number, (field, solid) in enumerate(inner.word().fields):
                whole.cut() if number else None
                whole.add(str(field), quoted=bool(solid))
        return whole
