"""llama.cpp's real server: locked as it runs, verified clean, and each change reported as itself and nothing else.

No endpoint of llama.cpp shows most of its flags, so the server runs under the command line of a genuine `llama-server`
(see `tests/servers/llama_server.py`), which is where lockllm reads them.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import TINY
from tests.e2e.loop import good, lockllm, verify
from tests.servers import start

ARGS = ("-m", "tiny.gguf", "-c", "1024", "-np", "2")
ENV = {"GGML_OP_OFFLOAD_MIN_BATCH": "48"}
SPEC = """\
[checkpoint]
path = "tiny.gguf"

[engine]
name = "llama.cpp"

[serve]
max_model_len = 512
max_num_seqs = 2
max_num_batched_tokens = 1024
"""


def host(folder: Path) -> Path:
    """An installation of the server, a checkpoint and a spec."""
    made = start.llama_home(folder)
    shutil.copy(TINY / "tiny.gguf", made / "tiny.gguf")
    (made / "llm.toml").write_text(SPEC)
    return made


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A host locked from its running server, and verified clean."""
    made = host(tmp_path_factory.mktemp("first") / "host")
    with start.llama_server(made, *ARGS, env=ENV) as server:
        good(made, "observe", "--server", server.url, "-o", "host.json")
        good(made, "lock", "--observation", "host.json", "--pin", "env.*")
        clean = verify(made, "--server", server.url)
    assert (clean.code, clean.causes, clean.unknown, clean.failed) == (0, set(), {}, set())
    return made


@pytest.fixture
def locked(first: Path, tmp_path: Path) -> Path:
    """Another host like it, with the first one's lock: to be changed at will."""
    made = host(tmp_path / "host")
    for name in ("llm.lock", "host.json"):
        shutil.copy(first / name, made / name)
    return made


def remake(home: Path, *options: str) -> None:
    subprocess.run([sys.executable, TINY / "make.py", "--out", home, *options], check=True, timeout=60)


def flip_a_weight(home: Path) -> None:
    data = bytearray((home / "tiny.gguf").read_bytes())
    data[-8] ^= 1
    (home / "tiny.gguf").write_bytes(data)


def pull_another_template(home: Path) -> None:
    (home / "new.jinja").write_text("{% for m in messages %}[{{ m['role'] }}] {{ m['content'] }}\n{% endfor %}")
    remake(home, "--template", str(home / "new.jinja"))


def write_a_template(home: Path) -> None:
    (home / "other.jinja").write_text("{% for m in messages %}<{{ m['role'] }}> {{ m['content'] }}\n{% endfor %}")


def write_a_config(home: Path) -> None:
    (home / ".config" / "llama.cpp").mkdir(parents=True)
    (home / ".config" / "llama.cpp" / "config.ini").write_text("[*]\ntop-k = 7\n")


def nothing(home: Path) -> None:
    pass


def upgrade_the_library(home: Path) -> None:
    start.set_version(home, "xllamacpp", "2026.9.11500")


CHANGES: list[tuple[str, Callable[[Path], None], tuple[str, ...], dict[str, str], set[str]]] = [
    ("another byte of the weights", flip_a_weight, ARGS, {}, {'checkpoint.files."tiny.gguf"'}),
    ("another template in the GGUF", pull_another_template, ARGS, {}, {'checkpoint.files."tiny.gguf"'}),
    ("a template file", write_a_template, (*ARGS, "--chat-template-file", "other.jinja"), {}, {"chat_template.source"}),
    ("another context length", nothing, (*ARGS, "-c", "512"), {}, {"serve.max_model_len"}),
    ("prefix caching off", nothing, (*ARGS, "--no-cache-prompt"), {}, {"serve.enable_prefix_caching"}),
    ("another KV type", nothing, (*ARGS, "-ctk", "q8_0"), {}, {"serve.kv_cache_dtype"}),
    ("another temperature", nothing, (*ARGS, "--temp", "0.2"), {}, {"sampling.temperature"}),
    ("a variable instead of a flag", nothing, ARGS, {"LLAMA_ARG_TOP_K": "7"}, {"sampling.top_k"}),
    ("a config file instead of a flag", write_a_config, ARGS, {}, {"sampling.top_k"}),
    (
        "another value of a variable",
        nothing,
        ARGS,
        {"GGML_OP_OFFLOAD_MIN_BATCH": "64"},
        {"env.GGML_OP_OFFLOAD_MIN_BATCH"},
    ),
    ("another version of the library", upgrade_the_library, ARGS, {}, {"engine.version"}),
    ("more slots", nothing, (*ARGS, "-np", "4"), {}, {"serve.max_num_seqs"}),
    ("flash attention off", nothing, (*ARGS, "-fa", "off"), {}, {"serve.flash_attn"}),
]


@pytest.mark.parametrize(
    ("change", "args", "env", "causes"), [change[1:] for change in CHANGES], ids=[change[0] for change in CHANGES]
)
def test_a_change_is_reported_as_itself_and_nothing_else(
    locked: Path, change: Callable[[Path], None], args: tuple[str, ...], env: dict[str, str], causes: set[str]
) -> None:
    change(locked)
    with start.llama_server(locked, *args, env={**ENV, **env}) as server:
        found = verify(locked, "--server", server.url)
    assert (found.code, found.causes, found.unknown) == (1, causes, {})
    assert set(found.followers.values()) <= causes


def test_locking_twice_gives_the_same_bytes(locked: Path) -> None:
    before = (locked / "llm.lock").read_bytes()
    good(locked, "lock", "--observation", "host.json", "--pin", "env.*")
    assert (locked / "llm.lock").read_bytes() == before


def test_a_server_that_is_gone_is_unknown_and_not_ok(locked: Path) -> None:
    done = lockllm(locked, "verify", "--server", f"http://127.0.0.1:{start.free_port()}")
    assert done.code == 3
