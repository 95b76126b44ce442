"""SGLang's own variables that change results (`srt/environ.py` and what it replaced), with the releases that read each."""

from __future__ import annotations

from collections.abc import Mapping

from lockllm.engines.kernel.collect import Collect
from lockllm.engines.kernel.releases import below, beyond, spans
from lockllm.engines.kernel.variables import contents, is_common
from lockllm.engines.sglang.options import NEWEST, VERSIONS
from lockllm.facts import variables as catalogue
from lockllm.facts.env import is_secret
from lockllm.facts.observation import CheckStatus
from lockllm.facts.variables import Class, Variable

_OLD, _NEW = "SGL_", "SGLANG_"
_RENAMED_SINCE = "0.5.3"
"""Since then a variable `SGL_X` is copied to `SGLANG_X` at start, over a value that stands there (`srt/environ.py`)."""


def variables(told: Collect, env: Mapping[str, str], version: str | None) -> None:
    """The variables that change results; those that falsify outputs or that this release does not read are findings."""
    for name, (value, typed) in sorted(_in_force(env, version).items()):
        row = catalogue.find(name, "sglang")
        if is_common(name):
            told.variable(name, value)
        elif is_secret(name):
            if name in ("SGLANG_API_KEY", "EXA_API_KEY"):
                told.secret(value)
        elif row is None or row.engine != "sglang":
            continue
        elif row.kind is Class.FORBIDDEN:
            told.finding(
                "check.settings_take_effect", CheckStatus.FAIL, f"{typed} falsifies results or undoes a fix",
                f"variable {typed}", f"unset {typed}",
            )  # fmt: skip
            told.variable(name, value, f"variable {typed}")
        elif row.recorded and not _dead(told, row, typed, version):
            told.variable(name, value, f"variable {typed}")
    for name, path in contents(env, "sglang"):
        told.path(f"env.{name}", path, f"variable {name}")


def _in_force(env: Mapping[str, str], version: str | None) -> dict[str, tuple[str, str]]:
    """Variable -> its value, and the name under which it was set: `SGL_X` sets `SGLANG_X`, and some code reads both."""
    found = {name: (value, name) for name, value in env.items()}
    for name, value in env.items():
        if not name.startswith(_OLD) or below(version, _RENAMED_SINCE):
            continue
        row = catalogue.find(name, "sglang")
        if row is None or version is None or not _reads(row, version):
            found.pop(name)
        found[_NEW + name.removeprefix(_OLD)] = (value, name)
    return found


def _reads(row: Variable, version: str) -> bool:
    """Whether a release reads a variable; between two releases that were read, and past the newest, it may."""
    newest = NEWEST if beyond(version, NEWEST) else version
    return spans(row.since or VERSIONS[0], row.until, newest, VERSIONS)


def _dead(told: Collect, row: Variable, typed: str, version: str | None) -> bool:
    if version is None or row.name.endswith("*") or _reads(row, version):
        return False
    span = f"last: {row.until}" if row.until and not below(version, row.since) else f"first: {row.since}"
    told.finding(
        "check.variables_known", CheckStatus.FAIL,
        f"{typed} is set, but sglang {version} does not read it ({span})", f"variable {typed}", f"unset {typed}",
    )  # fmt: skip
    return True
