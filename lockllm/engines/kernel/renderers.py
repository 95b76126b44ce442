"""Prompts that an engine writes in code of its own, chosen by the model's architecture and not by a template.

Sources: vLLM `config/model.py` (`auto` of the tokenizer mode, by architecture), `tokenizers/registry.py` and
`entrypoints/openai/chat_completion`; SGLang `entrypoints/openai/chat_encoding.py` (0.5.23); TensorRT-LLM
`serve/openai_server.py` (Harmony) and `--custom_tokenizer`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import msgspec

from lockllm.engines.kernel.releases import at_least

HARMONY = "Harmony"
SPARSE_MLA = re.compile(r"DeepseekV(?:32|4)|GlmMoeDsa")
"""Architectures whose KV cache has a layout of its own: a custom one of 8 bits, or plain rows, as the backend says."""
_MODES = {
    "deepseek_v32": "DeepSeek V3.2", "deepseek_v4": "DeepSeek V4",
    "deepseek_v41": "DeepSeek V4.1", "kimi_k3": "Kimi K3", "kimi_audio": "Kimi Audio", "inkling": "Inkling",
    "cohere": "Cohere", "alpamayo2_super": "Alpamayo 2 Super",
}  # fmt: skip
_VLLM_ARCHITECTURES = (
    (re.compile(r"DeepseekV32"), "deepseek_v32", "0.13.0", "0.20.0"),
    (re.compile(r"DeepseekV4"), "deepseek_v4", "", "0.25.1"),
    (re.compile(r"KimiK3"), "kimi_k3", "", ""),
    (re.compile(r"Inkling"), "inkling", "", ""),
    (re.compile(r"MoonshotKimia"), "kimi_audio", "", ""),
)
"""Architecture, the tokenizer mode that `auto` becomes, the first release that has the mode (earlier ones render with
Jinja), and the first one that is known to take it unasked. Empty: every release that loads the architecture."""
_SGLANG_PARSERS = {"deepseekv4": "DeepSeek V4", "deepseekv32": "DeepSeek V3.2", "kimi_k3": "Kimi K3"}
_SGLANG_ARCHITECTURES = (("DeepseekV4", "DeepSeek V4"), ("KimiK3", "Kimi K3"), ("Inkling", "Inkling"))
_SGLANG_OLDEST = "0.5.8"
_FALLBACKS = frozenset({
    "blip-2", "clip", "colpali", "deepseek_ocr", "deepseek_ocr2", "unlimited-ocr", "deepseek_vl_v2", "minicpm_ocr",
    "minicpmv", "minicpmv4_6", "minicpmv4_7", "paligemma", "siglip", "siglip2",
})  # fmt: skip
"""Model types for which vLLM has a template of its own where the checkpoint has none: `renderers/hf.py`."""


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """What the choice of a renderer depends on, besides the engine and its release."""

    architecture: str = ""
    model_type: str = ""
    mode: str | None = None  # the tokenizer mode: as given, or as the engine's rule says
    has_template: bool = False  # whether the tokenizer's files hold a template
    named: bool = False  # a flag names a template of the engine's own
    options: Mapping[str, str] = {}  # tool_call_parser, custom_tokenizer, and variables


class Renderer(msgspec.Struct, frozen=True, kw_only=True):
    """Who writes the prompt: a name, or why that cannot be told. Both empty: a template of the checkpoint or a flag."""

    name: str = ""
    unknown: str = ""


NONE = Renderer()


def shown(name: str, engine: str, version: str | None) -> str:
    """How a renderer stands in `chat_template.source`: its text is the engine's own code, so the release is part of it."""
    return f"built in: {name} of {engine}{f' {version}' if version else ''}"


def renderer(engine: str | None, version: str | None, model: Model) -> Renderer:
    """Who writes the prompts of that model on that engine."""
    rule = _RULES.get(engine or "")
    return rule(version, model) if rule is not None else NONE


