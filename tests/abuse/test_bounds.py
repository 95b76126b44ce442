"""Inputs as large as they may be: each is told in every format within seconds of the processor and bounded memory."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from lockllm.documents import observation as observations
from lockllm.errors import LockError, ObservationError
from lockllm.facts.checkpoint import MOST_FILES
from lockllm.output import DIFF_FORMATS, FORMATS
from tests.abuse.conftest import OURS
from tests.abuse.hostile import MEASURE

SECONDS = 15
"""Of the processor: three times what an idle core of a few years takes, so that no busy machine fails."""
MEMORY = 300 << 20
"""Bytes that a run may hold at most."""


def bounded(folder: Path, *arguments: str) -> tuple[int, str, str]:
    """Our command line's exit code and output, in so many seconds of the processor and so much memory."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))

    # A child's peak counts that of the process it was forked from: one of its own, which is small, measures it.
    small = [sys.executable, "-I", "-S", "-c", MEASURE, *OURS, *arguments]
    with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
        code = subprocess.run(small, cwd=folder, stdout=out, stderr=err, preexec_fn=limit, check=False).returncode
    said, _, kb = (folder / "err").read_text().strip().rpartition("\n")
    assert code < 128, f"stopped after {SECONDS} s of the processor"
    assert "Traceback" not in said and "a bug in lockllm" not in said, said
    assert int(kb.split()[-1]) * (1 if sys.platform == "darwin" else 1024) < MEMORY
    return code, (folder / "out").read_text(), said


def lock_of(lines: Iterable[str], table: str) -> str:
    """A lock with one table."""
    return f'lock_version = 1\n\n[engine]\nname = "vllm"\n\n[{table}]\n' + "".join(lines)


def files(digit: str) -> str:
    """A lock of as many files as there may be."""
    line = '"model-%05d.safetensors" = { size = 4096, sha256 = "' + digit * 64 + '" }\n'
    return lock_of((line % number for number in range(MOST_FILES)), "checkpoint.files")


