"""Gathers what a command line says into one `Given`: the last word on each fact, secrets apart, findings by name."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from lockllm.engines import Given, Model, PathGiven, Template
from lockllm.engines.kernel.argparse import Parsed, Problem, Table, Word
from lockllm.engines.kernel.values import leaves, secret_name, unresolved, without_userinfo
from lockllm.facts.fact import Path
from lockllm.facts.keys import parse
from lockllm.facts.observation import By, Check, CheckStatus, Reading, Unobserved
from lockllm.facts.registry import find, seen

_PLACES = frozenset({"generation_config"})
"""Settings whose `auto` is a value of its own in every engine: it names a place to look, and nothing replaces it."""


_OF_KUBERNETES = re.compile(r"\$\([A-Za-z_][A-Za-z0-9_.-]*\)")
"""How Kubernetes refers to a variable in `command` and `args`."""


class Collect:
    """Mutable while a command line is walked; `given()` ends it."""

    def __init__(self, engine: str, live: bool) -> None:
        self.engine = engine
        self.by = By.PROCESS if live else By.PLAN
        self.readings: dict[Path, Reading] = {}
        self.auto: set[Path] = set()
        self.paths: dict[Path, list[PathGiven]] = {}
        self.template: str | None = None
        self.read_from: dict[Path, str] = {}
        self.unread: list[Unobserved] = []
        self.outranked: set[Path] = set()
        self.adapters: dict[str, Model] = {}
        self.model: Model | None = None
        self.tokenizer: Model | None = None
        self.draft: Model | None = None
        self.per_node: dict[str, Any] = {}
        self.operational: list[str] = []
        self.called: list[str] = []
        self.env: list[Reading] = []
        self.secrets: list[str] = []
        self.port: int | None = None
        self.warnings: list[str] = []
        self._findings: dict[tuple[str, CheckStatus], list[tuple[str, str, str]]] = {}

    def set(self, key: str | Path, value: Any, source: str) -> None:
        """A fact's value; `auto` is no reading, and unsets an earlier word."""
        path = parse(key) if isinstance(key, str) else key
        self.paths.pop(path, None)
        if isinstance(value, str) and value.lower() == "auto" and path[-1] not in _PLACES:
            self.readings.pop(path, None)
            self.auto.add(path)
            return
        self.auto.discard(path)
        self.readings[path] = seen(path, without_userinfo(value, self.secrets), source, self.by)

    def kept(self, name: str, value: Any, source: str) -> None:
        """An option without a neutral name: `serve.args.NAME`, a JSON value one fact a leaf."""
        self.forget(("serve", "args", name))
        for path, leaf in leaves(value, ("serve", "args", name)):
            if any(secret_name(segment) for segment in path[2:]):
                self.secret(leaf)
            elif names_file(path[-1], leaf):
                self.paths[path] = [PathGiven(fact=find(path), path=leaf, source=source, or_name=True, file_only=True)]
            else:
                self.set(path, leaf, source)

    def forget(self, prefix: Path) -> None:
        """Drop every earlier word on what stands below a path."""
        for path in [path for path in self.paths if path[: len(prefix)] == prefix]:
            del self.paths[path]
        for path in [path for path in self.readings if path[: len(prefix)] == prefix]:
            del self.readings[path]
        self.auto = {path for path in self.auto if path[: len(prefix)] != prefix}

    def secret(self, value: Any) -> None:
        """A value that must appear nowhere."""
        for each in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(each, (str, int, float)) and not isinstance(each, bool) and str(each):
                self.secrets.append(str(each))

    def path(self, key: str | Path, path: str, source: str, *, or_name: bool = False, inside: str = "") -> None:
        """A fact that is given as the path of a file or folder, or with `or_name` as that or a name."""
        fact = find(parse(key) if isinstance(key, str) else key)
        self.forget(fact.path)
        self.auto.discard(fact.path)
        self.paths[fact.path] = [PathGiven(fact=fact, path=path, source=source, or_name=or_name, inside=inside)]

    def listed(self, key: str, values: Any, source: str, *, named: bool = False, or_name: bool = False) -> None:
        """A fact that is given as several paths; `named`: each as `name=path`."""
        fact = find(parse(key))
        self.forget(fact.path)
        self.paths[fact.path] = []
        for value in values if isinstance(values, (list, tuple)) else (values,):
            name, equals, path = str(value).partition("=") if named else ("", "", str(value))
            form = f"{name.replace('{', '{{').replace('}', '}}')}={{}}" if equals else "{}"
            one = PathGiven(
                fact=fact, path=path if equals or not named else name, source=source, form=form, or_name=or_name
            )
            self.paths[fact.path].append(one)

    def explicit(self, flag: str, template: Template, source: str, path: str = "") -> None:
        """A chat template whose text is known: it is in force, whatever the checkpoint holds. `path`: the file it is in."""
        self.template = template.text
        if path:
            self.read_from["serve", "chat_template"] = path
        self.set("serve.chat_template", template.value, source)
        self.set("chat_template.source", flag, source)
        self.set("chat_template.sha256", _digest(template.text), source)

    def template_elsewhere(self, flag: str, path: str, source: str) -> None:
        """A chat template in a file that was not read: in force is that one, and its text is unknown."""
        self.path("serve.chat_template", path, source)
        self.set("chat_template.source", flag, source)
        reason = f"{path} ({source}) is the template in force, and was not read"
        self.unreadable(
            ("chat_template", "prompt_probes"), reason, "look where that file is, or check the server's mounts"
        )

    def overruled(self, paths: Iterable[str], reason: str, fix: str) -> None:
        """Facts on which a file that was not read has the last word: what the command line says of them is not sure."""
        self.outranked |= {parse(each) for each in paths}
        self.unreadable(paths, reason, fix)

    def config_unread(self, reason: str) -> None:
        """A config file below the command line that was not read: all that the command line leaves open is unknown."""
        groups = ("serve", "sampling", "chat_template", "prompt_probes")
        self.unreadable(groups, reason, "look where that file is, or check the server's mounts")

    def unreadable(self, paths: Iterable[str], reason: str, fix: str) -> None:
        """Facts that hang on a file which is not here: unknown, whatever defaults and the checkpoint say."""
        self.unread += [Unobserved(parse(each), reason, fix) for each in paths]

    def variable(self, name: str, value: str, source: str = "") -> None:
        """An allow-listed variable."""
        where = source or f"variable {name}"
        self.env.append(seen(("env", name), without_userinfo(value, self.secrets), where, self.by))

    def finding(self, name: str, status: CheckStatus, detail: str, source: str = "", fix: str = "") -> None:
        """One more word of a finding; words of one finding are joined."""
        entry = (detail, source, fix)
        held = self._findings.setdefault((name, status), [])
        if entry not in held:
            held.append(entry)

    def refuse(self, problems: Iterable[Problem], sure: bool, release: str) -> None:
        """Words that the parser of the release refuses; not sure: the release is newer than the table."""
        for problem in problems:
            detail = f"{problem.flag}: {problem.reason}" if problem.flag else problem.reason
            status = CheckStatus.FAIL if sure else CheckStatus.UNKNOWN
            self.finding("check.flags_accepted", status, detail, release, "remove it, or spell it as this release does")

    def repeated(self, flags: Iterable[str]) -> None:
        """Options that are given more than once: a value was lost."""
        for flag in dict.fromkeys(flags):
            self.warnings.append(f"{flag} is given more than once: only the last value counts")

    def checks(self) -> tuple[Check, ...]:
        """The findings so far, one for each name: a failure hides what could not be told."""
        found: dict[str, Check] = {}
        for (name, status), entries in self._findings.items():
            if name in found and (found[name].status is CheckStatus.FAIL or status is not CheckStatus.FAIL):
                continue
            sources = ", ".join(dict.fromkeys(source for _, source, _ in entries if source))
            fixes = "; ".join(dict.fromkeys(fix for _, _, fix in entries if fix))
            found[name] = Check(name, status, "; ".join(detail for detail, _, _ in entries), sources, fixes)
        return tuple(found.values())

    def _unread(self) -> Iterator[Unobserved]:
        """The first reason of each; an option that gives the template's text leaves it no doubt."""
        told = {each.path: each for each in reversed(self.unread)}
        return (each for path, each in told.items() if self.template is None or path[0] not in _OF_TEMPLATE)

    def _not_filled_in(self) -> None:
        """Values that hold a variable which nobody filled in, each by the place that gives it."""
        held = [(str(each.source), _text(each.value)) for each in self.readings.values()]
        models = (self.model, self.tokenizer, self.draft, *self.adapters.values())
        held += [(each.source, each.text) for each in models if each is not None]
        held += [(each.source, each.path) for several in self.paths.values() for each in several]
        places = sorted({source for source, text in held if unresolved(text)})
        if not places:
            return
        what = (
            "contains a variable that is not set here"
            if len(places) == 1
            else "contain variables that are not set here"
        )
        told = f"{', '.join(places[:8])} {what}"
        names = sorted({name for _, text in held if unresolved(text) for name in _OF_KUBERNETES.findall(str(text))})
        if names:
            told += f"; Kubernetes alone fills in {', '.join(names[:8])}: write the value in its place"
        self.warnings.append(told)

    def given(self) -> Given:
        """All of it."""
        self._not_filled_in()
        return Given(
            engine=self.engine,
            readings=tuple(self.readings.values()),
            model=self.model,
            tokenizer=self.tokenizer,
            draft=self.draft,
            adapters=dict(self.adapters),
            paths=tuple(each for held in self.paths.values() for each in held),
            template=self.template,
            read_from=dict(self.read_from),
            unread=tuple(self._unread()),
            outranked=frozenset(self.outranked),
            auto=frozenset(self.auto),
            per_node=dict(self.per_node),
            operational=tuple(dict.fromkeys(self.operational)),
            called=tuple(self.called),
            env=tuple(self.env),
            secrets=tuple(dict.fromkeys(self.secrets)),
            port=self.port,
            checks=self.checks(),
            warnings=tuple(dict.fromkeys(self.warnings)),
        )


