"""Reads the command that `exec` starts: completely, with the programs on this disk, or not at all."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path

import msgspec

from lockllm.engines.launch import Unwrapped
from lockllm.engines.launch.forms import is_python, python_module, python_script
from lockllm.engines.launch.straight import Unread, straight
from lockllm.facts.observation import Unobserved
from lockllm.observe.python import environments
from lockllm.observe.python.environments import Environment
from lockllm.observe.safe import files
from lockllm.observe.server.command_line import Plan

FIX = "give exec the engine's command itself; in a script, write `exec lockllm exec -- COMMAND`"
_FOLDERS = frozenset({"/usr/bin", "/bin", "/usr/local/bin", "/usr/sbin", "/sbin", "/usr/local/sbin"})
_MANY = frozenset({"busybox", "coreutils", "toybox"})
"""Programs that are several: which of them is meant, the name says by which they are started."""
_ELF = b"\x7fELF"
_LINE = re.compile(rb"#![ \t]*(/\S+)(?:[ \t]+([^\r\n]*))?\r?\n")
_LONG = re.compile(
    rb"#!/bin/sh\n'''exec' (?:\"([^\"$`\\\n]+)\"|(/[\w./+@:~-]+))(?: -[BEIPbqsu]+)? \"\$0\" \"\$@\"\n' '''\n"
)
"""How installers begin a script whose interpreter path is long or contains a blank. Sources: distlib 0.3, pip, uv."""
_PLAIN_OPTION = re.compile(r"-[BEIPbqsu]+")


class EngineCommand(msgspec.Struct, frozen=True, kw_only=True):
    """The engine's own command behind its wrappers, or why it could not be read."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    unread: str = ""


def read(argv: tuple[str, ...], env: Mapping[str, str], cwd: str) -> EngineCommand:
    """Read a command that is to start here, in this environment and directory."""
    try:
        found = straight(argv, env, lambda word, held, inside: _foreign(word, held, os.path.join(cwd, inside)))
        where = os.path.normpath(os.path.join(cwd, found.cwd))
        if not os.path.isdir(where):
            raise Unread(f"there is no directory {found.cwd}")
        _program(found.argv, found.env, where)
    except Unread as why:
        return EngineCommand(argv=argv, env=env, cwd=cwd, unread=str(why))
    return EngineCommand(argv=found.argv, env=found.env, cwd=where)


def unread_plan(argv: tuple[str, ...], env: Mapping[str, str], cwd: str) -> Plan:
    """A command that lockllm makes no claims about."""
    opaque = Unwrapped(argv=argv, env=env, opaque=True)
    return Plan(given=None, form=None, readings=(), checks=(), warnings=(), unwrapped=opaque, env=env, cwd=cwd)


def environment_of(
    argv: tuple[str, ...], env: Mapping[str, str], cwd: str, named: Environment | Unobserved | None
) -> Environment | Unobserved:
    """The environment that a command runs in. A named environment is used only if it is the same one."""
    own = environments.of_command(argv, env, cwd)
    if isinstance(named, Environment) and (own is None or _same(own.prefix, named.prefix)):
        return named
    if own is not None:
        return own
    return Unobserved(
        ("packages",),
        "the command names no Python program of this host",
        "name the interpreter of the serving environment with --python",
    )


def _same(one: Path, other: Path) -> bool:
    return files.resolved(one) == files.resolved(other)


def _foreign(word: str, env: Mapping[str, str], cwd: str) -> str:
    """Why a wrapper is not a system program; empty where it is one."""
    path = environments.which(word, env, cwd)
    if path is None:
        return "is not there"
    real = os.path.realpath(path)
    try:
        told, folder = os.stat(real), os.stat(os.path.dirname(real))
    except OSError:
        return "cannot be looked at"
    name = os.path.basename(real)
    if os.path.dirname(real) not in _FOLDERS or not (name == os.path.basename(word) or name in _MANY):
        return f"is {real}, not a system program: what it starts is not known"
    if told.st_uid != 0 or told.st_mode & (stat.S_IWGRP | stat.S_IWOTH) or folder.st_mode & stat.S_IWOTH:
        return f"is {real}, which users other than root can write: what it starts is not known"
    return ""


def _program(argv: tuple[str, ...], env: Mapping[str, str], cwd: str) -> None:
    """The engine's program is a binary, or a script that goes to Python at once. Raises Unread for any other."""
    path, head = _head(argv[0], env, cwd)
    if is_python(argv[0]):
        if not head.startswith(_ELF):
            raise Unread(f"{path} is a script, and not the interpreter itself")
        if python_module(argv) is not None:
            return
        word = argv[python_script(argv)[1] - 1]
        path, head = _head(word if "/" in word else f"./{word}", env, cwd)
        if path.endswith(".py"):
            raise Unread(f"{path} is a single file: start the module by its name, with python -m")
    if not head.startswith(_ELF) and not _of_python(head, env, cwd):
        raise Unread(f"{path} is a script that Python does not run: what it starts is known only when it has started")


def _of_python(head: bytes, env: Mapping[str, str], cwd: str) -> bool:
    """Whether the first line gives a script to an interpreter, with options that run no other code."""
    long = _LONG.match(head)
    if long is not None:
        # a shell reads this line, and would take a function of the environment for a command
        return not any(name.startswith("BASH_FUNC_") for name in env) and _interpreter(
            _text(long[1] or long[2]), env, cwd
        )
    line = _LINE.match(head)
    if line is None:
        return False
    program, words = _text(line[1]), _text(line[2] or b"").split()
    if os.path.basename(program) == "env":
        return not _foreign(program, env, cwd) and len(words) == 1 and _interpreter(words[0], env, cwd)
    return all(_PLAIN_OPTION.fullmatch(word) for word in words) and _interpreter(program, env, cwd)


def _interpreter(word: str, env: Mapping[str, str], cwd: str) -> bool:
    try:
        return is_python(word) and _head(word, env, cwd)[1].startswith(_ELF)
    except Unread:
        return False


def _head(word: str, env: Mapping[str, str], cwd: str) -> tuple[str, bytes]:
    """The file that a word names, and its first bytes."""
    path = environments.which(word, env, cwd)
    if path is None:
        raise Unread(f"{os.path.basename(word)} is not there")
    try:
        return path, files.start(Path(path), 4096)
    except OSError as why:
        raise Unread(f"{path} cannot be read: {(why.strerror or str(why)).lower()}") from why


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