def reads_clock(name: str, variables: Mapping[str, str]) -> bool:
    """Whether prompts change with the day: Harmony's system message holds the date, unless vLLM is given one."""
    return name == HARMONY and not variables.get("VLLM_SYSTEM_START_DATE")


def fallback(engine: str | None, model_type: str) -> str:
    """The template that the engine has of its own for a model type whose checkpoint brings none."""
    return f"template for {model_type}" if engine == "vllm" and model_type in _FALLBACKS else ""


def edited(engine: str | None, model: Model) -> str:
    """Why the engine's text is not what its template gives, where it changes the text afterwards; empty where it does not."""
    if engine == "lmdeploy" and _is_gpt_oss(model):
        return "LMDeploy removes words from the text that the template of gpt-oss gives"
    return ""


def vllm_mode(version: str | None, architecture: str) -> str | None:
    """The tokenizer mode that vLLM takes unasked for an architecture; empty: none; None: it cannot be told."""
    for pattern, mode, since, sure in _VLLM_ARCHITECTURES:
        if not pattern.match(architecture):
            continue
        if since and version is not None and not at_least(version, since):
            return ""
        return mode if not sure or version is None or at_least(version, sure) else None
    return ""


def architecture_of(config: Mapping[str, object]) -> tuple[str, str]:
    """The first architecture and the model type that a `config.json` names; empty for what it leaves out."""
    listed, kind = config.get("architectures"), config.get("model_type")
    first = listed[0] if isinstance(listed, Sequence) and listed and not isinstance(listed, str) else ""
    return (first if isinstance(first, str) else ""), (kind if isinstance(kind, str) else "")


def _is_gpt_oss(model: Model) -> bool:
    return model.model_type == "gpt_oss" or model.architecture.startswith("GptOss")


def _vllm(version: str | None, model: Model) -> Renderer:
    """gpt-oss goes through Harmony whatever is given; else the tokenizer mode decides, by architecture where it is `auto`."""
    if _is_gpt_oss(model):
        return Renderer(name=HARMONY)
    if model.mode not in {None, "auto"}:
        return Renderer(name=_MODES.get(str(model.mode), ""))
    mode = vllm_mode(version, model.architecture)
    if mode is None:
        return Renderer(
            unknown=f"whether vllm {version} renders {model.architecture} by itself was not read: give --tokenizer-mode"
        )
    return Renderer(name=_MODES.get(mode, ""))


def _sglang(version: str | None, model: Model) -> Renderer:
    """By the tool parser, else by architecture; DeepSeek V3 only where its tokenizer has no template.

    A conversation of SGLang's own that a flag or the path names comes first.
    """
    if model.named:
        return NONE
    if (parser := model.options.get("tool_call_parser", "")) in _SGLANG_PARSERS:
        return Renderer(name=_SGLANG_PARSERS[parser])
    for word, name in _SGLANG_ARCHITECTURES:
        if word in model.architecture:
            return Renderer(name=name)
    if "DeepseekV3" not in model.architecture or model.has_template:
        return NONE
    if version is not None and not at_least(version, _SGLANG_OLDEST):
        return Renderer(unknown=f"whether sglang {version} renders {model.architecture} by itself was not read")
    return Renderer(name="DeepSeek V3.2")


def _tensorrt_llm(version: str | None, model: Model) -> Renderer:
    """Harmony for gpt-oss unless DISABLE_HARMONY_ADAPTER is 1; a custom tokenizer renders in Python."""
    if _is_gpt_oss(model) and model.options.get("DISABLE_HARMONY_ADAPTER") != "1":
        return Renderer(name=HARMONY)
    custom = model.options.get("custom_tokenizer", "")
    return Renderer(name=_MODES.get(custom, f"custom tokenizer {custom}" if custom else ""))


_RULES: Mapping[str, Callable[[str | None, Model], Renderer]] = {
    "vllm": _vllm, "sglang": _sglang, "tensorrt-llm": _tensorrt_llm,
}  # fmt: skip
