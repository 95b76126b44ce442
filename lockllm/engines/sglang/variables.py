"""SGLang's own variables that change results (`srt/environ.py`), with the first release that reads each."""

from __future__ import annotations

from collections.abc import Mapping

from lockllm.engines._collect import Collect
from lockllm.engines._releases import beyond
from lockllm.engines._variables import contents, is_common
from lockllm.facts import variables as catalogue
from lockllm.facts.env import is_secret
from lockllm.facts.observation import CheckStatus
from lockllm.facts.variables import Class, Variable

FIRST = {row.name: row.since for row in catalogue.rows("sglang") if row.recorded and not row.name.endswith("*")}
"""Its own variables that change results -> the first release that was seen to read each."""


def variables(told: Collect, env: Mapping[str, str], version: str | None) -> None:
    """The variables that change results; those that falsify outputs or that this release does not read are findings."""
    for name in sorted(env):
        if is_common(name):
            told.variable(name, env[name])
        elif is_secret(name):
            if name in ("SGLANG_API_KEY", "EXA_API_KEY"):
                told.secret(env[name])
        elif (row := catalogue.find(name, "sglang")) is None or row.engine != "sglang":
            continue
        elif row.kind is Class.FORBIDDEN:
            told.finding(
                "check.settings_take_effect", CheckStatus.FAIL, f"{name} falsifies results or undoes a fix",
                f"variable {name}", f"unset {name}",
            )  # fmt: skip
        elif row.recorded and not _dead(told, row, version):
            told.variable(name, env[name])
    for name, path in contents(env, "sglang"):
        told.path(f"env.{name}", path, f"variable {name}")


def _dead(told: Collect, row: Variable, version: str | None) -> bool:
    name, last = row.name, row.until
    if not last or not beyond(version, last):
        return False
    told.finding(
        "check.variables_known", CheckStatus.FAIL,
        f"{name} is set, but sglang {version} does not read it (last: {last})", f"variable {name}", f"unset {name}",
    )  # fmt: skip
    return True
