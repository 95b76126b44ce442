"""A short program in another process, for what must not happen in ours: foreign interpreters, libraries that may abort."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

_MARK = "lockllm-child:"
PRINT = f"print(); print({_MARK!r} + json.dumps(told))"
"""How such a program ends: what it has put into `told` is its answer, whatever else is printed."""


def rights_of(user: int, group: int) -> dict[str, Any]:
    """Arguments of a process that give it no more than its owner may: root runs nobody else's code as root."""
    return {"user": user, "group": group, "extra_groups": ()} if os.geteuid() == 0 and user != 0 else {}


def ask(
    argv: Sequence[str],
    code: str,
    seconds: float,
    *,
    env: Mapping[str, str] | None = None,
    rights: Mapping[str, Any] | None = None,
) -> dict[str, Any] | str:
    """The answer of a program that is given by `-c`, or why there is none. `rights` are those of `rights_of`."""
    import subprocess

    import msgspec

    try:
        done = subprocess.run(
            [*argv, "-c", code], capture_output=True, timeout=seconds, stdin=subprocess.DEVNULL, cwd="/", check=False,
            env=None if env is None else dict(env), **(rights or {}),
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"did not answer within {seconds:g} s"
    except (OSError, subprocess.SubprocessError) as error:
        return f"does not run: {error}"
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    said = next((line.removeprefix(_MARK) for line in reversed(lines) if line.startswith(_MARK)), None)
    try:
        answer = msgspec.json.decode(said or "")
    except msgspec.DecodeError:
        answer = None
    if isinstance(answer, dict):
        return answer
    if done.returncode < 0:
        return f"was ended by signal {-done.returncode}"
    last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:] or [f"exit {done.returncode}"]
    return f"gave no answer: {last[0][:200]}"
