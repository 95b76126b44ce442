"""Secrets planted wherever a host keeps them: none appears in any output of any command, whatever the engine."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Call
from tests.observe import hosts
from tests.observe.test_observe import serving

WORD = "pl4nted"
KEY, TOKEN = f"{WORD}-key", f"hf_{WORD}TokenTokenToken"
URL = f"https://user:{WORD}-pass@example.org/x?token={WORD}-query#{WORD}"
JSON = json.dumps(
    {"password": f"{WORD}-1", "nested": {"api_key": KEY, "url": URL}, "headers": [f"Authorization: Bearer {KEY}"]}
)
ENV = {
    "HF_TOKEN": TOKEN, "HUGGING_FACE_HUB_TOKEN": TOKEN, "VLLM_API_KEY": KEY, "SGLANG_API_KEY": KEY, "LLAMA_API_KEY": KEY,
    "LLAMA_ARG_API_KEY_FILE": f"/keys/{WORD}", "API_KEY": KEY, "OPENAI_API_KEY": KEY, "NGROK_AUTHTOKEN": KEY,
    "AWS_SECRET_ACCESS_KEY": KEY, "AWS_SESSION_TOKEN": KEY, "HTTPS_PROXY": f"http://u:{WORD}@proxy:1", "HF_ENDPOINT": URL,
    "DATABASE_URL": URL, "VLLM_PLUGINS": URL, "SGLANG_PLUGINS": URL, "VLLM_NO_SUCH_TOKEN": KEY, "SGLANG_NO_SUCH_SECRET": KEY,
    "S3_ENDPOINT_URL": URL, "OTEL_EXPORTER_OTLP_HEADERS": f"api-key={KEY}", "OLLAMA_API_KEY": KEY, "OLLAMA_HOST": URL,
}  # fmt: skip
YAML = f"hf-token: {TOKEN}\nssl-keyfile-password: {KEY}\nunknown-secret: {KEY}\n"
LINES = {
    "vllm": [
        "vllm serve {model} --api-key KEY KEY2 --hf-token TOKEN --ssl-keyfile-password KEY --otlp-traces-endpoint URL",
        "vllm serve {model} --api-k KEY --hf_token=TOKEN --kv-transfer-config JSON --additional-config JSON",
        "vllm serve {model} --kv-transfer-config.kv_connector_extra_config.api_key KEY --hf-overrides JSON --unknown-key KEY",
        "vllm serve URL --chat-template URL --revision TOKEN --model-loader-extra-config JSON --compilation-config {{\"token\":KEY",
        "vllm serve {model} --config vllm.yaml --unknown-url URL",
        "docker run -e HF_TOKEN=TOKEN --env=VLLM_API_KEY=KEY --label x=KEY vllm/vllm-openai:v0.10.2 --model org/m --api-key KEY",
    ],
    "sglang": [
        "python -m sglang.launch_server --model-path {model} --api-key KEY KEY2 --admin-api-key=KEY --ssl-keyfile-password KEY",
        "python -m sglang.launch_server --model-path {model} --api-k KEY --api_key KEY --watermark-config JSON --dtype URL",
        "python -m sglang.launch_server --config sglang.yaml --hicache-storage-backend-extra-config JSON --lora-paths a=URL",
        "python -m sglang.launch_server --model-path URL --chat-template URL --otlp-traces-endpoint URL --revision TOKEN",
    ],
    "llama.cpp": [
        "llama-server -m {gguf} --api-key KEY,KEY2 --api-key-file /keys/KEY --hf-token TOKEN --chat-template-kwargs JSON",
        "llama-server --model-url URL -hft TOKEN --api-key KEY KEY2",
    ],
    "llama-cpp-python": ["python -m llama_cpp.server --model {gguf} --api_key KEY KEY2 --ssl_keyfile_password KEY"],
    "tgi": ["text-generation-launcher --model-id {model} --api-key KEY KEY2 --ngrok-authtoken KEY --otlp-endpoint URL",
            "text-generation-launcher --model-id URL"],
    "lmdeploy": ["lmdeploy serve api_server {model} --api-keys KEY KEY2 --hf-overrides JSON"],
    "tensorrt-llm": ["trtllm-serve {model} --api_key KEY KEY2 --hf_token TOKEN"],
    "transformers": ["transformers serve {model} --hf-token TOKEN --token KEY KEY2"],
    "ollama": ["ollama serve"],
}  # fmt: skip
LOGS = {
    "vllm": f"INFO 05-01 12:00:00 [api_server.py:1] args: Namespace(model='m', api_key=['{KEY}'], hf_token='{TOKEN}', "
    f"hf_overrides={{'token': '{KEY}'}}, ssl_keyfile_password='{KEY}')\n",
    "sglang": f"[2026-05-01 12:00:00] server_args=ServerArgs(model_path='m', tp_size=2, api_key='{KEY}', admin_api_key='{KEY}', "
    f"chat_template='{URL}', random_seed=1)\n",
    "tgi": f'2026-05-01T12:00:00Z  INFO l: Args {{\n    model_id: "m",\n    api_key: Some(\n        "{KEY}",\n    ),\n}}\n',
    "ollama": f'time=x level=INFO source=a.go:1 msg="server config" env="map[HTTPS_PROXY:http://u:{WORD}@p OLLAMA_HOST:{URL}]"\n',
    "llama.cpp": f"build: 6000 (abc1234)\nmain: --api-key\n{KEY}\nload_model: loading model '{URL}'\n",
}  # fmt: skip


def words(line: str, model: str, gguf: str) -> list[str]:
    """A command line with the planted secrets in place."""
    filled = line.replace("{model}", model).replace("{gguf}", gguf).replace("{{", "{").split()
    planted = {"KEY2": f"{KEY}2", "KEY": KEY, "TOKEN": TOKEN, "URL": URL, "JSON": JSON}
    for name, secret in planted.items():
        filled = [word if WORD in word else word.replace(name, secret) for word in filled]
    return filled


@pytest.fixture
def host(tmp_path: Path, tiny: Path, tiny_gguf: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host whose environment and config files hold secrets."""
    for name, secret in ENV.items():
        monkeypatch.setenv(name, secret)
    (tmp_path / "vllm.yaml").write_text(f"model: {tiny}\napi-key: [{KEY}, {KEY}2]\nhf-overrides: '{JSON}'\n{YAML}")
    (tmp_path / "sglang.yaml").write_text(f"model-path: {tiny}\napi-key: {KEY}\nadmin-api-key: {KEY}\n{YAML}")
    return tmp_path


