"""Reads a command line in its environment and directory: wrappers removed, engine recognized, config files read.

Used for a command that is not started yet (`inspect -- CMD`, `exec`, `init -- CMD`) and for a running process.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec

from lockllm import engines
from lockllm.checkpoint import contents
from lockllm.engines import Form, Given, Installed, MayBeMissing, Model
from lockllm.engines.kernel.collect import is_path
from lockllm.engines.kernel.values import unresolved
from lockllm.engines.launch import Unwrapped, hosts, recognise, unwrap
from lockllm.engines.launch.containers import version_of
from lockllm.engines.launch.forms import find
from lockllm.engines.shown import redaction
from lockllm.facts.env import is_secret
from lockllm.facts.observation import By, Check, Reading, Unobserved
from lockllm.facts.registry import seen
from lockllm.observe.safe import files as safe_files
from lockllm.observe.server import variable_readings

Read = Callable[[str], str]
"""Reads a config file by its path; OSError where it cannot be read."""

_MOST = 4 << 20
_REPO = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_SNAPSHOT = re.compile(r"(?:^|/)models--([\w.-]+?--[\w.-]+?)/snapshots/([0-9a-f]{40})(?:/|$)")
_TAG = re.compile(r"v?(\d+\.\d+(?:\.\d+)?(?:\.?(?:post|rc|dev)\d+)?)(?![\d.])")
_BUILD = re.compile(r"(?:^|-)(b\d{3,6})(?:-|\Z)")  # llama.cpp: server-cuda-b6000


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A command line, understood as far as it can be."""

    given: Given | None  # None: no launch form of an engine was reached
    form: Form | None
    readings: tuple[Reading, ...]  # `given.readings`, variables, per-node options, and the repositories that are named
    checks: tuple[Check, ...]
    warnings: tuple[str, ...]
    unwrapped: Unwrapped
    files: Mapping[str, str] = {}  # config files that were read, by the name that the command gives them
    env: Mapping[str, str] = {}  # the environment that reaches the engine
    cwd: str = ""  # the directory that relative names mean


def plan(
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: str,
    version: str | None = None,
    read: Read | None = None,
    *,
    live: bool = False,
    engine: str | None = None,
    installed: Installed | None = None,
) -> Plan:
    """Read a command line. `engine` is a hint where no program is on it; `live` says that it is a running process's.

    `installed`: the options of that version as its own source tells them, where no table has it.
    """
    read = read or read_file
    unwrapped = unwrap(argv, env, engine)
    warnings = list(unwrapped.warnings)
    where = os.path.join(cwd or "/", unwrapped.cwd)
    read_env = _env_files(unwrapped.env_files, cwd, read, warnings)
    inside = variable_readings.without_stdbuf({**read_env, **unwrapped.env})
    form = None if unwrapped.opaque else recognise(unwrapped.argv) or _hosted(unwrapped, where, read, warnings)
    by = By.PROCESS if live else By.PLAN
    told = [*_host(unwrapped, by)]
    hidden = [value for name, value in inside.items() if is_secret(name)]
    if form is None or not engines.known(form.engine):
        if form is not None:
            warnings.append(f"{form.engine} is recognized, but this release cannot read its arguments")
        elif not unwrapped.opaque and not unwrapped.host:
            warnings.append("this command starts no engine that this release knows")
        shown = tuple(redaction.text(each, hidden) for each in warnings)
        unread = Plan(given=None, form=form, readings=(), checks=(), warnings=shown, unwrapped=unwrapped)
        return msgspec.structs.replace(unread, readings=redaction.readings(told), env=inside, cwd=where)
    module = engines.load(form.engine)
    files = _read(module, form, inside, where, unwrapped, read, warnings)
    release = version or _tagged(unwrapped.image)
    own = (installed,) if installed is not None and installed.version == release else ()
    given = _local(module.given(form, inside, files, release, live, *own), where, unwrapped)
    if not any(reading.fact.path == ("engine", "name") for reading in given.readings):
        told.insert(0, seen("engine.name", form.engine, " ".join(map(_base, form.program[:3])), by))
    hidden += given.secrets
    given = redaction.given(msgspec.structs.replace(given, readings=(*told, *given.readings)), hidden)
    given = variable_readings.with_contents(given, inside)
    if (open_ := variable_readings.unclassified(inside, form.engine)) is not None:
        warnings.append(open_)
    warnings += variable_readings.risky(inside)
    beside = [*given.env, *_per_node(given, by), *_models(given, None if unwrapped.reach == "container" else where, by)]
    return Plan(
        given=given,
        form=form,
        readings=(*given.readings, *redaction.readings(beside)),
        checks=given.checks,
        warnings=tuple(redaction.text(each, hidden) for each in (*warnings, *given.warnings)),
        unwrapped=unwrapped,
        files=files,
        env=inside,
        cwd=where,
    )


