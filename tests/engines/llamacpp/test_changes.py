"""Changes of a real llama.cpp server that only its command line shows, beside those of `tests/e2e`.

The server runs under the command line of a genuine `llama-server` (see `tests/servers/llama_server.py`).
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.conftest import TINY
from tests.e2e.loop import Verdict, good, lockllm, verify
from tests.engines.llamacpp import lora
from tests.servers import start

ARGS = ("-m", "tiny.gguf", "-c", "1024", "-np", "2")
SPEC = """\
[checkpoint]
path = "tiny.gguf"

[engine]
name = "llama.cpp"

[serve]
max_model_len = 512
max_num_seqs = 2
"""
TEMPLATE_FOLLOWERS = {"chat_template.sha256", "chat_template.context"}
CHANGES: dict[str, tuple[tuple[str, ...], str, set[str]]] = {
    "the name of a built-in template": (("--chat-template", "llama3"), "chat_template.source", TEMPLATE_FOLLOWERS),
    "one KV buffer": (("--kv-unified",), "serve.kv_unified", {"serve.max_model_len"}),
    "template arguments": (("--chat-template-kwargs", '{"x": "1"}'), "serve.chat_template_kwargs.x", set()),
    "another rope": (("--rope-freq-base", "20000"), "serve.args.rope_freq_base", set()),
    "no prompt cache in memory": (("-cram", "0"), "serve.cache_ram", set()),
    "no continuous batching": (("--no-cont-batching",), "serve.cont_batching", set()),
    "a seed": (("-s", "7"), "sampling.seed", set()),
    "an option that has no neutral name": (("--swa-full",), "serve.args.swa_full", set()),
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = start.llama_home(tmp_path_factory.mktemp("changes") / "host")
    shutil.copy(TINY / "tiny.gguf", made / "tiny.gguf")
    (made / "llm.toml").write_text(SPEC)
    lora.write(made / "style.gguf")
    with start.llama_server(made, *ARGS) as server:
        good(made, "observe", "--server", server.url, "-o", "host.json")
        good(made, "lock", "--observation", "host.json")
        assert verify(made, "--server", server.url).code == 0
    return made


def changed(home: Path, *args: str) -> Verdict:
    with start.llama_server(home, *ARGS, *args) as server:
        return verify(home, "--server", server.url)


@pytest.mark.parametrize(("args", "cause", "followers"), CHANGES.values(), ids=CHANGES)
def test_a_change_is_reported_as_itself(home: Path, args: tuple[str, ...], cause: str, followers: set[str]) -> None:
    found = changed(home, *args)
    assert (found.code, found.causes, found.unknown) == (1, {cause}, {})
    probes = {key for key in found.followers if key.startswith("prompt_probes.")}
    assert set(found.followers) - probes <= followers
    assert not probes or followers == TEMPLATE_FOLLOWERS
    assert set(found.followers.values()) <= {cause}


def test_an_adapter_is_reported_with_its_content_below_it(home: Path) -> None:
    found = changed(home, "--lora", "style.gguf")
    assert found.causes == {"adapters.style.scale"}
    assert {"adapters.style.content_sha256", 'adapters.style.files."style.gguf"'} <= set(found.followers)


def test_settings_spelled_out_as_they_are_by_default_change_nothing(home: Path) -> None:
    found = changed(home, "-ctk", "f16", "-fa", "on", "--cache-prompt", "--jinja", "-ub", "512", "-cb", "--temp", "0.6")
    assert (found.code, found.causes, found.unknown) == (0, set(), {})


def test_the_name_of_a_template_in_the_place_of_its_text_is_a_finding(home: Path) -> None:
    assert "check.settings_take_effect" in changed(home, "--chat-template", "llama3").failed


def test_metadata_overridden_in_memory_is_refused_before_the_start(home: Path) -> None:
    program = str(home / "bin" / "llama-server")
    refused = lockllm(home, "exec", "--lock", "llm.lock", "--", program, *ARGS, "--override-kv", "llama.x=int:1")
    assert refused.code == 1
    assert "serve.args.override_kv" in refused.out + refused.err
