"""Files that a spec names and the server reads: the lock holds their content, as a host shows it.

Which facts may hold a path is the engine's own table (`named_files`); a template is read as the engine keeps it. Paths are
relative to the spec, as `checkpoint.path` is.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import msgspec

from lockllm import engines
from lockllm.checkpoint import contents
from lockllm.checkpoint.bounded import Malformed, read_small
from lockllm.documents.lock import Lock
from lockllm.documents.spec import Spec
from lockllm.engines import Names, PathGiven
from lockllm.engines.kernel.collect import is_path, names_file
from lockllm.errors import SpecError
from lockllm.facts import keys, registry, variables
from lockllm.facts.fact import Path

_TEMPLATE: Path = ("serve", "chat_template")
_GENERATION: Path = ("serve", "generation_config")
_JINJA = ("{{", "{%", "{#", "\n")
_ENDINGS = (".jinja", ".jinja2", ".j2", ".txt", ".tmpl")


def with_contents(spec: Spec, held: Lock | None = None) -> Spec:
    """The spec with the content of every file that it names. Raises SpecError for one that is not there.

    `held`: a lock that is only checked. If a file is not available here, that lock's value is kept.
    """
    if not engines.known(spec.engine) or spec.engine is None:
        return spec
    engine = engines.load(spec.engine)
    values = dict(spec.values)
    template = None
    problems: list[SpecError] = []
    for path, value in spec.values.items():
        try:
            if path == _TEMPLATE and _is_text(engine, value):
                template = _template(spec, engine, value)
                values[path] = template.value if template is not None else value
            elif path == _GENERATION and isinstance(value, str) and hasattr(engine, "explicit_generation"):
                values = {**_generation(spec, engine, value), **values, **_generation(spec, engine, value, only=path)}
            else:
                values[path] = _content(spec, engine, path, value)
        except SpecError as problem:
            kept = held.values.get(path) if held is not None else None
            if kept is None:
                problems.append(problem)
            else:
                values[path] = kept
    if problems:
        raise SpecError(problems[0].what, where=problems[0].where, fix=problems[0].fix, also=tuple(problems[1:]))
    text = template.text if template is not None else None
    flags: Mapping[Path, str] = getattr(engine, "template_flags", {})
    flag = next((each for path, each in flags.items() if path in values), "")
    return msgspec.structs.replace(spec, values=values, template=text, template_flag=flag)


def is_content(value: Any) -> bool:
    """Whether a value is a digest already: `sha256:` and 64 digits, or these alone."""
    digest = value.removeprefix("sha256:") if isinstance(value, str) else ""
    return len(digest) == 64 and all(char in "0123456789abcdef" for char in digest)


def place(spec: Spec, text: str) -> str:
    """Where a path of the spec lies."""
    return os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(spec.name)), os.path.expanduser(text)))


def is_there(path: str) -> bool:
    """Whether anything lies at a path."""
    return os.path.exists(path)


def _text(path: str) -> str:
    return read_small(path, 4 << 20).decode("utf-8", "replace")


def _is_text(engine: Any, value: Any) -> bool:
    """Whether a template that an option gives is one that can be read here; other files are known by their content."""
    ending: tuple[str, ...] = getattr(engine, "renders_itself", ())
    return isinstance(value, str) and hasattr(engine, "explicit_template") and not value.endswith(ending or ("\0",))


def _template(spec: Spec, engine: Any, value: str) -> engines.Template | None:
    """The template that `serve.chat_template` gives: a text, or a file. None for a digest and a built-in name."""
    if is_content(value):
        return None
    if any(word in value for word in _JINJA):
        return engine.explicit_template(value)  # type: ignore[no-any-return]
    try:
        return engine.explicit_template(_text(place(spec, value)))  # type: ignore[no-any-return]
    except Malformed as error:
        if is_path(value) or value.endswith(_ENDINGS) or "/" in value:
            raise _missing(spec, _TEMPLATE, value, error) from error
    return None


def _generation(spec: Spec, engine: Any, value: str, only: Path | None = None) -> dict[Path, Any]:
    """The sampling defaults of a folder that `serve.generation_config` names, and its digest."""
    file = place(spec, os.path.join(value, "generation_config.json"))
    words = engines.identity(engine.name).generation_words
    if value in words or is_content(value) or (not os.path.exists(file) and not is_path(value)):
        return {}
    try:
        told: dict[Path, Any] = engine.explicit_generation(_text(file), {})
    except Malformed as error:
        raise _missing(spec, _GENERATION, value, error) from error
    return told if only is None else {path: each for path, each in told.items() if path == only}


def _content(spec: Spec, engine: engines.Engine, path: Path, value: Any) -> Any:
    names = _names(engine, path, value)
    if names is None:
        return value
    several = value if isinstance(value, (list, tuple)) else (value,)
    if not all(isinstance(each, str) and each for each in several):
        return value
    found = [_one(spec, path, each, names) for each in several]
    return tuple(found) if isinstance(value, (list, tuple)) else found[0]


def _one(spec: Spec, path: Path, text: str, names: Names) -> str:
    if is_content(text) or is_content(text.rpartition(":")[0]):
        return text
    bare, colon, scale = text.rpartition(":") if path[-1].endswith("_scaled") else (text, "", "")
    form = f"{{}}:{scale}" if colon else "{}"
    one = PathGiven(
        fact=registry.find(path), path=bare or text, source="", form=form, or_name=names.or_name, inside=names.inside,
        file_only=names is _GUESSED,
    )  # fmt: skip
    found = contents.content(one, lambda each: place(spec, each))
    if found.reason:
        raise _missing(spec, path, text, found.reason)
    return contents.value(one, found)


_GUESSED = Names(or_name=True)


def _names(engine: engines.Engine, path: Path, value: Any) -> Names | None:
    """What a fact may name: by the engine's table, the catalogue of variables, or the look of an option's value."""
    table: Mapping[Path, Names] = getattr(engine, "named_files", {})
    if (
        path == _TEMPLATE
        and isinstance(value, str)
        and value.endswith(getattr(engine, "renders_itself", ()) or ("\0",))
    ):
        return Names()
    if path in table:
        is_word = path == _GENERATION and value in engines.identity(engine.name).generation_words
        return None if is_word else table[path]
    if path[0] == "env" and len(path) == 2:
        row = variables.find(path[1], engine.name)
        return Names(or_name="/" not in str(value)) if row is not None and row.content else None
    return _GUESSED if path[:2] == ("serve", "args") and names_file(path[-1], value) else None


def _missing(spec: Spec, path: Path, text: str, why: object) -> SpecError:
    reason = getattr(why, "strerror", None) or str(why) or "cannot be read"
    key = keys.dotted(path)
    plain = reason if reason.startswith(("is ", "cannot", "lies")) else f"cannot be read: {reason}"
    fix = 'name a file relative to the spec, or give its content: "sha256:…"'
    return SpecError(f"{key} names {text}, which {plain}", where=spec.where(key), fix=fix)
