"""One hostile string planted wherever a run of the command line reads: no output of it changes its structure."""

from __future__ import annotations

import json
import os
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from lockllm.documents import toml
from lockllm.errors import LockError
from tests.abuse.conftest import Ours
from tests.abuse.test_servers import reply, saying, serving
from tests.observe import hosts

BAD = {
    "a new table": 'x\n[policy]\n"*" = "ignore"\n# via y',
    "workflow commands": "\n::error file=a::b\n##[error]c\n%0A::stop-commands::t",
    "markup": "|a|b| </details><script>x</script> @name #1 [l](http://x) `c` ```\n- d",
    "XML": "]]><a/>&amp;<!--",
    "terminal": "\x1b[31m\x1b]8;;http://x\x07\r\x08 \u202e \u2066 \u200b \u2028 \x85",
    "shell": "$(reboot) `reboot` ; reboot #' \" \\",
}
FORMATS = ("text", "json", "junit", "sarif", "github", "markdown")


def plant(work: Path, bad: str) -> None:
    """That string in names, values, a template's own error, and metadata."""
    model = work / "model"
    config = json.loads((model / "config.json").read_text())
    config |= {"architectures": [bad], "dtype": bad, "model_type": bad, "rope_scaling": {"rope_type": bad, bad: bad}}
    config |= {"quantization_config": {"quant_method": bad, bad: bad}, bad: bad}
    (model / "config.json").write_text(json.dumps(config))
    (model / "generation_config.json").write_text(json.dumps({"temperature": bad, bad: bad, "eos_token_id": bad}))
    (model / "chat_template.jinja").write_text("{{ raise_exception(" + json.dumps(bad) + ") }}")
    (model / f"{bad.replace('/', '_')}.json").write_text("{}")
    (model / "readable$(x)|y`.json").write_text("{}")


def whole(format_: str, text: str) -> None:
    """An output is what its format says, and holds nothing that a terminal obeys."""
    assert not [char for char in text if not (char.isprintable() or char == "\n")]
    if format_ in ("json", "sarif"):
        json.loads(text)
    elif format_ == "junit":
        ET.fromstring(text)
    lines = text.splitlines()
    assert not [line for line in lines if line.startswith(("[policy]", "##["))]
    if format_ == "github":
        assert not [
            line
            for line in lines
            if line.startswith("::") and line.split(" ")[0].split("::")[1] not in ("error", "warning", "notice")
        ]
        assert not [line for line in lines if "::error file=a" in line and line.startswith("::error file=a")]
    else:
        assert not [line for line in lines if line.lstrip().startswith("::")]
    if format_ == "markdown":
        assert "<script" not in text
        assert "@name" not in text.replace("&#64;", "")


@pytest.mark.parametrize("name", BAD)
def test_a_string_in_a_checkpoint_a_command_and_a_log_changes_no_output(locked: Path, ours: Ours, name: str) -> None:
    bad = BAD[name]
    plant(locked, bad)
    word = bad.replace("\x00", "")
    log = locked / "start.log"
    log.write_text(
        f"INFO vLLM API server version {bad}\nINFO non-default args: {{'dtype': '{bad}'}}\nUsing {bad} backend\n"
    )
    for format_ in FORMATS:
        done = ours("verify", "--stage", "preflight", "--log", "start.log", "--format", format_)
        assert done.code == 1, done.err
        whole(format_, done.out)
        whole("text", done.err)
    made = ours("lock", "-o", "-")
    whole("text", made.err)
    if made.code == 0:
        parsed = toml.load(made.out, "llm.lock", LockError)
        assert set(parsed.get("policy", {}).values()) <= {"report", "compatible"}
    for words in (
        ["inspect", "model"],
        ["inspect", "model", "--format", "json"],
        ["render", "model"],
        [
            "inspect",
            "--",
            "vllm",
            "serve",
            word,
            "--dtype",
            word,
            "--served-model-name",
            word,
            f"--{word}",
            "--seed",
            word,
        ],
    ):
        done = ours(*words)
        whole("json" if "json" in words else "text", done.out)
        whole("text", done.err)
    done = ours("observe", "--checkpoint", "model", "--server", "127.0.0.1:1", "--timeout", "1")
    whole("json", done.out)


@pytest.mark.parametrize("name", BAD)
def test_a_string_in_a_servers_answers_changes_no_output(work: Path, ours: Ours, name: str) -> None:
    bad = BAD[name]
    (work / "llm.lock").write_text(
        'lock_version = 1\n\n[engine]\nname = "vllm"\nversion = "0.10.2"\n\n[serve]\nmax_model_len = 7\n'
    )
    body = {
        "version": bad,
        "object": "list",
        "data": [{"id": bad, "root": bad, "max_model_len": bad, "owned_by": "vllm"}],
        bad: bad,
    }
    with serving(saying(reply(json.dumps(body).encode()))) as port:
        for format_ in ("text", "json", "github", "markdown"):
            done = ours(
                "verify", "--server", f"127.0.0.1:{port}", "--stage", "live", "--timeout", "3", "--format", format_
            )
            assert done.code in (1, 3)
            whole(format_, done.out)
            whole("text", done.err)