def read_file(path: str) -> str:
    """A regular file of bounded size as text. OSError for anything else."""
    raw = safe_files.start(path, _MOST + 1)
    if len(raw) > _MOST:
        raise OSError(f"{path} is larger than {_MOST >> 20} MiB")
    return raw.decode("utf-8", "replace")


def host_path(path: str, mounts: Sequence[tuple[str, str]]) -> str | None:
    """The path on this host of a path inside a container, or None where no mount covers it."""
    for host, inside in mounts:
        plain = inside.rstrip("/")
        if path == plain or path.startswith(plain + "/"):
            return host.rstrip("/") + path[len(plain) :]
    return None


def place(planned: Plan, name: str) -> str | None:
    """Where a path of a planned command is on this host; None where it exists only inside a container."""
    taken = planned.unwrapped
    if taken.reach == "container":
        return host_path(os.path.join(taken.cwd or "/", name), taken.mounts)
    return os.path.normpath(
        os.path.join(planned.cwd or "/", os.path.expanduser(name) if name.startswith("~") else name)
    )


def places_of(planned: Plan, by: By = By.PLAN) -> Iterator[Reading]:
    """The folders and files on this host that a command names as its models; repositories are left out."""
    given = planned.given
    if given is None:
        return
    named: list[tuple[tuple[str, ...], Model | None]] = [
        (("checkpoint",), given.model),
        (("tokenizer",), given.tokenizer),
        (("draft",), given.draft),
        *((("adapters", name), model) for name, model in given.adapters.items()),
    ]
    for prefix, model in named:
        if model is None or unresolved(model.text) or _SNAPSHOT.search(model.text):
            continue
        where = place(planned, model.text)
        if is_path(model.text) or (where is not None and os.path.exists(where)):
            yield seen((*prefix, "path"), model.text, model.source, by)


def contents_of(planned: Plan, by: By = By.PLAN) -> Iterator[Reading | Unobserved]:
    """What the files hold that a command names which was only read."""
    if planned.given is not None:
        yield from contents.readings(planned.given, lambda name: place(planned, name), by)


def _hosted(unwrapped: Unwrapped, where: str, read: Read, warnings: list[str]) -> Form | None:
    """The launch form of the engine behind a host that hands options on, such as KServe or Ray Serve LLM."""
    found = find(unwrapped.argv) if unwrapped.host else None
    if found is None or found.engine:
        return None
    name = hosts.wants(unwrapped.host, found.args)
    files = _files([name], where, unwrapped, read, warnings) if name is not None else {}
    hosted = hosts.form(unwrapped.host, found.program, found.args, files.get(name or ""))
    if hosted.reason:
        warnings.append(hosted.reason)
    return hosted.form


def _local(given: Given, where: str, unwrapped: Unwrapped) -> Given:
    """The same without a repository where the model is a folder on this host: `models/x` may be either."""
    if (
        given.model is None
        or unwrapped.reach == "container"
        or not os.path.exists(os.path.join(where, given.model.text))
    ):
        return given
    of_the_hub = (("checkpoint", "repo"), ("checkpoint", "revision"))
    return msgspec.structs.replace(
        given, readings=tuple(each for each in given.readings if each.fact.path not in of_the_hub)
    )


