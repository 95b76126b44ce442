"""Variables that no engine reads itself: those set in files, those that name files, and unclassified ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

import msgspec

from lockllm.engines import Given, PathGiven
from lockllm.facts import env as env_names
from lockllm.facts import variables
from lockllm.facts.env import is_secret
from lockllm.facts.observation import By, Reading
from lockllm.facts.registry import find, seen

_MOST_TOLD = 12
_STDBUF = re.compile(r"/(?:usr/(?:local/)?)?lib(?:exec|32|64)?/(?:[\w-]+/)?coreutils/libstdbuf\.so")
_RISKY = {
    "TRITON_INTERPRET": "kernels run in Python",
    "HSA_OVERRIDE_GFX_VERSION": "ROCm treats the GPU as another model",
    "NVIDIA_DISABLE_REQUIRE": "a driver that is too old for the image is accepted",
}


def without_stdbuf(env: Mapping[str, str]) -> dict[str, str]:
    """The same without the library that `stdbuf` preloads from a system folder: it sets buffers and computes nothing.

    Source: GNU coreutils 9.4, `src/stdbuf.c`, `set_LD_PRELOAD`: it comes after what LD_PRELOAD held before.
    """
    rest = [part for part in env.get("LD_PRELOAD", "").split(":") if not _STDBUF.fullmatch(part)]
    kept = dict(env)
    if ":".join(rest) != env.get("LD_PRELOAD", ""):
        del kept["LD_PRELOAD"]
        kept.update({"LD_PRELOAD": ":".join(rest)} if rest else {})
    return kept


def with_contents(given: Given, env: Mapping[str, str]) -> Given:
    """The same, with the variables whose files and folders count: what is locked is their content."""
    held = {each.fact.path for each in given.paths}
    found = []
    for name in sorted(env):
        row = variables.find(name, given.engine)
        if row is None or not row.content or not env[name] or is_secret(name) or ("env", name) in held:
            continue
        bare = "/" not in env[name]  # a switch, or a file of the directory that the server starts in
        found.append(PathGiven(fact=find(("env", name)), path=env[name], source=f"variable {name}", or_name=bare))
    return msgspec.structs.replace(given, paths=(*given.paths, *found)) if found else given


def unclassified(env: Mapping[str, str], engine: str) -> str | None:
    """One warning that names the unclassified variables that are set; never their values."""
    names = env_names.unclassified(env, engine)
    if not names:
        return None
    rest = f" and {len(names) - _MOST_TOLD} more" if len(names) > _MOST_TOLD else ""
    return f"set, but not classified by this release: {', '.join(names[:_MOST_TOLD])}{rest}"


def risky(env: Mapping[str, str]) -> Iterator[str]:
    """Warnings on variables that a server should not have: they hide what is wrong, or make it compute something else."""
    for name, why in _RISKY.items():
        if env.get(name, "").strip().lower() not in ("", "0", "false"):
            yield f"{name} is set: {why}"


def of_nccl(env: Mapping[str, str], read: Callable[[str], str]) -> Iterator[Reading]:
    """What NCCL's own files set: `$NCCL_CONF_FILE`, else `~/.nccl.conf`, then `/etc/nccl.conf`; the environment wins.

    Source: NCCL 2.32, `src/misc/param.cc`.
    """
    home = env.get("HOME")
    first = env.get("NCCL_CONF_FILE") or (f"{home}/.nccl.conf" if home else "")
    told: set[str] = set()
    for path in (first, "/etc/nccl.conf"):
        try:
            text = read(path) if path else ""
        except (OSError, ValueError):
            continue
        for line in text.splitlines():
            name, equals, value = line.partition("=")
            name = name.strip()
            row = variables.find(name, "") if equals and name.startswith("NCCL_") else None
            if row is None or not row.recorded or name in env or name in told:
                continue
            told.add(name)
            yield seen(("env", name), value.strip(), f"{path}: {name}", By.FILE)