CASES = [(engine, line) for engine, lines in LINES.items() for line in lines]


@pytest.mark.parametrize(("engine", "line"), CASES, ids=[f"{engine}-{at}" for at, (engine, _) in enumerate(CASES)])
def test_no_command_that_reads_a_command_line_prints_a_secret(call: Call, host: Path, engine: str, line: str) -> None:
    argv = words(line, str(host / "model"), str(host / "tiny.gguf"))
    (host / "llm.lock").write_text(
        f'lock_version = 1\n\n[engine]\nname = "{engine}"\n\n[serve]\ntensor_parallel_size = 3\n'
    )
    for done in (
        call("inspect", "--format", "json", "--", *argv),
        call("inspect", "--", *argv),
        call("init", "-o", "-", "--", *argv),
        call("exec", "--gpu", "none", "--verbose", "--full", "--", *argv),
    ):
        assert WORD not in done.out + done.err


@pytest.mark.parametrize("engine", LOGS)
def test_no_start_log_brings_a_secret(call: Call, host: Path, engine: str) -> None:
    (host / "server.log").write_text(LOGS[engine])
    for form in ("json", "text"):
        done = call("inspect", "--log", "server.log", "--engine", engine, "--format", form)
        assert WORD not in done.out + done.err


SHOWN: Mapping[str, Mapping[str, Any]] = {
    "sglang": {
        "/server_info": {
            "version": "0.5.23", "tp_size": 1, "random_seed": 1,
            "internal_states": [{"api_key": KEY}], "api_key": KEY, "admin_api_key": KEY,
            "ssl_keyfile_password": KEY, "model_path": URL, "chat_template": URL, "default_chat_template_kwargs": {"api_key": KEY},
            "load_format": URL, "revision": TOKEN, "attention_backend": f"Bearer {KEY}", "hicache_storage_backend_extra_config": JSON,
            "launch_command": f"--model-path m --api-key {KEY} --hicache-storage-backend-extra-config '{JSON}' --max-total-tokens 8",
        },
    },
    "vllm": {
        "/version": {"version": "0.10.2"},
        "/v1/models": {"object": "list", "data": [{"id": "m", "object": "model", "owned_by": "vllm", "root": URL, "max_model_len": 8}]},
        "/server_info": {"vllm_config": f"model='{URL}', hf_token='{TOKEN}', api_key='{KEY}', seed=0", "vllm_env": {"VLLM_API_KEY": KEY}},
    },
    "llama.cpp": {
        "/props": {"build_info": "b6000-abc1234", "model_path": f"/{KEY}/m.gguf", "total_slots": 1, "chat_template": "{{ messages }}",
                   "api_key": KEY, "default_generation_settings": {"n_ctx": 512, "params": {"temperature": 0.8, "grammar": URL}}},
        "/slots": [{"id": 0, "prompt": f"my key is {KEY}"}],
    },
    "tgi": {"/info": {"model_id": URL, "version": "3.0.0", "sha": "a" * 40, "max_concurrent_requests": 128, "api_key": KEY}},
    "ollama": {"/api/version": {"version": "0.13.2"}, "/api/ps": {"models": [{"name": URL, "digest": "a" * 64, "api_key": KEY}]},
               "/api/tags": {"models": [{"name": URL, "digest": "a" * 64}]}},
}  # fmt: skip


