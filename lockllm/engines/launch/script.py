"""A text of a shell, read for the one command in it that starts an engine: `set -e; export A=1; exec vllm serve M 2>&1 | tee log`.

The text is walked as a shell would run it, as far as it runs straight on: what `export`, `cd` and `set` change is followed,
and a value that hangs on the outcome of another command is not known. Nothing is guessed: where the command of the engine
cannot be read surely, the reason is raised, and what else the text does to the host is named.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from lockllm.engines.launch import shell
from lockllm.engines.launch.forms import hint
from lockllm.engines.launch.shell import Refused, Scope, Simple

_LONGEST = 200_000
_SETS = frozenset({"export", "readonly"})
_OPAQUE = frozenset(
    "source . eval read declare typeset local alias shift getopts mapfile readarray let enable builtin coproc".split()
)
"""Words of the shell after which no variable is known for sure."""
_QUIET = frozenset(
    ": true false echo printf sleep test [ [[ ls cat date whoami id hostname uname nvidia-smi rocm-smi ulimit umask trap "
    "wait kill ps pwd which type hash shopt set unset cd pushd exit return exec export readonly command env nproc free df "
    "mkdir sync curl wget nc ping".split()
)
"""What may run before a server and changes nothing that the server reads, unless it writes to a file."""
_NEVER_FAILS = frozenset({":", "true", "echo", "set", "export", "readonly", "unset", "umask", "trap"})
_OPENS, _GOES_ON, _ENDS = ("if", "while", "until"), ("then", "else", "elif", "do", "!"), ("fi", "done")
_OF_BASH = frozenset({"bash", "zsh", "ksh"})
_OF_THE_SHELL = _SETS | {"unset", "set", "cd", "pushd"}
_PIECE = re.compile(r"\s*(\S+)")
_ASSIGNS = re.compile(rf"\s*{shell.NAME}\+?=")
_ONLY_ASSIGNS = re.compile(rf"\s*({shell.NAME}=[^\s$`]*\s*)+\Z")
_LOST = "the words after the text only fill $0, $1 and so on, and reach no command"
_HOSTS = re.compile(r"tritonserver|mlc_llm|dynamo\.")


def _names_a_server(text: str) -> bool:
    """Whether a piece of the text may start an engine, or a host of one."""
    return bool(hint().search(text) or _HOSTS.search(text))


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """One simple command of a text, as it stands there."""

    text: str
    after: str = ";"  # what joins it to the piece before: `;`, `&&`, `||` or `|`
    ends: str = ";"  # what follows it, `&` for a command in the background
    branch: str = ""  # the `if`, `for` or `while` that it stands in

    @property
    def word(self) -> str:
        """Its first word, unexpanded."""
        found = _PIECE.match(self.text)
        return found.group(1) if found else ""


class Read(msgspec.Struct, frozen=True, kw_only=True):
    """The engine's command of a text."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    warnings: tuple[str, ...] = ()


Starts = Callable[[Sequence[str], Mapping[str, str]], bool]
"""Whether a command with these words and variables starts an engine."""


def read(program: str, text: str, env: Mapping[str, str], args: Sequence[str], starts: Starts, most: int = 200) -> Read:
    """The command that starts the engine. Raises Refused with the reason where it is not sure, or it holds more commands."""
    if len(text) > _LONGEST:
        raise Refused("it is too long")
    if "IFS" in env:
        raise Refused("IFS is set: how words are split is not known")
    walk = _Walk(env, args, program != "zsh", starts)
    several = tuple(itertools.islice(pieces(text, program in _OF_BASH), most + 1))
    if len(several) > most:
        raise Refused("it holds too many commands")
    walk.run(several)
    return walk.result(text, args)


def pieces(text: str, of_bash: bool = True) -> Iterator[Piece]:
    """The simple commands of a text in order. Raises Refused for a construct that is not read."""
    branches: list[str] = []
    for piece in _split(text, of_bash):
        rest = piece.text.strip()
        while rest:
            word = _PIECE.match(rest).group(1)  # type: ignore[union-attr]
            if word in _OPENS or word == "for":
                branches.append(word)
            elif word in _ENDS and branches:
                branches.pop()
                rest = ""
                break
            elif word not in _GOES_ON:
                break
            if word == "for":
                break
            rest = rest[len(word) :].strip()
        _refuse_construct(rest)
        yield msgspec.structs.replace(piece, text=rest, branch=branches[-1] if branches else "")