def is_path(text: str) -> bool:
    """Whether a text is visibly a path and no repository: `/m`, `./m`, `~/m`, `a/b/c`, `m.gguf`."""
    return text.startswith(("/", ".", "~")) or text.count("/") > 1 or "\\" in text


def source_of(word: Word) -> str:
    """What a person would look for: `argument --dtype`."""
    return f"argument {word.flag}"


def pairs(values: Sequence[Any]) -> list[tuple[str, str]]:
    """`name=path` words; a word without `=` is its own name."""
    found = []
    for value in values:
        name, equals, path = str(value).partition("=")
        found.append((name, path) if equals else (str(value), str(value)))
    return found


def exact(parsed: Parsed, table: Table) -> tuple[Problem, ...]:
    """The problems of a parser that takes no abbreviations (click, clap): those of argparse, and every shortened name."""
    shortened = [
        Problem(flag=word.flag, reason="no such option; names cannot be shortened here")
        for word in parsed.words
        if word.known and word.flag not in table.flags
    ]
    return (*parsed.problems, *shortened)


def truth(text: str) -> bool | None:
    """A switch in a variable, as most engines read it; None where it is neither."""
    plain = text.strip().lower()
    if plain in ("1", "true", "yes", "on", "y", "t"):
        return True
    return False if plain in ("0", "false", "no", "off", "n", "f", "") else None


