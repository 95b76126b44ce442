"""`lockllm verify --observation`: formats, several locks, narrowing, stages, the gate, and what reaches the container."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from lockllm.cli._refusal import termination_log
from tests.cli.conftest import Call, observation

LOCK = """\
lock_version = 1

[checkpoint]
dtype = "bfloat16"

[engine]
name = "vllm"
version = "0.10.2"

[serve]
dtype = "bfloat16"
seed = 0

[host]
driver = "550.54.14"

[checkpoint.files]
"config.json" = {{ size = 663, sha256 = "{}" }}
"sub/model-00001-of-00002.safetensors" = {{ size = 10, sha256 = "{}" }}
""".format("5" * 64, "6" * 64)
GOOD = {
    "checkpoint.dtype": "bfloat16", "engine.name": "vllm", "engine.version": "0.10.2", "serve.dtype": "bfloat16", "serve.seed": 0,
    "host.driver": "550.54.14", 'checkpoint.files."config.json"': {"size": 663, "sha256": "5" * 64},
    'checkpoint.files."sub/model-00001-of-00002.safetensors"': {"size": 10, "sha256": "6" * 64},
}  # fmt: skip


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """A lock, and hosts that match it, differ from it and do not show all of it."""
    (tmp_path / "llm.lock").write_text(LOCK)
    (tmp_path / "good.json").write_text(observation(GOOD))
    (tmp_path / "bad.json").write_text(observation({**GOOD, "serve.dtype": "float16", "serve.seed": 7}))
    unseen = {key: value for key, value in GOOD.items() if key != "host.driver"}
    reason = {"host.driver": {"reason": "NVML library not found", "fix": "run with --gpus all"}}
    (tmp_path / "unseen.json").write_text(observation(unseen, unobserved=reason))
    (tmp_path / "both.json").write_text(observation({**unseen, "serve.dtype": "float16"}, unobserved=reason))
    return tmp_path


@pytest.mark.parametrize(("name", "code"), [("good", 0), ("bad", 1), ("unseen", 3), ("both", 1)])
@pytest.mark.parametrize("format_", ["text", "json", "junit", "sarif", "github", "markdown"])
def test_the_exit_code_is_the_same_in_every_format(host: Path, call: Call, name: str, code: int, format_: str) -> None:
    done = call("verify", "--observation", f"{name}.json", "--format", format_)
    assert (done.code, done.err) == (code, "")
    if code == 1:
        assert "serve.dtype" in done.out
        assert "bfloat16" in done.out
        assert "float16" in done.out


def test_every_format_can_be_read_by_what_it_is_for(host: Path, call: Call) -> None:
    arguments = ("verify", "--observation", "bad.json", "--format")
    assert call(*arguments, "json").json["report_version"] == 1
    suite = ET.fromstring(call(*arguments, "junit").out)
    assert len(list(suite.iter("failure"))) == 2
    assert [each["ruleId"] for each in call(*arguments, "sarif").json["runs"][0]["results"]] == [
        "serve.dtype",
        "serve.seed",
    ]
    assert call(*arguments, "github").out.startswith("::error ")
    assert "| `serve.dtype`" in call(*arguments, "markdown").out or "`serve.dtype`" in call(*arguments, "markdown").out


def test_an_observation_can_come_from_standard_input(host: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    with open("good.json") as file:
        monkeypatch.setattr("sys.stdin", file)
        assert call("verify", "--observation", "-").code == 0


@pytest.mark.parametrize(
    ("arguments", "code", "facts"),
    [
        (("--only", "serve.dtype"), 1, {"serve.dtype"}),
        (("--only", "serve"), 1, {"serve.dtype", "serve.seed"}),
        (("--only", "serve.*"), 1, {"serve.dtype", "serve.seed"}),
        (("--only", "engine.*"), 0, {"engine.name", "engine.version"}),
        (("--only", "*.dtype"), 1, {"checkpoint.dtype", "serve.dtype"}),
        (("--only", "engine.name", "--only", "host"), 0, {"engine.name", "host.driver"}),
        (("--only", 'checkpoint.files."config.json"'), 0, {'checkpoint.files."config.json"'}),
        (("--only", "config.json"), 0, {'checkpoint.files."config.json"'}),
        (("--only", "files.config.json"), 0, {'checkpoint.files."config.json"'}),
        (("--only", "checkpoint.files.config.json"), 0, {'checkpoint.files."config.json"'}),
        (("--only", 'checkpoint.files."sub/*"'), 0, {'checkpoint.files."sub/model-00001-of-00002.safetensors"'}),
        (("--skip", "serve"), 0, {*GOOD} - {"serve.dtype", "serve.seed"}),
        (("--skip", "serve.*", "--skip", "config.json"), 0, {*GOOD} - {"serve.dtype", "serve.seed", 'checkpoint.files."config.json"'}),
        (("--only", "*"), 1, {*GOOD}),
    ],
)  # fmt: skip
def test_a_verification_can_be_narrowed(
    host: Path, call: Call, arguments: tuple[str, ...], code: int, facts: set[str]
) -> None:
    done = call("verify", "--observation", "bad.json", "--format", "json", *arguments)
    assert (done.code, {each["fact"] for each in done.json["results"]}) == (code, facts)


@pytest.mark.parametrize(
    ("text", "what", "fix"),
    [
        ("serve.dtpye", "matches no locked fact", "did you mean serve.dtype?"),
        ("kernels", "matches no locked fact", "see the keys in the lock"),
        ("tokenizer.json", "matches no locked fact", "see the keys in the lock"),
        ("dtype", "names 2 facts: checkpoint.dtype, serve.dtype", "write one of them in full"),
        ("", "is not a key or glob", 'write host.* or checkpoint.files."config.json"'),
        ("a..b", "is not a key or glob", 'write host.* or checkpoint.files."config.json"'),
        ('"open', "is not a key or glob", 'write host.* or checkpoint.files."config.json"'),
    ],
)
def test_only_what_hits_nothing_is_an_error(host: Path, call: Call, text: str, what: str, fix: str) -> None:
    done = call("verify", "--observation", "good.json", "--only", text)
    assert (done.code, done.out) == (2, "")
    assert done.err == f"lockllm: {text!r} {what}\n  in    --only\n  fix   {fix}\n"


def test_skipping_everything_checks_nothing(host: Path, call: Call) -> None:
    done = call("verify", "--observation", "good.json", "--skip", "*")
    assert done.code == 3
    assert "nothing was checked" in done.out


@pytest.mark.parametrize(("glob", "code"), [("host.driver", 0), ("host", 0), ("serve", 3)])
def test_what_a_host_can_never_show_may_be_allowed(host: Path, call: Call, glob: str, code: int) -> None:
    assert call("verify", "--observation", "unseen.json", "--allow-unknown", glob).code == code
    assert call("verify", "--observation", "both.json", "--allow-unknown", glob).code == 1


def test_an_unknown_is_told_with_reason_and_fix(host: Path, call: Call) -> None:
    out = call("verify", "--observation", "unseen.json").out
    assert "host.driver\n    reason    NVML library not found\n    fix       run with --gpus all\n" in out


@pytest.mark.parametrize(("stage", "code"), [("preflight", 0), ("live", 3), ("all", 3), (None, 3)])
def test_a_stage_decides_what_is_due(host: Path, call: Call, stage: str | None, code: int) -> None:
    unseen = {key: value for key, value in GOOD.items() if not key.startswith("serve.")}
    reason = {"serve": {"reason": "no server runs here", "due": "live"}}
    Path("x.json").write_text(observation(unseen, unobserved=reason))
    arguments = ("--stage", stage) if stage else ()
    done = call("verify", "--observation", "x.json", "--format", "json", *arguments)
    assert (done.code, done.json["stage"]) == (code, stage or "all")


@pytest.mark.parametrize("gate", ["warn", "off", " WARN ", "Off"])
def test_the_glass_can_be_broken(host: Path, call: Call, monkeypatch: pytest.MonkeyPatch, gate: str) -> None:
    closed = call("verify", "--observation", "bad.json").out
    monkeypatch.setenv("LOCKLLM_GATE", gate)
    done = call("verify", "--observation", "bad.json")
    assert done.code == 0
    assert done.out.splitlines()[:-1] == closed.splitlines()[:-1]
    assert "gate" in done.out.splitlines()[-1]
    assert "gate" not in closed
    assert call("verify", "--observation", "bad.json", "--format", "json").json["status"] == "mismatch"


def test_a_gate_that_is_no_gate_is_an_error(host: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCKLLM_GATE", "maybe")
    done = call("verify", "--observation", "good.json")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "lockllm: LOCKLLM_GATE is 'maybe'\n  in    the environment\n  fix   set it to enforce, warn or off\n"
    )


@pytest.mark.parametrize("gate", ["", "enforce"])
def test_a_gate_that_is_not_named_is_closed(host: Path, call: Call, monkeypatch: pytest.MonkeyPatch, gate: str) -> None:
    monkeypatch.setenv("LOCKLLM_GATE", gate)
    assert call("verify", "--observation", "bad.json").code == 1


def test_of_several_locks_one_that_passes_is_enough(host: Path, call: Call) -> None:
    Path("b.lock").write_text(LOCK.replace('"0.10.2"', '"0.11.0"').replace("seed = 0", "seed = 1"))
    Path("c.lock").write_text(LOCK.replace("seed = 0", "seed = 1"))
    good = call("verify", "b.lock", "llm.lock", "c.lock", "--observation", "good.json")
    assert good.code == 0
    assert good.out.startswith("MATCH  llm.lock against ")
    near = call("verify", "b.lock", "c.lock", "--observation", "good.json")
    assert near.code == 1
    assert near.out.startswith("MISMATCH  c.lock against ")
    assert "b.lock: 2 mismatches, 0 unknown" in near.out


def test_one_lock_of_several_that_cannot_be_read_is_an_error(host: Path, call: Call) -> None:
    Path("b.lock").write_text("lock_version = 1\nx = 1\n")
    done = call("verify", "llm.lock", "b.lock", "--observation", "good.json")
    assert (done.code, done.out) == (2, "")
    assert done.err == "lockllm: x is not a table of facts\n  in    b.lock, line 2\n  fix   run `lockllm lock`\n"


def test_quiet_prints_nothing_where_all_is_well(host: Path, call: Call) -> None:
    assert call("verify", "--observation", "good.json", "--quiet").out == ""
    assert "serve.dtype" in call("verify", "--observation", "bad.json", "--quiet").out


def test_color_is_for_terminals_and_on_request(host: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ("verify", "--observation", "bad.json")
    assert "\x1b[" not in call(*arguments).out
    assert "\x1b[" in call(*arguments, "--color", "always").out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in call(*arguments).out


def test_whole_digests_are_printed_on_request(host: Path, call: Call) -> None:
    Path("x.json").write_text(
        observation({**GOOD, 'checkpoint.files."config.json"': {"size": 663, "sha256": "7" * 64}})
    )
    assert "7" * 64 not in call("verify", "--observation", "x.json").out
    assert "7" * 64 in call("verify", "--observation", "x.json", "--full").out


def test_a_fact_of_another_release_is_compared_and_warned_about(host: Path, call: Call) -> None:
    Path("llm.lock").write_text(LOCK + '[zukunft]\nsome.key = [1, "b"]\n')
    Path("x.json").write_text(observation({**GOOD, "zukunft.some.key": [1, "b"]}))
    done = call("verify", "--observation", "x.json")
    assert (done.code, "this release does not know zukunft.some.key" in done.out) == (0, True)
    Path("x.json").write_text(observation({**GOOD, "zukunft.some.key": [1, "c"]}))
    assert call("verify", "--observation", "x.json").code == 1
    assert call("verify", "--observation", "good.json").code == 3


def test_a_value_of_an_odd_type_is_compared_and_warned_about(host: Path, call: Call) -> None:
    Path("llm.lock").write_text(LOCK.replace("seed = 0", 'seed = "zero"'))
    Path("x.json").write_text(observation({**GOOD, "serve.seed": "zero"}))
    done = call("verify", "--observation", "x.json", "--format", "json")
    assert done.code == 0
    assert done.json["warnings"] == [
        "llm.lock: serve.seed is not of type whole number; it is compared by plain equality"
    ]
    assert (
        done.err
        == "lockllm: warning: llm.lock: serve.seed is not of type whole number; it is compared by plain equality\n"
    )
    assert call("verify", "--observation", "good.json").code == 1


def test_a_policy_that_hits_nothing_is_a_warning(host: Path, call: Call) -> None:
    Path("llm.lock").write_text(
        LOCK.replace("[checkpoint.files]", '[policy]\n"packages.*" = "report"\n\n[checkpoint.files]')
    )
    done = call("verify", "--observation", "good.json", "--format", "json")
    assert (done.code, done.json["warnings"]) == (0, ["policy 'packages.*' matches no locked fact"])


def test_what_is_refused_is_told_to_the_container(tmp_path: Path) -> None:
    log = tmp_path / "termination-log"
    termination_log("MISMATCH", str(log))
    assert not log.exists()
    log.write_text("")
    termination_log("MISMATCH  ü\n" + "x" * 5000, str(log))
    assert log.read_text().startswith("MISMATCH  ü\n")
    assert len(log.read_bytes()) <= 4096
    log.chmod(0o444)
    termination_log("", str(log))
    assert log.read_text().startswith("MISMATCH")


def test_files_outside_include_are_not_extra(host: Path, call: Call) -> None:
    extra = {**GOOD, 'checkpoint.files."extra.json"': {"size": 1, "sha256": "8" * 64}}
    Path("x.json").write_text(observation(extra))
    assert call("verify", "--observation", "x.json").code == 1
    for setting in ('include = ["config.json", "sub/*"]', 'exclude = ["extra*"]'):
        Path("llm.lock").write_text(LOCK.replace("[checkpoint]\n", f"[checkpoint]\n{setting}\n"))
        assert call("verify", "--observation", "x.json").code == 0


def test_a_report_depends_on_lock_and_observation_alone(
    host: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ("verify", "--observation", "bad.json", "--format", "json")
    once = call(*arguments).out
    monkeypatch.setenv("HOME", "/nowhere")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert call(*arguments).out == once
    assert json.loads(once)["fingerprint"]["locked"].startswith("1-w")
