"""How many GPUs one node of a server needs."""

from __future__ import annotations

from typing import Any

import pytest

from lockllm import engines
from lockllm.engines import Given
from lockllm.observe.gpu import gpu_count

COMMANDS = {
    "vllm": ("vllm", "serve", "m"),
    "sglang": ("python3", "-m", "sglang.launch_server", "--model-path", "m"),
}


def used(engine: str, *words: str) -> Any:
    module = engines.load(engine)
    form = module.recognise([*COMMANDS[engine], *words])
    assert form is not None
    given: Given = module.given(form, {}, {}, module.newest, False)
    held = {reading.fact.path: reading.value for reading in given.readings}
    return gpu_count.used({("engine", "name"): engine, **held}, given)


@pytest.mark.parametrize(
    ("engine", "words", "count", "spread"),
    [
        ("vllm", ("-tp", "16", "--nnodes", "2", "--node-rank", "0"), 8, False),
        ("vllm", ("-tp", "8", "-pp", "4", "--nnodes", "4", "--node-rank", "3", "--headless"), 8, False),
        ("vllm", ("-tp", "8"), 8, False),
        ("vllm", ("-tp", "8", "-pp", "2", "--distributed-executor-backend", "ray"), 16, True),
        ("vllm", ("-tp", "8", "-dp", "4", "--data-parallel-backend", "ray"), 32, True),
        ("vllm", ("-tp", "8", "--distributed-executor-backend", "mp"), 8, False),
        ("sglang", ("--tp", "16", "--nnodes", "2", "--node-rank", "1"), 8, False),
    ],
)
def test_a_node_needs_its_share_of_the_gpus(engine: str, words: tuple[str, ...], count: int, spread: bool) -> None:
    found = used(engine, *words)
    assert (found.count, found.spread) == (count, spread)