def known_value(given: Given | None, key: str) -> Any:
    """The value that a command gives for a fact, or None."""
    path = parse(key)
    return next((reading.value for reading in given.readings if reading.fact.path == path), None) if given else None


def best(values: Mapping[Path, Any], key: str) -> Any:
    """The value in force of a fact, or None."""
    return values.get(parse(key))


_OF_TEMPLATE = ("chat_template", "prompt_probes")
_WRITTEN = re.compile(
    r"save|dump|log|cache|record|trace|profil|output|export|storage|download|tmp|temp|sock|uds|store|(?:^|_)dir\Z"
)
"""Words in the name of an option or key whose path is written, not read."""
_FILE = re.compile(
    r"(?:/|\./|\.\./|~/).|.*\.(?:json|ya?ml|py|jinja2?|gguf|txt|csv|tsv|toml|ini|so|safetensors|pt|pth|bin|np[yz]|pkl|model|gbnf)\Z"
)


def names_file(name: str, value: Any) -> bool:
    """Whether a value that no table classes looks like the path of something that is read."""
    if not isinstance(value, str) or not value.isprintable() or len(value) >= 4096:
        return False
    plain = "://" not in value and not unresolved(value) and _FILE.match(value) is not None
    return plain and _WRITTEN.search(name) is None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()


def _text(value: Any) -> object:
    return getattr(value, "value", value)
