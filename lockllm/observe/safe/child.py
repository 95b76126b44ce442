"""Runs a short program in a child process: foreign interpreters, and libraries that may abort."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

_MARK = "lockllm-child:"
PRINT = f"print(); print({_MARK!r} + json.dumps(told))"
"""The end of such a program: its answer is what it put into `told`, whatever else it prints."""


def rights_of(user: int, group: int) -> dict[str, Any]:
    """Arguments that start a process with its owner's rights: root runs no other user's code as root."""
    return {"user": user, "group": group, "extra_groups": ()} if os.geteuid() == 0 and user != 0 else {}


def ask(
    argv: Sequence[str],
    code: str,
    seconds: float,
    *,
    env: Mapping[str, str] | None = None,
    rights: Mapping[str, Any] | None = None,
) -> dict[str, Any] | str:
    """The answer of a program passed with `-c`, or why there is none. `rights`: those of `rights_of`."""
    import subprocess

    import msgspec

    try:
        done = subprocess.run(
            [*argv, "-c", code],
            capture_output=True,
            timeout=seconds,
            stdin=subprocess.DEVNULL,
            cwd="/",
            check=False,
            env=None if env is None else dict(env),
            **(rights or {}),
        )
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
        return f"was killed by signal {-done.returncode}"
    last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:] or [f"exit {done.returncode}"]
    return f"gave no answer: {last[0][:200]}"
