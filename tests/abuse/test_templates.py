"""Templates, special tokens and tokenizers made to be slow, large or misleading: a whole command stays small and tells no match."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.abuse.conftest import OURS, Ours, environ

MOST_SECONDS = 5.0
MOST_KB = 300_000
ENDLESS = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
_MEASURE = """
import json, os, resource, subprocess, sys
done = subprocess.run(sys.argv[2:], capture_output=True, stdin=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
told = {"code": done.returncode, "out": done.stdout.decode(), "err": done.stderr.decode(),
        "seconds": used.ru_utime + used.ru_stime, "kb": used.ru_maxrss}
open(sys.argv[1], "w").write(json.dumps(told))
"""


def measured(folder: Path, *words: str) -> dict[str, Any]:
    """One run of ours, with the processor time of all its processes and the most memory that one of them held."""
    told = folder.parent / "measured.json"
    small = [sys.executable, "-I", "-S", "-c", _MEASURE, str(told), *OURS, *words]
    subprocess.run(small, cwd=folder, env=environ(folder, {}), check=True, timeout=120)
    done: dict[str, Any] = json.loads(told.read_text())
    assert "Traceback" not in done["err"] + done["out"], done["err"]
    assert "a bug in lockllm" not in done["err"], done["err"]
    assert done["seconds"] < MOST_SECONDS, done["seconds"]
    assert done["kb"] < MOST_KB, done["kb"]
    return done


def doubled(depth: int) -> str:
    return f"{{% set n = namespace(s='x') %}}{{% for i in range({depth}) %}}{{% set n.s = n.s ~ n.s %}}{{% endfor %}}{{{{ n.s }}}}"


TEMPLATES = {
    "8 million characters for every probe": (doubled(23), "its output is too long"),
    "70,000 characters for every probe, and all of them a token": (doubled(16), ""),
    "an endless loop for one probe": ("{% if tools %}" + ENDLESS + "{% endif %}ok", "it needs too much processor time"),
    "a little too long for each": (
        "{% for a in range(99999) %}{% for b in range(20) %}{% endfor %}{% endfor %}ok", "it needs too much processor time",
    ),
    "names handed on": (
        "{% set a0 = messages %}" + "".join(f"{{% set a{i + 1} = a{i} %}}" for i in range(3000)), "it needs too much processor time",
    ),
    "16 MB of text": ("x" * 16_000_000, "it is longer than 1,048,576 characters"),
    "a date a billion wide": ("{{ strftime_now('%9999d' * 100000) }}", "it needs more memory than it may take"),
    "an error of 10 million items": ("{{ raise_exception([0] * 3000000) }}", ""),
    "an error nested without end": (
        "{% set n = namespace(a=[]) %}{% for i in range(30000) %}{% set n.a = [n.a] %}{% endfor %}{{ raise_exception(n.a) }}", "",
    ),
    "a number without end": ("{{ raise_exception(10 ** 5000) }}", "ValueError"),
    "constants that are folded": ("{{ lipsum(n=99999999) }}{{ 'x'|center(10 ** 10) }}", "it needs too much processor time"),
}  # fmt: skip


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_costs_a_command_five_seconds_and_300_mb_and_is_no_match(locked: Path, name: str) -> None:
    template, reason = TEMPLATES[name]
    (locked / "model" / "chat_template.jinja").write_text(template)
    done = measured(locked, "verify", "--stage", "preflight", "--format", "json")
    assert done["code"] == 1
    report = json.loads(done["out"])
    probes = [
        each for each in report["results"] if each["fact"].startswith("prompt_probes.") and each["fact"].count(".") == 2
    ]
    assert probes
    assert all(each["status"] != "match" for each in probes)
    assert reason in done["out"]


@pytest.mark.parametrize("name", ["an endless loop for one probe", "8 million characters for every probe"])
def test_a_probe_that_was_stopped_is_not_locked(work: Path, name: str) -> None:
    (work / "model" / "chat_template.jinja").write_text(TEMPLATES[name][0])
    assert measured(work, "lock")["code"] == 0
    lock = (work / "llm.lock").read_text()
    assert "tools.text" not in lock
    assert TEMPLATES[name][1] in lock
    assert measured(work, "lock", "--strict", "-o", "-")["code"] == 1


def test_a_folder_full_of_templates_is_read_in_part_and_told(work: Path) -> None:
    folder = work / "model" / "additional_chat_templates"
    folder.mkdir()
    for number in range(40):
        with (folder / f"t{number}.jinja").open("wb") as file:
            file.write(b"{{ messages }}")
            file.truncate(16 * 2**20)
    assert measured(work, "render", "model")["code"] == 0  # another template wins, whatever these hold
    assert "jinja is longer than" in " ".join(measured(work, "inspect", "model")["out"].split())


CONFIGS: dict[str, Callable[[], Any]] = {
    "a token of 10 MB": lambda: {"image_token": "x" * 10_000_000},
    "200,000 tokens": lambda: {"extra_special_tokens": {f"t{i}_token": f"<{i}>" for i in range(200_000)}},
    "two million values": lambda: {"added_tokens_decoder": [[] for _ in range(2_000_000)]},
    "no object": lambda: [1],
}


@pytest.mark.parametrize("name", CONFIGS)
def test_special_tokens_without_end_leave_the_probes_unknown(locked: Path, name: str) -> None:
    (locked / "model" / "tokenizer_config.json").write_text(json.dumps(CONFIGS[name]()))
    done = measured(locked, "verify", "--stage", "preflight", "--format", "json")
    assert done["code"] == 1
    probes = [each for each in json.loads(done["out"])["results"] if each["fact"].endswith(".text")]
    assert {each["status"] for each in probes} == {"unknown"}


def spoil_tokenizer(folder: Path, **parts: Any) -> None:
    path = folder / "model" / "tokenizer.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **parts}))


def regex(pattern: str, content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": {"Regex": pattern}, "content": content}


TOKENIZERS: dict[str, dict[str, Any]] = {
    "a pattern that backtracks": {
        "pre_tokenizer": {"type": "Split", "pattern": {"Regex": r"(\w+\s?)+\d$"}, "behavior": "Isolated", "invert": False}
    },
    "each character a thousand tokens": {"normalizer": regex(".", "xy" * 5_000)},
    "letters that multiply": {"normalizer": {"type": "Sequence", "normalizers": [regex("m", "mmmmmmmmmm")] * 12}},
    "padding without end": {
        "padding": {
            "strategy": {"Fixed": 10**9}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0,
            "pad_token": "x",
        }
    },
    "a table that ends early": {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA" * 1000}},
}  # fmt: skip


@pytest.mark.parametrize("name", TOKENIZERS)
def test_a_tokenizer_costs_as_little_and_counts_no_token(locked: Path, name: str) -> None:
    pytest.importorskip("tokenizers")
    spoil_tokenizer(locked, **TOKENIZERS[name])
    done = measured(locked, "verify", "--stage", "preflight", "--format", "json")
    assert done["code"] == 1
    counts = [
        each for each in json.loads(done["out"])["results"] if each["fact"].endswith((".token_count", ".token_ids"))
    ]
    assert counts
    assert {each["status"] for each in counts} == {"unknown"}
    assert "tokenizer.json cannot be used" in done["out"]


def rendering(parent: int) -> int:
    """The process id of the child that renders, once its bounds hold."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        for each in Path(f"/proc/{parent}/task").glob("*/children"):
            for pid in each.read_text().split():
                if "Max core file size        0                    0" in Path(f"/proc/{pid}/limits").read_text():
                    return int(pid)
        time.sleep(0.01)
    raise AssertionError("no child was seen")


def alive(pid: int) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


def looping(work: Path) -> subprocess.Popen[bytes]:
    (work / "model" / "chat_template.jinja").write_text(ENDLESS)
    words = [*OURS, "inspect", "model", "--format", "json"]
    return subprocess.Popen(words, cwd=work, env=environ(work, {}), stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="children are found in /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda each: each.name)
def test_where_the_command_ends_the_child_ends(work: Path, number: signal.Signals) -> None:
    with looping(work) as run:
        child = rendering(run.pid)
        begun = int(Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[11])
        run.send_signal(number)
        run.communicate(timeout=20)
    until = time.monotonic() + 30
    while alive(child) and time.monotonic() < until:
        time.sleep(0.01)
    assert not alive(child)
    assert begun < 100  # hundredths of a second: it had not reached the bound of its own


@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="children are found in /proc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV], ids=lambda each: each.name)
def test_a_child_that_is_ended_from_outside_leaves_the_prompt_unknown(work: Path, number: signal.Signals) -> None:
    with looping(work) as run:
        os.kill(rendering(run.pid), number)
        out, err = run.communicate(timeout=20)
    assert run.returncode == 0, err
    found = json.loads(out)
    assert not any(key.startswith("prompt_probes.user") for key in found["facts"])
    (check,) = [each for each in found["checks"] if each["check"] == "check.template_renders"]
    assert check["status"] == ("fail" if number is signal.SIGSEGV else "unknown")
    assert number.name in check["detail"]


def test_nothing_in_the_environment_reaches_the_child(locked: Path, ours: Ours, tmp_path: Path) -> None:
    planted = tmp_path / "planted"
    planted.mkdir()
    said = tmp_path / "said"
    for name in ("jinja2.py", "startup.py"):
        (planted / name).write_text(f"open({str(said)!r}, 'w').write('seen')\nraise SystemExit(9)\n")
    env = {
        "PYTHONPATH": str(planted),
        "PYTHONSTARTUP": str(planted / "startup.py"),
        "PYTHONHASHSEED": "7",
    }
    words = [
        sys.executable,
        "-c",
        "import sys; sys.path.remove(sys.argv.pop(1)); from lockllm.__main__ import main; main()",
    ]
    run = subprocess.run(
        [*words, str(planted), "verify", "--stage", "preflight"], cwd=locked, env=environ(locked, env), capture_output=True,
        stdin=subprocess.DEVNULL, timeout=60, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert not said.exists()
