"""The loop as a person runs it: the command itself, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conftest import ENVIRON

LOCKLLM = Path(sys.executable).parent / "lockllm"


@dataclass(frozen=True)
class Done:
    """One run of the command."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Verdict:
    """A report, as far as the end-to-end tests look at it."""

    code: int
    results: tuple[Mapping[str, Any], ...]
    checks: tuple[Mapping[str, Any], ...]

    @property
    def causes(self) -> set[str]:
        """What differs and follows from nothing else that differs."""
        return {each["fact"] for each in self.results if each["status"] == "mismatch" and not each["because"]}

    @property
    def followers(self) -> dict[str, str]:
        """What differs because something else does."""
        return {
            each["fact"]: each["because"] for each in self.results if each["status"] == "mismatch" and each["because"]
        }

    @property
    def unknown(self) -> dict[str, str]:
        """What could not be seen, and why."""
        return {each["fact"]: each.get("reason", "") for each in self.results if each["status"] == "unknown"}

    @property
    def failed(self) -> set[str]:
        """Checks that failed."""
        return {each["check"] for each in self.checks if each["status"] == "fail"}

    def found(self, fact: str) -> Any:
        """The value that the host shows."""
        return next(each["found"] for each in self.results if each["fact"] == fact)


def lockllm(folder: Path, *arguments: str, env: Mapping[str, str] | None = None) -> Done:
    """Runs the command in a folder, with a digest cache beside it."""
    environ = {**ENVIRON, "LOCKLLM_CACHE": str(folder.parent / "cache"), **(env or {})}
    done = subprocess.run(
        [LOCKLLM, *arguments], cwd=folder, env=environ, capture_output=True, text=True, timeout=120, check=False
    )
    assert "Traceback" not in done.stderr
    return Done(done.returncode, done.stdout, done.stderr)


def verify(folder: Path, *arguments: str, env: Mapping[str, str] | None = None) -> Verdict:
    """`lockllm verify`, read back from its JSON."""
    done = lockllm(folder, "verify", *arguments, "--format", "json", env=env)
    assert done.out, done.err
    report = json.loads(done.out)
    assert report["exit_code"] == done.code
    return Verdict(done.code, tuple(report["results"]), tuple(report["checks"]))


def good(folder: Path, *arguments: str, env: Mapping[str, str] | None = None) -> str:
    """Runs a command that must end with 0; what it printed."""
    done = lockllm(folder, *arguments, env=env)
    assert done.code == 0, f"{done.code}\n{done.out}\n{done.err}"
    return done.out
