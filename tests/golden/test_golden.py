"""Locks and observations of every release are judged alike for ever. What is here is never written again.

`edition-1`: written by the release before locks had an edition. The hosts stand in `HOSTS`, as raw material.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from lockllm.documents import lock as locks
from lockllm.documents import observation as observations
from lockllm.judge.report import Status
from lockllm.judge.verify import verify
from tests.incidents.cases_engines import llama, sglang, transformers
from tests.incidents.cases_vllm import vllm
from tests.incidents.raw import Place, Side

HERE = Path(__file__).parent
VLLM_OLD = {"xgrammar": "0.1.21", "flashinfer-python": "0.2.14"}
HOSTS: Mapping[str, tuple[str, Side]] = {
    "vllm-0.10.2": (
        "vllm", vllm("0.10.2", "--seed 3 --max-model-len 512 --enable-sleep-mode", packages=VLLM_OLD, prompts=True),
    ),
    "vllm-0.33.0": ("vllm", vllm("0.33.0", "--dtype float16", env={"VLLM_BATCH_INVARIANT": "1"}, prompts=True)),
    "sglang-0.5.23": (
        "sglang", sglang("0.5.23", "--random-seed 3 --attention-backend triton", packages={"sgl-kernel": "0.3.9"}, prompts=True),
    ),
    "llama.cpp-b11549": ("llama.cpp", llama("-c 512 --temp 0.3 -np 2", build="b11549")),
    "transformers-5.24.0": ("transformers", transformers("5.24.0", "--default-seed 3", prompts=True)),
}  # fmt: skip
MOVED = {
    "vllm-0.10.2": [
        ({"argv": "vllm serve {model} --seed 4 --max-model-len 512 --enable-sleep-mode"}, "serve.seed"),
        ({"argv": "vllm serve {model} --seed 3 --max-model-len 512"}, "serve.args.enable_sleep_mode"),
        ({"packages": {"vllm": "0.10.1"}}, "engine.version"),
        ({"files": {"chat_template.jinja": "{{ messages }}"}}, "chat_template.sha256"),
    ],
    "vllm-0.33.0": [
        ({"argv": "vllm serve {model} --dtype bfloat16"}, "serve.dtype"),
        ({"argv": "vllm serve {model} --dtype float16 --runner pooling"}, "serve.args.runner"),
        ({"files": {"generation_config.json": "{}"}}, "sampling.temperature"),
    ],
    "sglang-0.5.23": [
        ({"argv": "python -m sglang.launch_server --model-path {model} --random-seed 3"}, "serve.attention_backend")
    ],
    "llama.cpp-b11549": [({"argv": "llama-server -m {home}/model.gguf -c 256 --temp 0.3 -np 2"}, "serve.ctx_size")],
    "transformers-5.24.0": [({"packages": {"torch": "2.9.2"}}, "packages.torch")],
}


def folder(name: str) -> Path:
    return HERE / "edition-1" / name


@pytest.mark.parametrize("name", HOSTS)
def test_a_lock_of_the_first_edition_is_read_and_written_to_the_byte(name: str) -> None:
    text = (folder(name) / "llm.lock").read_text()
    lock = locks.read(text)
    assert lock.edition == 1
    assert locks.write(lock) == text


@pytest.mark.parametrize("name", HOSTS)
def test_a_lock_matches_the_observation_of_its_own_release(name: str) -> None:
    lock = locks.read((folder(name) / "llm.lock").read_text())
    report = verify(lock, observations.read((folder(name) / "host.json").read_bytes()))
    assert [(each.fact.key, each.status) for each in report.results if each.blocking] == []
    assert report.exit_code == 0


@pytest.mark.parametrize("name", HOSTS)
def test_a_lock_matches_its_host_as_this_release_sees_it(name: str, place: Place) -> None:
    engine, side = HOSTS[name]
    lock = locks.read((folder(name) / "llm.lock").read_text())
    report = verify(lock, place.look(side, engine, lock))
    assert [(each.fact.key, each.status, each.reason) for each in report.results if each.blocking] == []
    assert report.exit_code == 0


@pytest.mark.parametrize(
    ("name", "number"), [(name, number) for name, rows in MOVED.items() for number in range(len(rows))]
)
def test_a_lock_tells_what_moved_on_its_host(name: str, number: int, place: Place) -> None:
    engine, side = HOSTS[name]
    changed, key = MOVED[name][number]
    lock = locks.read((folder(name) / "llm.lock").read_text())
    report = verify(lock, place.look(side.but(**changed), engine, lock))
    assert report.exit_code == 1
    assert key in {each.fact.key for each in report.results if each.status is Status.MISMATCH}
