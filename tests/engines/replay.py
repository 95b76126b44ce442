"""Command lines that people wrote and start logs that servers printed, replayed and compared with what they say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lockllm import engines
from lockllm.facts.observation import CheckStatus, Reading
from lockllm.facts.registry import dump
from lockllm.observe.server.command_line import Plan, plan

_DUE_SERVE = frozenset(
    """
    max_model_len max_num_seqs max_num_batched_tokens enable_prefix_caching enable_chunked_prefill enforce_eager dtype
    quantization kv_cache_dtype tensor_parallel_size pipeline_parallel_size data_parallel_size attention_backend
    batch_invariant seed generation_config
    """.split()
)
_DUE_KERNELS = frozenset("attention moe_backend gemm_backend quant_kernel sampler all_reduce".split())


def rows(folder: Path) -> list[dict[str, Any]]:
    """The rows of `data/commands.jsonl`."""
    return [json.loads(line) for line in (folder / "data" / "commands.jsonl").read_text().splitlines()]


def planned(row: dict[str, Any], argv: str = "run_as") -> Plan:
    """A row's command line, read with its variables; its files lie in the working directory by their base name."""
    files = {name.rsplit("/", 1)[-1]: text for name, text in (row.get("files") or {}).items()}

    def read(path: str) -> str:
        name = path.rsplit("/", 1)[-1]
        if name not in files:
            raise FileNotFoundError(2, "no such file")
        return str(files[name])

    env = {name: str(value) for name, value in (row.get("env") or {}).items()}
    return plan(row[argv], env, "/nowhere", row.get("version"), read)


def facts(found: Any) -> dict[str, Any]:
    """Readings by key, as documents hold them."""
    return {each.fact.key: _plain(dump(each.fact, each.value)) for each in found if isinstance(each, Reading)}


def wrong(row: dict[str, Any]) -> list[str]:
    """What a row's plain command says otherwise than the row."""
    found = planned(row)
    if row.get("refused"):
        return [] if any(check.status is CheckStatus.FAIL for check in found.checks) else ["it is not refused"]
    told = facts(found.readings)
    problems = []
    for key, value in row["expected"].items():
        spellings = [(key, value), *map(tuple, (row.get("also") or {}).get(key, []))]
        if key.startswith("serve.args."):
            spellings.append(("serve." + key.removeprefix("serve.args."), value))
        if not any(name in told and same(expected, told[name]) for name, expected in spellings):
            problems.append(f"{key}: expected {value!r}, found {told.get(key)!r}")
    words = " ".join(row["run_as"])
    for key in row.get("unknown") or []:
        value = told.get(key)
        if value is not None and "$" not in str(value) and str(value) not in words:
            problems.append(f"{key}: {value!r} is invented")
    return problems


def leaked(row: dict[str, Any], argv: str) -> list[str]:
    """The row's secrets that anything told of its command line holds."""
    found = planned(row, argv)
    said = repr((facts(found.readings), found.checks, found.warnings, found.form and found.form.subcommand))
    return [secret for secret in row.get("secrets") or [] if len(secret) > 5 and secret in said]


def logs(folder: Path) -> list[Path]:
    """The start logs beside a test."""
    return sorted((folder / "data" / "logs").glob("*.log"))


def misread(log: Path, engine: str) -> list[str]:
    """What a start log says otherwise than its `.expected.json`, also within the wrappings that collectors add."""
    expected = json.loads(log.with_suffix(".expected.json").read_text())
    lines = log.read_text(errors="replace").splitlines()
    module = engines.load(engine)
    told = facts(module.from_log(lines))
    problems = [
        f"{key}: expected {value!r}, found {told.get(key)!r}"
        for key, value in expected["facts"].items()
        if not same(value, told.get(key)) and (_due(key) or told.get(key) is not None)
    ]
    problems += [f"{key}: the log does not tell" for key in expected.get("unknown") or [] if told.get(key) is not None]
    problems += [secret for secret in expected.get("secrets") or [] if secret and secret in repr(told)]
    for name, wrapped in _wrapped(lines).items():
        if facts(module.from_log(wrapped)) != told:
            problems.append(f"{name}: it reads otherwise")
    return problems


def same(expected: Any, found: Any) -> bool:
    """Whether two values are one, however they are spelled."""
    if isinstance(expected, bool) or isinstance(found, bool):
        return str(expected).lower() == str(found).lower()
    if isinstance(expected, (int, float)) and isinstance(found, (int, float)):
        return abs(expected - found) <= 1e-6 * max(1.0, abs(expected))
    if isinstance(expected, list) and isinstance(found, list):
        return list(map(str, expected)) == list(map(str, found))
    return str(expected).lower() == str(found).lower()


def _wrapped(lines: list[str]) -> dict[str, list[str]]:
    return {
        "two starts": lines + lines,
        "colors": [f"\x1b[1;36m{line[:3]}\x1b[0m{line[3:]}" for line in lines],
        "docker compose": [f"server-1  | {line}" for line in lines],
        "docker json-file": [
            json.dumps({"log": line + "\n", "stream": "stderr"}, separators=(",", ":")) for line in lines
        ],
        "kubernetes": [f"2026-11-10T17:37:37.123456789Z stdout F {line}" for line in lines],
        "kubectl": [f"[pod/server-0/main] {line}" for line in lines],
    }


def _due(key: str) -> bool:
    group, _, rest = key.partition(".")
    return (
        group in ("sampling", "chat_template")
        or key in ("engine.name", "engine.version", "engine.build", "checkpoint.architecture")
        or (group == "serve" and rest in _DUE_SERVE)
        or (group == "kernels" and rest in _DUE_KERNELS)
    )


def _plain(value: Any) -> Any:
    return [_plain(each) for each in value] if isinstance(value, tuple) else value