def _refuse_construct(text: str) -> None:
    found = re.match(r"(case|select|function|\{|\(\(|\()(?=\s|\()|(\()", text)
    if found:
        names = {"case": "`case`", "select": "`select`", "function": "a function", "{": "a group `{ … }`"}
        raise Refused(f"it holds {names.get(found.group(1) or '', 'a subshell `( … )`')}")
    if re.match(rf"{shell.NAME}\s*\(\s*\)", text):
        raise Refused("it holds a function")
    if re.match(rf"{shell.NAME}\+?=\(", text):
        raise Refused("it holds an array")


def _split(text: str, of_bash: bool) -> Iterator[Piece]:
    at = start = 0
    after = ";"
    documents: list[tuple[str, bool]] = []
    while at < len(text):
        char = text[at]
        if text.startswith("[[", at) and not text[start:at].strip():
            end = re.compile(r"\s\]\](?=[\s;&|]|\Z)").search(text, at)
            if end is None:
                raise Refused("`[[` is not closed")
            at = end.end()
            continue
        if char == "#" and (at == 0 or text[at - 1] in " \t\n;&|"):
            end_of_line = text.find("\n", at)
            text = text[:at] + (text[end_of_line:] if end_of_line >= 0 else "")
            continue
        if text.startswith("<<<", at):
            at += 3
            continue
        if text.startswith("<<", at):
            at, document = _delimiter(text, at)
            documents.append(document)
            continue
        if text.startswith((">(", "<("), at):
            raise Refused(f"it holds `{text[at : at + 2]}…)`")
        operator = _operator(text, at, of_bash)
        if operator:
            ends = {"|&": "|", "\n": ";"}.get(operator, operator)
            if operator == ";;":
                raise Refused("it holds `case`")
            if text[start:at].strip():
                yield Piece(text=text[start:at], after=after, ends=ends)
                after = ends if ends in ("&&", "||", "|") else ";"
            elif operator != "\n":
                raise Refused(f"nothing stands before `{operator}`")
            at += len(operator)
            if operator == "\n" and documents:
                at = _bodies(text, at, documents)
            start = at
            continue
        at = shell.closing(text, at) if char in "\\'\"`$" else at + 1
    if text[start:].strip():
        yield Piece(text=text[start:], after=after)


def _operator(text: str, at: int, of_bash: bool) -> str:
    """The operator that ends a command at this place; empty where none stands there."""
    for each in ("&&", "||", "|&", ";;"):
        if text.startswith(each, at) and (each != "|&" or of_bash):
            return each
    if text[at] == "&":
        redirects = text[at - 1 : at] in ("<", ">") or (of_bash and text.startswith("&>", at))
        return "" if redirects else "&"
    if text[at] == "|":
        return "" if text[at - 1 : at] == ">" else "|"
    return text[at] if text[at] in ";\n" else ""


def _delimiter(text: str, at: int) -> tuple[int, tuple[str, bool]]:
    """Past the word that ends a here-document, with that word, and whether tabs before it are left out."""
    found = re.compile(r"<<(-?)[ \t]*(?:'([^'\n]+)'|\"([^\"\n]+)\"|\\?([^\s;&|<>'\"$`\\]+))").match(text, at)
    if found is None:
        raise Refused("it holds a here-document whose end is not clear")
    return found.end(), (found.group(2) or found.group(3) or found.group(4), bool(found.group(1)))


def _bodies(text: str, at: int, documents: list[tuple[str, bool]]) -> int:
    while documents:
        word, tabs = documents.pop(0)
        while True:
            if at >= len(text):
                raise Refused("a here-document does not end")
            end = text.find("\n", at)
            line, at = (text[at:], len(text)) if end < 0 else (text[at:end], end + 1)
            if (line.lstrip("\t") if tabs else line) == word:
                break
    return at


