"""Taking wrappers off a command line, one layer at a time."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

import msgspec

from lockllm import engines
from lockllm.engines.launch import containers, script, shell
from lockllm.engines.launch.forms import base, find, is_python, python_module, python_script, tables
from lockllm.engines.launch.wrappers import WRAPPERS, Inner, inner

_LAYERS = 24
_SHELLS = 3
_GIVE_ITSELF = "give the engine's own command line, or look at the running process"
_ENTRYPOINTS = ("nvidia_entrypoint.sh", "docker-entrypoint.sh", "entrypoint.sh")


class Unwrapped(msgspec.Struct, frozen=True, kw_only=True):
    """A command line without its wrappers.

    `argv` begins with the innermost program that could be reached. Where a layer could not be taken off, it begins with
    that layer's program, `opaque` is true and a warning says why: then its arguments are nobody's that we know.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]  # what reaches that program
    wrappers: tuple[str, ...] = ()  # names of the layers taken off, outermost first
    warnings: tuple[str, ...] = ()
    reach: str = "direct"  # direct, wrapped, shell, container, image-args
    opaque: bool = False
    host: str = ""  # for `engine.wrapper`: nim, triton, kserve, dynamo …
    image: str = ""
    env_files: tuple[str, ...] = ()  # files of variables that a container runtime reads, lowest priority first
    mounts: tuple[tuple[str, str], ...] = ()  # (host path, path inside), for a container
    cwd: str = ""  # the directory that a wrapper changes to, empty where it stays


def unwrap(argv: Sequence[str], env: Mapping[str, str], engine: str | None = None) -> Unwrapped:
    """Take off every wrapper. `engine` is a hint for arguments of an image whose program is not on the line."""
    state = Unwrapped(argv=tuple(argv), env=dict(env))
    if not state.argv or state.argv[0].startswith("-"):
        return _bare(state, engine)
    told = _follow(state, engine)
    if told.opaque and not told.host:
        if engines.include_plugins():
            told = _follow(state, engine)
        if told.opaque and (broken := engines.broken()):
            told = msgspec.structs.replace(told, warnings=(*told.warnings, *broken))
    return told


def _follow(state: Unwrapped, engine: str | None) -> Unwrapped:
    for _ in range(_LAYERS):
        found = find(state.argv)
        if found is not None:
            return msgspec.structs.replace(state, host=found.shape.wrapper or state.host)
        following = _layer(state, engine)
        if following is None:
            return _unknown(state)
        state = following
        if state.opaque or not state.argv:
            return state
    return _stop(state, "there are too many layers of wrappers")


def _bare(state: Unwrapped, engine: str | None) -> Unwrapped:
    """Arguments without a program."""
    if engine is not None and engines.known(engine):
        return msgspec.structs.replace(state, argv=(*_before(engine, state.argv), *state.argv), reach="image-args")
    return _stop(state, "no program stands on this line: it looks like an image's arguments; name the engine")


def _before(engine: str, argv: Sequence[str], image: str = "") -> tuple[str, ...]:
    """The words that an image of that engine puts before these."""
    identity = engines.identity(engine)
    if identity.image_command is not None:
        return identity.image_command(argv, containers.name_of(image), containers.version_of(image)[0] or "")
    return identity.starts if argv else (*identity.starts, *identity.starts_alone)


def _layer(state: Unwrapped, engine: str | None) -> Unwrapped | None:
    """The state with one layer less, an opaque state, or None where this program is no wrapper that we know."""
    argv = state.argv
    program = base(argv[0])
    if containers.is_container(program):
        return _container(state, program, engine)
    if program == "busybox" and len(argv) > 1:
        argv, program = argv[1:], base(argv[1])
    if program in shell.SHELLS:
        return _shell(state, argv, program)
    if program == "env" and len(argv) > 1 and argv[1].startswith(("-S", "--split-string")):
        return _env_split(state)
    name = program
    module = python_module(argv)
    if module is not None and module[0] in ("lockllm", "uv"):
        name, argv = module[0], (module[0], *argv[module[1] :])
    elif is_python(argv[0]):
        name, start = python_script(argv)
        argv = (name, *argv[start:])
    if name == "uv" and tuple(argv[1:3]) == ("tool", "run"):
        name, argv = "uvx", argv[2:]
    wrapper = WRAPPERS.get(name)
    inside = inner(wrapper, argv, state.env) if wrapper else _after_dashes(argv, state.env)
    if inside is None:
        return None
    if name == "uvx" and inside.argv and re.fullmatch(r"[\w.-]+@\S+", inside.argv[0]):  # uvx vllm@0.10.2
        inside = msgspec.structs.replace(inside, argv=(inside.argv[0].partition("@")[0], *inside.argv[1:]))
    warnings = list(state.warnings)
    if wrapper is None or name in _ENTRYPOINTS:
        warnings.append(f"{name} may add or change arguments: look at the process that it starts")
    if wrapper is not None and wrapper.remote:
        warnings.append(f"{name}: {wrapper.remote}")
    return _took(state, name, inside, warnings)


def _took(state: Unwrapped, name: str, inside: Inner, warnings: Sequence[str]) -> Unwrapped:
    return msgspec.structs.replace(
        state,
        argv=inside.argv,
        env=inside.env,
        cwd=_join(state.cwd, inside.cwd),
        wrappers=(*state.wrappers, name),
        warnings=tuple(warnings),
        reach="wrapped" if state.reach == "direct" else state.reach,
    )