@contextmanager
def running(host: Path, engine: str) -> Iterator[int]:
    """A stand-in process whose command line and environment hold secrets."""
    venv = hosts.environment(host / "venv", {engine: "0.10.2" if engine == "vllm" else "0.5.23", "torch": "2.8.0"})
    line = "{python} -m sglang.launch_server --model-path {model} --api-key KEY --admin-api-key=KEY --lora-paths a=URL"
    if engine == "vllm":
        line = "{python} -m vllm.entrypoints.openai.api_server --model {model} --api-key KEY --hf-token TOKEN --hf-overrides JSON"
    module = Path(line.split()[2].replace(".", "/"))
    where = hosts.site(venv) / module.parent
    where.mkdir(parents=True, exist_ok=True)
    for folder in (where, *where.parents[: len(module.parent.parts) - 1]):
        (folder / "__init__.py").touch()
    (where / f"{module.name}.py").write_text(hosts.STAND_IN)
    argv = words(line.replace("{python}", str(venv / "bin/python")), str(host / "model"), "")
    with hosts.running(argv, ENV, host) as (pid, _):
        yield pid


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_no_document_or_report_of_a_running_server_holds_a_secret(call: Call, host: Path, engine: str) -> None:
    (host / "llm.toml").write_text(f'[checkpoint]\npath = "model"\n\n[engine]\nname = "{engine}"\n')
    with running(host, engine) as pid:
        asked = ("--pid", str(pid), "--gpu", "none", "--timeout", "0.5")
        printed = [call("observe", *asked, "-o", "seen.json")]
        printed.append(call("lock", "--observation", "seen.json", "--pin", "serve", "--pin", "env", "--offline"))
        locked = (host / "llm.lock").read_text()
        assert "[serve" in locked
        (host / "llm.lock").write_text(locked.replace("tensor_parallel_size = 1", "tensor_parallel_size = 3"))
        formats = ("text", "json", "junit", "sarif", "github", "markdown")
        printed += [call("verify", *asked, "--full", "--verbose", "--format", form) for form in formats]
    printed += [call("command", "--as", form) for form in ("shell", "docker", "kubernetes")]
    printed += [call("fingerprint", "seen.json"), call("verify", "--observation", "seen.json", "--verbose")]
    texts = [done.out + done.err for done in printed] + [(host / "seen.json").read_text(), locked]
    assert [text for text in texts if WORD in text] == []


@pytest.mark.parametrize("engine", SHOWN)
def test_no_answer_of_a_server_brings_a_secret(call: Call, host: Path, engine: str) -> None:
    with serving(SHOWN[engine], {"Set-Cookie": KEY}) as url:
        asked = (
            "--server",
            url,
            "--api-key-env",
            "API_KEY",
            "--header",
            f"X-Auth: {KEY}",
            "--gpu",
            "none",
            "--timeout",
            "3",
        )
        printed = [call("observe", *asked), call("init", "-o", "-", "--server", url, "--api-key-env", "API_KEY")]
    assert "engine.name" in printed[0].out
    assert [done.out + done.err for done in printed if WORD in done.out + done.err] == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("observe", "--server", f"http://user:{KEY}@127.0.0.1:9"),
        ("observe", "--server", "http://127.0.0.1:9", "--header", KEY),
        ("observe", "--server", "http://127.0.0.1:9", "--api-key-env", f"sk-{WORD}-0123456789"),
        ("verify", "--server", f"ftp://user:{KEY}@h"),
        ("inspect", URL),
        ("inspect", "--log", URL, "--engine", "vllm"),
        ("lock", "--observation", URL),
        ("diff", URL, URL),
        ("exec", "--lock", URL, "--", "vllm", "serve", "m", "--api-key", KEY),
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_no_error_repeats_a_secret(call: Call, host: Path, arguments: tuple[str, ...]) -> None:
    done = call(*arguments)
    assert done.code != 0
    assert WORD not in done.out + done.err


def test_an_unreachable_hub_is_named_without_its_password(
    call: Call, host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", f"http://user:{WORD}@127.0.0.1:9/?token={WORD}")
    (host / "llm.toml").write_text('[checkpoint]\nrepo = "org/m"\n\n[engine]\nname = "vllm"\nversion = "0.10.2"\n')
    done = call("lock")
    assert done.code != 0
    assert WORD not in done.out + done.err