class _Walk:
    """Follows the commands of a text in their order."""

    def __init__(self, env: Mapping[str, str], args: Sequence[str], splits: bool, starts: Starts) -> None:
        self.scope = Scope(variables=dict(env), args=tuple(args), splits=splits)
        self.exported = set(env)
        self.all_exported = False
        self.starts = starts
        self.cwd = ""
        self.engines: list[Read] = []
        self.others: list[tuple[Piece, Read]] = []
        self.unread: list[tuple[Piece, str]] = []
        self.before: list[str] = []  # programs that may change what the server reads
        self.over = False

    def run(self, several: Sequence[Piece]) -> None:
        """Every list of commands: the pieces that `&&`, `||` and `|` join."""
        at = 0
        while at < len(several) and not self.over:
            end = at + 1
            while end < len(several) and several[end].after != ";":
                end += 1
            self._list(several[at:end])
            at = end

    def _list(self, several: Sequence[Piece]) -> None:
        certain, conditional = True, False
        later: set[str] = set()
        for piece in several:
            conditional = conditional or piece.after == "||"
            if conditional or piece.branch:
                self._forget(self._piece(piece, runs=False))
            elif piece.after == "|" or piece.ends in ("|", "&"):
                self._forget(self._piece(piece, runs=True))
            else:
                names = self._piece(piece, runs=True)
                later |= set() if certain else names
                self.over = self.over or (certain and piece.word in ("exit", "return"))
            certain = certain and (piece.word in _NEVER_FAILS or _ONLY_ASSIGNS.match(piece.text) is not None)
            if self.over:
                break
        self._forget(later)

    def _forget(self, names: set[str], why: str = "it depends on what another command does") -> None:
        for name in names:
            self.scope.unknown[name] = why

    def _piece(self, piece: Piece, runs: bool) -> set[str]:
        """Follow one command; gives the names of the variables that it sets. `runs`: not under a condition."""
        word = piece.word
        if word == "for":
            return set(re.findall(rf"for\s+({shell.NAME})", piece.text))
        if word in _OPAQUE:
            if _names_a_server(piece.text):
                self.unread.append((piece, f"`{word}` is the shell's own: what it runs is not read"))
            self.scope.tainted = f"`{word}`"
            return set()
        if word in ("", "trap", "exit", "return"):
            return set()
        try:
            words = shell.simple(piece.text, self.scope, declares=word in _SETS)
        except Refused as why:
            self._not_read(piece, str(why))
            return _named(piece.text, word)
        if word in _OF_THE_SHELL:
            return self._own(word, words)
        if not words.argv:
            self._set(words.env)
            return set(words.env)
        command = Read(argv=words.argv, env={**self._env(), **words.env}, cwd=self.cwd)
        if self.starts(command.argv, command.env):
            if not runs:
                on = f"`{piece.branch}`" if piece.branch else "the outcome of another command"
                raise Refused(f"whether it starts the engine depends on {on}")
            if "PWD" in self.scope.unknown:
                raise Refused("the directory that it changes to is not known")
            self.engines.append(command)
            return set()
        self.others.append((piece, command))
        if not self.engines and (words.argv[0] not in _QUIET or words.writes):
            self.before.append(words.argv[0])
        self.over = self.over or (runs and word == "exec" and len(words.argv) > 1)
        return set()

    def _not_read(self, piece: Piece, why: str) -> None:
        names = _named(piece.text, piece.word)
        if names and not _names_a_server(piece.text):
            self.exported |= names if piece.word == "export" else set()
            self._forget(names, "another command gives it" if "command for a word" in why else why)
            return
        self.unread.append((piece, why))
        if piece.word in ("cd", "pushd"):
            self._forget({"PWD"}, why)
        elif not self.engines and piece.word not in _QUIET:
            self.before.append(piece.word)

    def _own(self, word: str, words: Simple) -> set[str]:
        """What a word of the shell's own changes; gives the names."""
        rest = [each for each in words.argv[1:] if not each.startswith("-")]
        if word in _SETS:
            self._set(words.env)
            if word == "export":
                self.exported |= {*words.env, *rest}
            return {*words.env, *rest}
        if word == "unset":
            for name in rest:
                self.scope.variables.pop(name, None)
            return set(rest)
        if word == "set":
            self._set_words(words.argv[1:])
            return set()
        if len(rest) != 1:
            self._forget({"PWD"})
        else:
            self.cwd = rest[0] if rest[0].startswith("/") or not self.cwd else f"{self.cwd.rstrip('/')}/{rest[0]}"
        return {"PWD"}

    def _set_words(self, words: Sequence[str]) -> None:
        at = 0
        while at < len(words) and words[at][:1] in ("-", "+") and words[at] not in ("--", "-", "+"):
            option = words[at]
            at += 2 if option.endswith("o") else 1
            if option.startswith("-") and ("a" in option[1:] or words[at - 1] == "allexport"):
                self.all_exported = True
        if at < len(words):
            args = words[at + 1 :] if words[at] in ("--", "-") else words[at:]
            self.scope.args = (*self.scope.args[:1], *args) if self.scope.args else ("", *args)

    def _set(self, values: Mapping[str, str]) -> None:
        if "IFS" in values:
            raise Refused("it sets IFS: how words are split after it is not read")
        for name, value in values.items():
            self.scope.variables[name] = value
            self.scope.unknown.pop(name, None)
            if self.all_exported:
                self.exported.add(name)

    def _env(self) -> dict[str, str]:
        held = self.scope.variables
        return {name: held[name] for name in self.exported if name in held and name not in self.scope.unknown}

    def result(self, text: str, args: Sequence[str]) -> Read:
        """The one command that starts an engine, with what else is to be said of the text."""
        lost = len(args) > 1 and not re.search(r"\$\{?[@*0-9]", text)
        if len(self.engines) > 1:
            raise Refused("it starts an engine more than once")
        if not self.engines:
            if lost:
                raise Refused(f"{_LOST}; write the whole command as one text")
            return self._no_engine()
        warnings = [_LOST] if lost else []
        if self.before:
            names = ", ".join(f"`{_shown(each)}`" for each in dict.fromkeys(self.before))
            warnings.append(f"before the engine {names} runs: what it changes on this host is not read")
        if self.scope.tainted:
            warnings.append(f"before the engine {self.scope.tainted} runs: the variables that it sets are not read")
        unread = sorted(self.exported & set(self.scope.unknown))
        warnings += [f"{name} is exported, but {self.scope.unknown[name]}: its value is not read" for name in unread]
        for name in dict.fromkeys(self.scope.defaults):
            warnings.append(
                f"{name} is not set here: its default in the text is read; set {name} to read another value"
            )
        stray = [piece.word for piece, _ in (*self.others, *self.unread) if piece.word.startswith("-")]
        if stray:
            warnings.append(
                f"`{_shown(stray[0])}` begins a command of its own and is no argument of the engine: "
                "the line before it is not continued"
            )
        return msgspec.structs.replace(self.engines[0], warnings=tuple(warnings))

    def _no_engine(self) -> Read:
        """The command that is nearest to one, or why there is none."""
        for piece, why in self.unread:
            if _names_a_server(piece.text) or piece.word.startswith(("$", '"$')):
                raise Refused(why)
        likely = [command for piece, command in self.others if _names_a_server(piece.text)]
        loud = [command for piece, command in self.others if piece.word not in _QUIET]
        if likely or loud:
            return (likely or loud)[-1]
        if self.unread:
            raise Refused(self.unread[-1][1])
        raise Refused("it starts no engine that this release knows" if self.others else "it runs no program")


def _named(text: str, word: str) -> set[str]:
    """The variables that a command sets, by its text alone: at least those."""
    if word not in _SETS and not _ASSIGNS.match(text):
        return set()
    return set(re.findall(rf"(?:\A|\s)({shell.NAME})\+?=", text))


def _shown(word: str) -> str:
    return word if word.isprintable() and len(word) < 60 and "=" not in word else "a program"