def _after_dashes(argv: Sequence[str], env: Mapping[str, str]) -> Inner | None:
    """`LAUNCHER … -- COMMAND`, where the command is a launch form or another wrapper."""
    for at, word in enumerate(argv[:-1]):
        if word == "--":
            rest = tuple(argv[at + 1 :])
            known = find(rest) is not None or base(rest[0]) in WRAPPERS or base(rest[0]) in shell.SHELLS
            return Inner(argv=rest, env=env) if known else None
    return None


def _shell(state: Unwrapped, argv: Sequence[str], program: str) -> Unwrapped:
    text = shell.text_of(argv)
    if text is None:
        what = (
            "runs a script"
            if any(not word.startswith("-") for word in argv[1:])
            else "reads its commands from elsewhere"
        )
        return _stop(state, f"{program} {what}: what it starts is not on this line; look at the running process")
    depth = sum(name in shell.SHELLS for name in state.wrappers)
    if depth >= _SHELLS:
        return _stop(state, "there are too many shells inside each other")

    def starts(words: Sequence[str], variables: Mapping[str, str]) -> bool:
        inner = msgspec.structs.replace(state, argv=tuple(words), env=variables, wrappers=(*state.wrappers, program))
        reached = _follow(inner, None)
        return not reached.opaque and find(reached.argv) is not None

    try:
        command = script.read(program, text[0], state.env, text[1], starts, 10 if depth else 200)
    except shell.Refused as why:
        return _stop(state, f"the text of {program} -c is not read: {why}; {_GIVE_ITSELF}")
    warnings = [*state.warnings, *command.warnings]
    options = "".join(word[1:] for word in argv[1 : argv.index(text[0])] if re.match(r"-[A-Za-z]+\Z", word))
    if set(options) & {"l", "i"} or "--login" in argv[1:3]:
        warnings.append(f"{program} reads its start-up files first: the variables that they set are not read")
    inside = Inner(argv=command.argv, env=command.env, cwd=command.cwd)
    taken = _took(state, program, inside, warnings)
    return msgspec.structs.replace(taken, reach="shell" if state.reach in ("direct", "wrapped") else state.reach)


def _env_split(state: Unwrapped) -> Unwrapped:
    word = state.argv[1]
    attached = word.removeprefix("--split-string").removeprefix("-S").removeprefix("=")
    rest = state.argv[2:] if attached else state.argv[3:]
    text = attached or (state.argv[2] if len(state.argv) > 2 else "")
    if not text.strip() or any(char in text for char in "$\\"):
        return _stop(state, "env -S is not unwrapped: its text fills in variables")
    try:
        words = shlex.split(text)
    except ValueError:
        return _stop(state, "env -S is not unwrapped: a quote is not closed")
    return msgspec.structs.replace(state, argv=("env", *words, *rest))


def _container(state: Unwrapped, program: str, engine: str | None) -> Unwrapped | None:
    found = containers.read(state.argv, program, state.env)
    if found is None:
        return None
    warnings = [*state.warnings, *found.warnings]
    if not found.started:
        warnings.append(f"{program} exec: the container's own variables and working directory are not on this line")
    after = msgspec.structs.replace(
        state,
        argv=found.argv,
        env=found.env,
        wrappers=(*state.wrappers, program),
        warnings=tuple(warnings),
        reach="container",
        image=found.image or state.image,
        env_files=(*state.env_files, *found.env_files),
        mounts=found.mounts or state.mounts,
        cwd=found.cwd,
    )
    if found.entrypoint is not None or not found.image:
        return after if after.argv else _stop(after, f"{program}: no command stands after the image")
    return _image(after, found.image, engine)


def _image(state: Unwrapped, image: str, engine: str | None) -> Unwrapped:
    """The words after an image whose entry point was not overridden."""
    host = containers.host_of(image)
    shown = "the image" if "$" in image else f"image {containers.name_of(image)}"
    if host:
        return _stop(
            msgspec.structs.replace(state, host=host),
            f"{shown} is a host ({host}): it chooses the engine at start; look at the process inside the container",
        )
    known = containers.engine_of(image) or engine
    identity = engines.identity(known)
    if state.argv and find(state.argv) is not None and not identity.starts_alone:
        return state
    if identity.name:
        words = _before(identity.name, state.argv, state.image)
        return msgspec.structs.replace(state, argv=(*words, *state.argv))
    if not state.argv:
        return _stop(state, f"{shown} starts what its entry point says: no argument reaches an engine on this line")
    first = base(state.argv[0])
    if (
        first in WRAPPERS
        or first in shell.SHELLS
        or first in tables().programs
        or is_python(first)
        or containers.runs_commands(image)
    ):
        return state
    return _stop(
        state, f"the entry point of {shown} is not known: whose arguments follow it cannot be told; name the engine"
    )


def _unknown(state: Unwrapped) -> Unwrapped:
    program = base(state.argv[0])
    if is_python(program):
        module = python_module(state.argv)
        program = f"{program} -m {module[0]}" if module else python_script(state.argv)[0]
    shown = program if program.isprintable() and len(program) < 80 and "$" not in program else "this program"
    return _stop(state, f"{shown} is no launch form that this release knows: no argument is taken for an engine's")


def _stop(state: Unwrapped, why: str) -> Unwrapped:
    return msgspec.structs.replace(state, opaque=True, warnings=(*state.warnings, why))


def _join(cwd: str, change: str) -> str:
    if not change or change.startswith("/") or not cwd:
        return change or cwd
    return f"{cwd.rstrip('/')}/{change}"
