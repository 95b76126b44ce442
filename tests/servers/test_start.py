"""The servers of the tests are what they say they are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.servers import start


def words(pid: int, file: str) -> list[str]:
    return Path(f"/proc/{pid}/{file}").read_bytes().decode().split("\0")[:-1]


def test_the_stand_in_shows_the_command_line_and_environment_of_a_genuine_llama_server(
    llama_home: Path, tiny_gguf: Path
) -> None:
    with start.llama_server(llama_home, "-m", str(tiny_gguf), env={"LLAMA_ARG_TOP_K": "5"}) as server:
        assert words(server.pid, "cmdline") == ["llama-server", "-m", str(tiny_gguf), "--port", str(server.port)]
        path = f"PATH={llama_home / 'bin'}:/usr/bin:/bin"
        assert words(server.pid, "environ") == [path, f"HOME={llama_home}", "LLAMA_ARG_TOP_K=5"]
        assert os.readlink(f"/proc/{server.pid}/exe") == str(llama_home / "bin" / "llama-server")
        assert Path(f"/proc/{server.pid}/comm").read_text() == "llama-server\n"
        assert str(tiny_gguf) in Path(f"/proc/{server.pid}/maps").read_text()


def test_options_variables_and_config_files_reach_llama_cpp_in_its_own_order(
    llama_home: Path, tiny_gguf: Path, tmp_path: Path
) -> None:
    (tmp_path / "llama.cpp").mkdir()
    (tmp_path / "llama.cpp" / "config.ini").write_text("[*]\ntemp = 0.1\ntop-k = 3\ntop-p = 0.5\n")
    env = {"XDG_CONFIG_HOME": str(tmp_path), "LLAMA_ARG_TOP_K": "5", "LLAMA_ARG_TOP_P": "0.75"}
    with start.llama_server(llama_home, "-m", str(tiny_gguf), "-c", "512", "--top-p", "0.25", env=env) as server:
        settings = server.get("/props")["default_generation_settings"]
    assert settings["n_ctx"] == 512
    params = settings["params"]
    found = [round(params[key], 6) for key in ("temperature", "top_k", "top_p", "repeat_penalty")]
    assert found == [0.1, 5, 0.25, 1.05]


def test_four_slots_share_the_whole_context_unless_their_number_is_given(llama_home: Path, tiny_gguf: Path) -> None:
    with start.llama_server(llama_home, "-m", str(tiny_gguf), "-c", "1024") as server:
        props = server.get("/props")
    assert (props["total_slots"], props["default_generation_settings"]["n_ctx"]) == (4, 1024)
    with start.llama_server(llama_home, "-m", str(tiny_gguf), "-c", "1024", "-np", "2") as server:
        props = server.get("/props")
    assert (props["total_slots"], props["default_generation_settings"]["n_ctx"]) == (2, 512)


def test_an_option_that_the_stand_in_does_not_know_is_refused(llama_home: Path, tiny_gguf: Path) -> None:
    with (
        pytest.raises(RuntimeError, match="invalid argument: --nonsense"),
        start.llama_server(llama_home, "-m", str(tiny_gguf), "--nonsense"),
    ):
        pass


@pytest.mark.transformers
def test_transformers_serves_the_tiny_checkpoint(transformers_venv: Path, tiny: Path) -> None:
    with start.transformers_serve(tiny) as server:
        assert [model["id"] for model in server.get("/v1/models")["data"]] == [str(tiny)]
        body = {"model": str(tiny), "messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}
        assert server.get("/v1/chat/completions", body)["usage"]["prompt_tokens"] == 29


@pytest.mark.vllm
def test_vllm_serves_the_tiny_checkpoint(vllm_venv: Path, tiny: Path) -> None:
    with start.vllm_serve(tiny, "--max-num-seqs", "8") as server:
        assert server.get("/v1/models")["data"][0]["max_model_len"] == 2048
        assert server.get("/version")["version"].startswith("0.32.0")
