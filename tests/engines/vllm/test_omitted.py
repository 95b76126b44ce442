"""What a setting of vLLM is where nobody types it."""

from __future__ import annotations

from typing import Any

import pytest

from lockllm.engines.vllm.omitted import omitted


def left_out(name: str, version: str, platform: str = "cpu", architecture: str = "Qwen3ForCausalLM") -> tuple[Any, ...]:
    known = {
        ("engine", "version"): version, ("host", "platform"): platform, ("checkpoint", "architecture"): architecture,
    }  # fmt: skip
    return omitted(("serve", "args", name), known)


@pytest.mark.parametrize("version", ["0.31.0", "0.32.0", "0.32.0+cpu", "0.33.0", "0.33.0.post1"])
@pytest.mark.parametrize(
    ("name", "value"), [("block_size", 128), ("distributed_executor_backend", "mp"), ("async_scheduling", False)]
)
def test_the_cpu_has_values_of_its_own(version: str, name: str, value: Any) -> None:
    assert left_out(name, version) == (None, value)
    assert left_out(name, version, platform="cuda") == (None,)


@pytest.mark.parametrize("version", ["0.30.0", "0.34.0"])
def test_the_values_of_the_cpu_are_told_of_releases_that_were_read(version: str) -> None:
    assert 128 not in left_out("block_size", version)


@pytest.mark.parametrize(
    "architecture",
    ["DeepseekV3ForCausalLM", "DeepseekV4ForCausalLM", "KimiLinearForCausalLM", "Qwen3NextForCausalLM", "BambaForCausalLM",
     "FalconH1ForCausalLM", "NemotronHForCausalLM", "Glm4MoeForCausalLM", "Unheard"],
)  # fmt: skip
def test_the_block_size_of_other_attention_is_not_told(architecture: str) -> None:
    assert left_out("block_size", "0.33.0", architecture=architecture) == (None,)


def test_a_switch_that_the_parser_leaves_none_is_off() -> None:
    assert left_out("enable_lora", "0.33.0") == (None, False)
    assert left_out("enable_lora", "0.23.0") == (False,)