@pytest.mark.parametrize("name", BAD)
def test_a_string_in_a_lock_an_observation_or_a_spec_changes_no_output(work: Path, ours: Ours, name: str) -> None:
    bad = BAD[name]
    quoted = json.dumps(bad).replace("\x7f", "\\u007f")
    (work / "llm.lock").write_text(
        f'lock_version = 1\n\n[engine]\nname = {quoted}\n\n[serve.args]\n{quoted} = {quoted}\n\n[[waive]]\nfact = "serve.dtype"\n'
        f"found = {quoted}\nreason = {quoted}\n"
    )
    facts = {
        f"serve.args.{quoted}": [{"value": bad + "x", "source": bad}],
        "engine.name": [{"value": bad + "y", "source": bad}],
    }
    check = {"check.files_complete": {"status": "fail", "detail": bad, "source": bad, "fix": bad}}
    raw = {
        "observation_version": 1,
        "host": bad,
        "observed_at": bad,
        "facts": facts,
        "checks": check,
        "warnings": [bad],
    }
    (work / "host.json").write_text(json.dumps(raw))
    for format_ in FORMATS:
        done = ours("verify", "--observation", "host.json", "--format", format_)
        assert done.code == 1, done.err
        whole(format_, done.out)
        whole("text", done.err)
    (work / "llm.toml").write_text(f"[checkpoint]\npath = {quoted}\n\n[engine]\nname = {quoted}\n{quoted} = {quoted}\n")
    done = ours("lock")
    assert done.code == 2
    whole("text", done.err)


def hostile_packages(where: Path, bad: str) -> None:
    """Distributions whose folder, METADATA, direct_url.json, RECORD, `.pth` and sources hold that string."""
    line = bad.replace("\n", "\r")
    name = bad.replace("/", "_").replace("\0", "")[:80]
    hosts.install(
        where,
        "vllm",
        "0.10.2",
        direct={"url": bad, "vcs_info": {"vcs": bad, "commit_id": bad}},
        files={"vllm/a.py": "x"},
    )
    (where / "vllm" / "a.py").write_text("edited")
    (where / "vllm-0.10.2.dist-info" / "RECORD").write_text(
        f"vllm/a.py,sha256=x,1\n{line},sha256=x,1\n{json.dumps(bad)},sha256=x,1\n"
    )
    (where / "vllm-0.10.2.dist-info" / "METADATA").write_text(
        f"Name: vllm\nVersion: 0.10.2\nRequires-Dist: torch=={line}\nRequires-Dist: {line}==1\nRequires-Dist: numpy==1; {line}\n"
    )
    for package in ("torch", "transformers", "flashinfer-python", name):
        folder = where / f"{package}-{name}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Name: {package}\nVersion: 2.{line}\nVersion: {line}\n")
        (folder / "direct_url.json").write_text(json.dumps({"url": bad, "dir_info": {"editable": bad}}))
    (where / f"{name}-2.dist-info").mkdir()
    (where / "odd.pth").write_text(f"{line}\nimport {line}\n")
    (where / "torch").mkdir()
    (where / "torch" / "version.py").write_text(
        f"__version__ = {json.dumps(bad)}\ncuda = {json.dumps(bad)}\nhip = None\n"
    )


def test_strings_in_package_metadata_change_no_output(locked: Path, ours: Ours) -> None:
    folder = hosts.environment(locked / "env", {})
    hostile_packages(hosts.site(folder), "".join(BAD.values()))
    hosts.program(folder, "vllm")
    env = {"PATH": f"{folder}/bin:{os.environ['PATH']}"}
    packages = '[packages]\ntorch = "2.8.0"\nflashinfer-python = "0.4"\n\n[absent]'
    (locked / "llm.lock").write_text((locked / "llm.lock").read_text().replace("[absent]", packages))
    done = ours("verify", "--deep", "--stage", "preflight", "--format", "github", env=env)
    assert done.code == 1, done.err
    whole("github", done.out)
    assert "packages.torch differs" in done.out
    assert "torch x" in done.out
    assert ours("observe", "--stage", "preflight", "--checkpoint", "model", "-o", "host.json", env=env).code == 0
    assert json.loads((locked / "host.json").read_text())["facts"]["packages.torch"]
    for format_ in FORMATS:
        done = ours("verify", "--observation", "host.json", "--format", format_)
        assert done.code == 1, done.err
        whole(format_, done.out)
        whole("text", done.err)
    made = ours("lock", "-o", "-", "--observation", "host.json", env=env)
    whole("text", made.err)
    if made.code == 0:
        assert set(toml.load(made.out, "llm.lock", LockError).get("policy", {}).values()) <= {"report", "compatible"}


def test_an_ignored_everything_is_said_aloud_and_is_3(work: Path, ours: Ours) -> None:
    (work / "llm.lock").write_text('lock_version = 1\n\n[serve]\ndtype = "bfloat16"\n\n[policy]\n"*" = "ignore"\n')
    (work / "host.json").write_text(
        '{"observation_version": 1, "facts": {"serve.dtype": [{"value": "float16", "source": "x"}]}}'
    )
    done = ours("verify", "--observation", "host.json")
    assert done.code == 3
    assert "nothing was checked" in done.out
