"""What fuzzing starts from: real commands, answers and logs of every engine, and ways to spoil them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from lockllm import engines
from lockllm.checkpoint import Look
from lockllm.documents import observation as observations
from lockllm.engines import Answer, Engine
from lockllm.facts.observation import Check, Observation, Reading, Unobserved

DATA = Path(__file__).parent.parent / "engines"
_PACKAGES = {name: each.module.split(".")[-2] for name, each in engines.built_in().items()}
FOLDERS = {name: package for name, package in _PACKAGES.items() if (DATA / package / "data").exists()}
TIMES = int(os.environ.get("LOCKLLM_FUZZ", "1"))
"""How many times as long as in CI; anything above 1 takes other cases every time."""

ODD: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    2**63,
    10**40,
    1e308,
    float("nan"),
    float("inf"),
    "",
    " ",
    "auto",
    "none",
    "null",
    "nan",
    "inf",
    "1e999",
    "9" * 5000,
    "-0",
    "0x10",
    "1_000",
    "٣",
    "²",
    "½",
    "\u202e",
    "\x00",
    "\n[policy]\n",
    "\ud800",
    "\udcff",
    "{",
    "}",
    "[",
    "{}",
    "[]",
    "{{",
    "%s",
    "%(x)d",
    "{0}",
    "$(x)",
    "`x`",
    "a" * 5_000,
    "'",
    '"',
    "\\",
    "'\\d'",
    "=",
    "==",
    "=x",
    ",",
    ",,",
    ":",
    "://",
    "http://[",
    "..",
    "/",
    "//",
    "~",
    "None",
    "True",
    "fp8",
    "bfloat16",
    "torch.float16",
    "32k",
    "32K",
    "9e9G",
    "1.5.",
    "1.2.3rc",
    ">=1",
    "b6000",
    "[" * 1500,
    "-" * 1500 + "1",
    "(" * 1500,
    '{"a":' * 900 + "1" + "}" * 900,
    "1+1" * 900,
    [],
    {},
    [[]],
    [{}],
    {"": {}},
    {"a": [None, {"b": "\x1b[31m"}]},
    [1, "x", None],
    "a.b.c",
    "a..b",
    "a=b=c",
    "a/b",
    "a/b@c",
    "--",
    "-",
    "--x",
    "--x.y=1",
    "-x=1",
)
texts = st.sampled_from([each for each in ODD if isinstance(each, str)]) | st.text(max_size=8)
values = st.recursive(
    st.sampled_from(ODD) | st.text(max_size=6) | st.integers() | st.floats(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
seeds = st.integers(0, 2**32)


def bounded(examples: int) -> settings:
    """So many cases in CI, the same ones every time; more, and others, with LOCKLLM_FUZZ."""
    return settings(
        max_examples=examples * TIMES,
        deadline=None,
        database=None,
        derandomize=TIMES == 1,
        suppress_health_check=list(HealthCheck),
    )


def told(found: Any) -> None:
    """What an engine or a checkpoint gives is readings, gaps and findings, and an observation can hold it."""
    if isinstance(found, Look):
        found = (*found.readings, *found.unobserved, *found.checks)
    held = list(found)
    assert all(isinstance(each, (Reading, Unobserved, Check)) for each in held)
    observation = Observation(
        readings=tuple(each for each in held if isinstance(each, Reading)),
        unobserved=tuple(each for each in held if isinstance(each, Unobserved)),
        checks=tuple(each for each in held if isinstance(each, Check)),
    )
    observations.read(observations.write(observation).encode())


def engine(name: str) -> Engine:
    """The translator of that name."""
    return engines.load(name)


def commands(name: str) -> list[dict[str, Any]]:
    """Commands that people wrote for an engine."""
    path = DATA / FOLDERS[name] / "data" / "commands.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def logs(name: str) -> list[list[str]]:
    """Start logs of an engine."""
    found = sorted((DATA / FOLDERS[name] / "data").rglob("*.log"))
    return [path.read_text(errors="replace").splitlines()[:400] for path in found]


def bodies(name: str) -> list[Any]:
    """JSON that servers of an engine answered, whatever the question was."""
    found = sorted((DATA / FOLDERS[name] / "data").rglob("captures/**/*.json"))
    return [json.loads(path.read_text()) for path in found if path.stat().st_size < 200_000]


def answers(name: str, json_: Any, random: Random) -> list[Answer]:
    """That body to every question, or to some."""
    text = json.dumps(json_) if not isinstance(json_, str) else json_
    odd = ["", "vllm:cache_config_info{a=\x00}", 'x{a="', "# HELP", text, text[: len(text) // 2]]
    return [
        Answer(
            probe=probe,
            status=random.choice([200, 200, 200, 404, 500]),
            headers={},
            text=random.choice(odd),
            json=json_,
        )
        for probe in engine(name).probes
        if random.random() < 0.8
    ]


def spoiled(value: Any, random: Random, odd: Any) -> Any:
    """A value with one part of it, anywhere, replaced by an odd one, taken away or doubled."""
    places = list(_places(value, ()))
    place = random.choice(places) if places else ()
    return _put(value, place, odd, random)


def spoiled_line(line: str, random: Random, odd: str) -> str:
    """A line with one word replaced, or cut."""
    words = line.split(" ")
    at = random.randrange(len(words))
    key, equals, _ = words[at].partition("=")
    words[at] = random.choice([odd, key + equals + odd, words[at][: len(words[at]) // 2], words[at] * 2])
    return " ".join(words)


def _places(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield from _places(each, (*path, key))


def _put(value: Any, path: tuple[Any, ...], odd: Any, random: Random) -> Any:
    if not path:
        return odd
    copy = dict(value) if isinstance(value, dict) else list(value)
    if len(path) == 1 and random.random() < 0.2:
        del copy[path[0]]
    else:
        copy[path[0]] = _put(value[path[0]], path[1:], odd, random)
    return copy