def _read(
    module: engines.Engine,
    form: Form,
    env: Mapping[str, str],
    where: str,
    unwrapped: Unwrapped,
    read: Read,
    warnings: list[str],
) -> dict[str, str]:
    """The files that the command names, then those that they name."""
    wanted = tuple(module.wants_files(form, env))
    files = _files(wanted, where, unwrapped, read, warnings)
    more: Callable[..., Iterable[str]] | None = getattr(module, "wants_more", None)
    if more is not None and files:
        named = [name for name in more(form, env, files) if name not in wanted]
        files |= _files(named, where, unwrapped, read, warnings)
    return files


def _files(names: Iterable[str], cwd: str, unwrapped: Unwrapped, read: Read, warnings: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in names:
        path: str | None = os.path.join(cwd, name)
        if unwrapped.reach == "container":
            path = host_path(os.path.join(unwrapped.cwd or "/", name), unwrapped.mounts)
        try:
            if path is None:
                raise FileNotFoundError(0, "it is inside the container")
            found[name] = read(path)
        except (FileNotFoundError, NotADirectoryError) as why:
            if not isinstance(name, MayBeMissing):
                warnings.append(f"{name} is not read ({why.strerror}): what it sets is unknown")
        except (OSError, ValueError) as why:
            reason = getattr(why, "strerror", None) or str(why) or "it cannot be read"
            warnings.append(f"{name} is not read ({reason}): what it sets is unknown")
    return found


def _env_files(names: Sequence[str], cwd: str, read: Read, warnings: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in names:
        try:
            text = read(os.path.join(cwd or "/", name))
        except (OSError, ValueError) as why:
            reason = getattr(why, "strerror", None) or str(why) or "it cannot be read"
            warnings.append(f"{name} is not read ({reason}): the variables that it sets are unknown")
            continue
        for line in text.splitlines():
            key, equals, value = line.strip().partition("=")
            if equals and key and not key.startswith("#"):
                found[key] = value
    return found


def _host(unwrapped: Unwrapped, by: By) -> list[Reading]:
    found = []
    if unwrapped.host:
        found.append(seen("engine.wrapper", unwrapped.host, "command line", by))
    if unwrapped.image and "$" not in unwrapped.image:
        image = unwrapped.image.rpartition("@sha256:")[0] or unwrapped.image
        found.append(seen("engine.image", image.rpartition("@")[2], "command line", by))
        digest = version_of(unwrapped.image)[1]
        if digest:
            found.append(seen("engine.image_digest", digest, "command line", by))
    return found


def _per_node(given: Given, by: By) -> list[Reading]:
    """Options that differ between the nodes of one server: reported, never locked."""
    return [seen(("serve", "args", name), value, f"argument {name}", by) for name, value in given.per_node.items()]


def _models(given: Given, where: str | None, by: By) -> list[Reading]:
    """Repositories that the command names: text of the form `org/name` that is not a folder here, or a snapshot's path."""
    named = [("checkpoint", given.model), ("tokenizer", given.tokenizer), ("draft", given.draft)]
    found = []
    for group, model in named:
        found += _model((group,), model, where, by) if model else []
    for name, model in given.adapters.items():
        found += _model(("adapters", name), model, where, by)
    return found


def _model(group: tuple[str, ...], model: Model, where: str | None, by: By) -> list[Reading]:
    snapshot = None if "$" in model.text else _SNAPSHOT.search(model.text)
    if snapshot:
        repo = snapshot.group(1).replace("--", "/", 1)
        return [
            seen((*group, "repo"), repo, model.source, by, "claimed"),
            seen((*group, "commit"), snapshot.group(2), model.source, by, "claimed"),
        ]
    if not _REPO.fullmatch(model.text) or (where is not None and os.path.exists(os.path.join(where, model.text))):
        return []
    found = [seen((*group, "repo"), model.text, model.source, by)]
    if model.revision and "$" not in model.revision:
        found.append(seen((*group, "revision"), model.revision, model.source, by))
    return found


def _tagged(image: str) -> str | None:
    """The release that an image's tag names. It selects the option table and is never a reading."""
    tag = (version_of(image)[0] or "") if image else ""
    found = _TAG.match(tag) or _BUILD.search(tag)
    return found.group(1) if found else None


def _base(path: str) -> str:
    return path.rsplit("/", 1)[-1]