def seen(facts: dict[str, Any], **parts: Any) -> str:
    """An observation."""
    return json.dumps({"observation_version": 1, "facts": facts, **parts})


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of locks and an observation of as many files as there may be."""
    folder = tmp_path_factory.mktemp("full")
    (folder / "a.lock").write_text(files("0"))
    (folder / "b.lock").write_text(files("1"))
    facts = {
        f'checkpoint.files."model-{number:05}.safetensors"': [
            {
                "value": {"size": 4096, "sha256": "0" * 64},
                "source": f"model/model-{number:05}.safetensors",
                "by": "file",
            }
        ]
        for number in range(MOST_FILES)
    }
    (folder / "seen.json").write_text(seen(facts, complete=["checkpoint.files"]))
    return folder


@pytest.mark.parametrize("format_", FORMATS)
def test_every_file_of_a_full_lock_that_differs_is_told(full: Path, format_: str) -> None:
    code, out, _ = bounded(full, "verify", "b.lock", "--observation", "seen.json", "--format", format_)
    assert code == 1
    assert all(f"model-{number:05}.safetensors" in out for number in range(0, MOST_FILES, 997))
    assert out.count(".safetensors") >= MOST_FILES
    if format_ == "json":
        assert sum(each["status"] == "mismatch" for each in json.loads(out)["results"]) == MOST_FILES


@pytest.mark.parametrize("format_", DIFF_FORMATS)
def test_every_change_of_a_full_lock_is_told(full: Path, format_: str) -> None:
    code, out, _ = bounded(full, "diff", "a.lock", "b.lock", "--format", format_)
    assert code == 0
    assert out.count(".safetensors") >= MOST_FILES


def test_files_that_nobody_saw_are_told(full: Path) -> None:
    (full / "nothing.json").write_text(seen({}))
    code, out, _ = bounded(full, "verify", "a.lock", "--observation", "nothing.json")
    assert code == 3
    assert f"{MOST_FILES + 1} not seen" in out  # of one reason: counted, not listed


TABLES: dict[str, Callable[[str], str]] = {
    "packages": lambda word: "".join(f'p{number} = "1.{word}"\n' for number in range(19_998)),
    "sampling": lambda word: "".join(f'p{number} = "{word}"\n' for number in range(19_998)),
    "kernels": lambda word: "".join(f'p{number} = "{word}"\n' for number in range(19_998)),
    "env": lambda word: "".join(f'P{number} = "{word}"\n' for number in range(19_998)),
    "prompt_probes": lambda word: "".join(f'p{number}.text = "{word}"\n' for number in range(19_998)),
    "checkpoint.generation_config": lambda word: "".join(f'p{number} = "{word}"\n' for number in range(19_998)),
    "adapters": lambda word: "".join(f"p{number}.scale = {word}.5\n" for number in range(19_998)),
}


@pytest.mark.parametrize("table", TABLES)
def test_a_lock_of_as_many_facts_as_there_may_be_is_judged(tmp_path: Path, table: str) -> None:
    for name, word in (("a.lock", "1"), ("b.lock", "2")):
        (tmp_path / name).write_text(lock_of([TABLES[table](word)], table))
    (tmp_path / "nothing.json").write_text(seen({}))
    code, out, _ = bounded(tmp_path, "diff", "a.lock", "b.lock", "--format", "json")
    assert code == 0
    assert len(json.loads(out)["changes"]) == 19_998
    assert bounded(tmp_path, "verify", "a.lock", "--observation", "nothing.json")[0] == 3


def test_a_lock_of_a_large_system_is_read() -> None:
    from lockllm.documents import lock as locks

    name = '"model-%05d-of-10000.safetensors"'
    rows = range(10_000)
    text = lock_of((f'some-package-{number} = "1.{number}+cu128"\n' for number in range(1_000)), "packages")
    text += "\n[env]\n" + "".join(f'VLLM_SOME_VARIABLE_{number} = "{number}"\n' for number in range(600))
    text += "\n[checkpoint.files]\n"
    text += "".join(name % number + ' = { size = 4999999999, sha256 = "' + "0" * 64 + '" }\n' for number in rows)
    text += "\n[checkpoint.blake3]\n" + "".join(name % number + ' = "' + "0" * 64 + '"\n' for number in rows)
    assert len(locks.read(text).values) == 1 + 1_000 + 600 + 2 * 10_000


SPECS = {
    "facts that are none": "[serve]\n" + "".join(f"p{number} = 1\n" for number in range(80_000)),
    "settings": "[serve.args]\n" + "".join(f"p{number} = 1\n" for number in range(80_000)),
    "variants": "".join(f'[variant.v{number}.host]\ngpu = "x"\n' for number in range(25_000)),
}


@pytest.mark.parametrize("kind", SPECS)
def test_a_spec_of_as_many_lines_as_there_may_be_is_read_or_refused(tmp_path: Path, kind: str) -> None:
    head = '[checkpoint]\nrepo = "org/model"\n[engine]\nname = "vllm"\nversion = "0.10.2"\n'
    (tmp_path / "llm.toml").write_text(head + SPECS[kind])
    code, _, said = bounded(tmp_path, "lock", "--offline")
    assert code == (4 if kind == "settings" else 2)
    assert said.count("lockllm: ") <= 100


def test_policies_and_waivers_without_end_are_refused() -> None:
    from lockllm.documents import lock as locks

    waiver = '[[waive]]\nfact = "packages.*%d*"\nfound = "9"\nreason = "x"\n'
    text = lock_of([TABLES["packages"]("1")], "packages") + "".join(waiver % number for number in range(60))
    with pytest.raises(LockError, match=r"held against facts 1,\d\d\d,\d\d\d times"):
        locks.read(text)


VALUES = 990_000
"""Nearly as many as an observation may hold."""
PARTS: dict[str, Callable[[], str]] = {
    "one list": lambda: seen({"serve.args.x": [{"value": list(range(VALUES))}]}),
    "a list of tables": lambda: seen({"serve.args.x": [{"value": [{"a": 1}] * (VALUES // 3)}]}),
    "facts": lambda: seen({f"serve.args.p{number}": [{"value": "x"}] for number in range(40_000)}),
    "readings": lambda: seen({"serve.seed": [{"value": number} for number in range(40_000)]}),
    "findings": lambda: seen({}, checks={f"check.p{number}": {"status": "fail"} for number in range(20_000)}),
    "warnings": lambda: seen({}, warnings=[f"w{number}" for number in range(20_000)]),
    "gaps": lambda: seen({}, unobserved={f"packages.p{number}": {} for number in range(20_000)}),
}


@pytest.mark.parametrize("part", PARTS)
def test_an_observation_as_large_as_it_may_be_is_judged(tmp_path: Path, part: str) -> None:
    (tmp_path / "seen.json").write_text(PARTS[part]())
    (tmp_path / "a.lock").write_text(lock_of(["x = [1]\n"], "serve.args"))
    for format_ in ("text", "sarif"):
        code, _, said = bounded(tmp_path, "verify", "a.lock", "--observation", "seen.json", "--format", format_)
        assert code in (1, 3), said


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (seen({f"serve.args.p{number}": [{"value": 1}] for number in range(40_001)}), "40,001 readings besides"),
        (seen({}, warnings=["w"] * 20_001), "20,001 entries in warnings"),
        (seen({}, complete=["p"] * 20_001), "20,001 entries in complete"),
        (seen({}, unobserved={f"p{number}": {} for number in range(20_001)}), "20,001 entries in unobserved"),
        (
            seen({f"checkpoint.files.p{number}": [{"value": {"size": 1}}] for number in range(MOST_FILES + 1)}),
            "50,001 readings or gaps of files",
        ),
    ],
    ids=["readings", "warnings", "complete", "gaps", "files"],
)
def test_an_observation_of_more_than_a_host_shows_is_refused(text: str, what: str) -> None:
    with pytest.raises(ObservationError, match=what):
        observations.read(text.encode())


def test_gaps_of_every_file_are_read() -> None:
    gaps = {f'checkpoint.files."p{number}"': {"reason": "x"} for number in range(MOST_FILES)}
    assert len(observations.read(seen({}, unobserved=gaps).encode()).unobserved) == MOST_FILES


LOGS: dict[str, Callable[[], bytes]] = {
    "empty lines": lambda: b"\n" * 60_000_000,
    "returns": lambda: b"\r" * 60_000_000,
    "one line": lambda: b"a" * 60_000_000,
    "dumps of vLLM": lambda: (
        b"INFO 01-01 00:00:00 [core.py:58] Initializing a V1 LLM engine (v0.10.2) with config: model='a', "
        + b"x=1, " * 300 + b"\n"
    ) * 35_000,
}  # fmt: skip


@pytest.mark.parametrize("log", LOGS)
@pytest.mark.parametrize("engine", ["vllm", "sglang", "llama.cpp", "ollama"])
def test_a_start_log_as_large_as_it_may_be_is_read(tmp_path: Path, log: str, engine: str) -> None:
    (tmp_path / "log").write_bytes(LOGS[log]())
    assert bounded(tmp_path, "inspect", "--log", "log", "--engine", engine)[0] == 0


def test_a_command_of_options_without_end_is_cut_aloud(tmp_path: Path) -> None:
    options = [f"--p{number}=1" for number in range(60_000)]
    code, out, _ = bounded(tmp_path, "inspect", "--format", "json", "--", "vllm", "serve", "model", *options)
    assert code == 0
    assert "more than 2000 arguments; the rest is not read" in out


def test_settings_of_generation_without_end_are_a_gap(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"architectures": ["LlamaForCausalLM"]}')
    (tmp_path / "generation_config.json").write_text(json.dumps({f"k{number}": 1 for number in range(400_000)}))
    code, out, _ = bounded(tmp_path, "inspect", ".", "--quick", "--format", "json")
    assert code == 0
    reason = json.loads(out)["unobserved"]["checkpoint.generation_config"]["reason"]
    assert reason == "generation_config.json holds more than 1,000 settings"
