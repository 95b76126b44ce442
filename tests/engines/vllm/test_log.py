"""vLLM start logs: those that really ran, those written after the messages of a release, and what collectors make of them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.engines.vllm.material import DATA, VLLM, facts

LOGS = sorted((DATA / "logs").glob("*.log"))


def expected(log: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(log.with_suffix(".expected.json").read_text())
    return found


def same(wanted: Any, found: Any) -> bool:
    if isinstance(wanted, (int, float)) and not isinstance(wanted, bool) and isinstance(found, (int, float)):
        return abs(wanted - found) <= 1e-6 * max(1.0, abs(wanted))
    if wanted is None:
        return found in (None, "absent")
    return bool(wanted == found) or (isinstance(found, (str, int, float)) and str(wanted).lower() == str(found).lower())


def check(log: Path, lines: list[str]) -> None:
    found = facts(VLLM.from_log(lines))
    case = expected(log)
    assert {key: found.get(key) for key, wanted in case["facts"].items() if not same(wanted, found.get(key))} == {}
    assert [key for key in case["unknown"] if found.get(key) is not None] == []
    told = str(list(VLLM.from_log(lines)))
    assert [secret for secret in case["secrets"] if secret in told] == []


@pytest.mark.parametrize("log", LOGS, ids=[log.stem for log in LOGS])
def test_a_log_shows_what_it_states_and_nothing_else(log: Path) -> None:
    check(log, log.read_text().splitlines())


WRAPPERS: list[Callable[[str], str]] = [
    lambda line: f"vllm-1  | {line}",
    lambda line: f"2026-01-02T03:04:05.678901234Z stdout F {line}",
    lambda line: f"Nov 10 17:37:37 host vllm[123]: {line}",
    lambda line: f"\x1b[1;36m{line}\x1b[0m",
    lambda line: json.dumps({"log": line + "\n", "stream": "stderr", "time": "2026-01-02T03:04:05Z"}).replace(
        ": ", ":", 1
    ),
]


@pytest.mark.parametrize("wrap", WRAPPERS, ids=["compose", "cri", "journald", "ansi", "docker"])
@pytest.mark.parametrize("log", LOGS[::4], ids=[log.stem for log in LOGS[::4]])
def test_a_collector_changes_nothing(log: Path, wrap: Callable[[str], str]) -> None:
    check(log, [wrap(line) for line in log.read_text().splitlines()])


@pytest.mark.parametrize("log", LOGS[::3], ids=[log.stem for log in LOGS[::3]])
def test_the_last_start_counts(log: Path) -> None:
    lines = log.read_text().splitlines()
    check(log, [*(LOGS[0].read_text().splitlines()), *lines] if LOGS[0] != log else [*lines, *lines])


@pytest.mark.parametrize("log", LOGS, ids=[log.stem for log in LOGS])
def test_half_a_log_states_less_and_nothing_wrong(log: Path) -> None:
    lines = log.read_text().splitlines()
    found = facts(VLLM.from_log(lines[: len(lines) // 2]))
    wanted = expected(log)["facts"]
    lines_after = {"serve.enable_prefix_caching", "serve.async_scheduling", "serve.max_num_batched_tokens"}
    wrong = {key for key in found if key in wanted and not same(wanted[key], found[key])}
    assert wrong <= lines_after


def test_a_log_of_json_records_says_the_same() -> None:
    log = DATA / "logs" / "vllm-0.32.0-1.log"
    told = re.compile(r"(?:\((?P<who>\S+) pid=\d+\) )?(?:INFO|WARNING) \S+ \S+ \[\S+\] (?P<text>.*)")
    records = []
    for line in log.read_text().splitlines():
        found = told.match(line)
        who, text = (found["who"] or "", found["text"]) if found else ("", line)
        records.append(json.dumps({"levelname": "INFO", "processName": who, "message": text}))
    check(log, records)


@pytest.mark.parametrize("lines", [[], [""], ["x" * 1_000_000], ["non-default args: {" * 3], ["args: Namespace(" + "(" * 100_000 + ")"],
                                   ["Initializing a V1 LLM engine (v9) with config: a=[[[, b='x"], ["\x1b[", "\ud800"]])  # fmt: skip
def test_no_log_is_too_odd_to_be_read(lines: list[str]) -> None:
    list(VLLM.from_log(lines))
