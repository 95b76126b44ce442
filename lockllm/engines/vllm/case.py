"""One server as the rules see it: its release, what was given, its checkpoint and its host."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from lockllm.engines import Context, Given
from lockllm.engines.kernel import gpu
from lockllm.engines.kernel.releases import at_least
from lockllm.facts.fact import Path
from lockllm.facts.keys import parse
from lockllm.facts.observation import ABSENT, Raw

_ENCODER_DECODER = re.compile(r"Whisper|M?Bart|T5|Florence2|Donut|NemotronParse|MllamaFor")
_ATTENTION_FREE = re.compile(r"(?:Falcon)?Mamba2?ForCausalLM|RW?KV")
_HYBRID = re.compile(
    r"Jamba|Bamba|FalconH1|GraniteMoeHybrid|NemotronH|Zamba|Plamo2|Qwen3Next|Qwen3_5|MiniMaxText01|MiniMaxM1|"
    r"KimiLinear|KimiK3|Lfm2|Phi4Flash|OlmoHybrid|BailingMoe.*Linear|Inkling"
)
_POOLING = re.compile(
    r"(?:Model|ForMaskedLM|ForSequenceClassification|ForTokenClassification|Reward\w*|Embedding\w*)\Z"
)
_GENERATING = re.compile(r"(?:ForCausalLM|ForConditionalGeneration|LMHeadModel|ForVision2Seq|ForImageTextToText)\Z")
_SEEN = frozenset({"architecture", "files", "dtype", "format", "max_position_embeddings"})
_POOLING_TASKS = frozenset({"embed", "embedding", "classify", "reward", "score", "pooling"})


class Unknown(msgspec.Struct, frozen=True):
    """A rule's word that a value cannot be told: why, and what would."""

    reason: str
    fix: str = ""


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """What the rules look at. `given` holds the values of the command, `told` those that rules found before."""

    version: str
    given: Mapping[Path, Any]
    auto: frozenset[Path]
    checkpoint: Mapping[Path, Any]
    host: Mapping[Path, Any]
    packages: Mapping[str, str]
    env: Mapping[str, str]
    env_whole: bool
    told: dict[Path, Any]

    def since(self, release: str) -> bool:
        """Whether the server is of that release or later."""
        return at_least(self.version, release)

    def said(self, key: str) -> Any:
        """The value of a fact as given, else as a rule told it; None where neither does."""
        path = parse(key)
        value = self.given.get(path, self.told.get(path))
        return None if value is ABSENT or isinstance(value, (Raw, Unknown)) else value

    def declared(self, key: str) -> Any:
        """What the checkpoint says; None where it says nothing or was not seen."""
        value = self.checkpoint.get(parse(key))
        return None if value is ABSENT or isinstance(value, Raw) else value

    @property
    def looked(self) -> bool:
        """Whether the checkpoint's files were seen at all."""
        return any(
            path[0] == "checkpoint"
            and path[1] in ("architecture", "files", "dtype", "format", "max_position_embeddings")
            for path in self.checkpoint
        )

    @property
    def platform(self) -> str | None:
        """cuda, rocm, cpu …"""
        return gpu.platform(self.host, self.version)

    @property
    def v1(self) -> bool | None:
        """Whether the V1 engine runs; None where a fallback to V0 cannot be told (0.8.0 to 0.11.0)."""
        asked = self.env.get("VLLM_USE_V1")
        if self.since("0.11.1"):
            return True
        if asked is None and not self.env_whole and self.since("0.6.4"):
            return None
        if not self.since("0.8.0"):
            return asked == "1" and self.since("0.6.4")
        if asked == "0":
            return False
        return self._v1_by_default()

    def _v1_by_default(self) -> bool | None:
        """`_is_v1_supported_oracle` of 0.8.0 to 0.11.0, as far as options and GPU tell."""
        if self.since("0.11.0"):
            return True
        generation = gpu.capability(self.host)
        if self.platform == "cuda" and generation is not None and generation < 8.0 and not self.since("0.10.0"):
            return False
        if self.platform == "cpu" and not self.since("0.9.2"):
            return None if self.since("0.9.0") else False
        kv = self.said("serve.kv_cache_dtype")
        asked = any(("serve", "args", name) in self.given for name in _ASK_V0)
        speculative = any(path[:2] == ("serve", "speculative") for path in self.given)
        guessing = asked or speculative or (kv is not None and str(kv).startswith("fp8"))
        if guessing or self.kind not in ("generate", None) or self.declared("checkpoint.format") == "gguf":
            return None
        return True

    @property
    def kind(self) -> str | None:
        """What the model does: generate, hybrid, attention_free, encoder_decoder, pooling; None: it cannot be told."""
        asked = self.said("serve.args.runner") or self.said("serve.args.task")
        if (
            asked == "pooling"
            or asked in _POOLING_TASKS
            or self.said("serve.args.convert") in ("embed", "classify", "reward")
        ):
            return "pooling"
        architecture = self.declared("checkpoint.architecture")
        if not isinstance(architecture, str):
            return None
        if _ENCODER_DECODER.match(architecture):
            return "encoder_decoder"
        if _ATTENTION_FREE.match(architecture):
            return "attention_free"
        if _HYBRID.match(architecture):
            return "hybrid"
        if ("checkpoint", "files", "modules.json") in self.checkpoint and asked != "generate":
            return "pooling"
        if _GENERATING.search(architecture):
            return "generate"
        return "pooling" if _POOLING.search(architecture) else None


_ASK_V0 = frozenset(
    "preemption_mode disable_async_output_proc num_scheduler_steps scheduler_delay_factor logits_processor_pattern "
    "enable_prompt_adapter guided_decoding_backend otlp_traces_endpoint scheduling_policy max_num_partial_prefills "
    "max_long_partial_prefills".split()
)
"""Options that V1 lacked between 0.8.0 and 0.10.2: with one of them V0 may run."""


def case(given: Given | None, context: Context) -> Case:
    """The case of a command in its context. The environment that the rules see is the server's."""
    held = {reading.fact.path: reading.value for reading in given.readings} if given else {}
    variables = {reading.fact.path[1]: str(reading.value) for reading in given.env} if given else {}
    return Case(
        version=context.version or "",
        given={path: value for path, value in held.items() if value is not ABSENT},
        auto=given.auto if given else frozenset(),
        checkpoint=context.checkpoint,
        host=context.host,
        packages=context.packages,
        env={**context.env, **variables},
        env_whole=context.env_whole,
        told={},
    )
