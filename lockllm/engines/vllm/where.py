"""For `explain`: where a fact is set on vLLM, what it is where nobody says, and where it is seen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lockllm.engines.vllm import options, variables
from lockllm.engines.vllm.command import GATHERED, RENAMED
from lockllm.engines.vllm.dump import DUMPED
from lockllm.engines.vllm.server_info import LEAVES
from lockllm.facts.fact import Fact

_SET_BY = {
    "serve.batch_invariant": "VLLM_BATCH_INVARIANT=1 (0.11.1 and later)",
    "serve.attention_backend": "--attention-backend (0.13.0 and later), VLLM_ATTENTION_BACKEND (up to 0.14.1)",
    "checkpoint.repo": "MODEL, --model",
    "checkpoint.revision": "--revision",
    "checkpoint.commit": "--revision",
    "tokenizer.repo": "--tokenizer",
    "tokenizer.commit": "--tokenizer-revision",
    "draft.repo": "--speculative-config '{\"model\": …}' (0.8.2 and later), --speculative-model (before)",
    "chat_template.sha256": "--chat-template; else the checkpoint",
    "chat_template.source": "the architecture, for models that vLLM renders itself; --chat-template; else the checkpoint",
    "serve.chat_template": "--chat-template",
    "serve.rope_scaling": "--rope-scaling (up to 0.11.0), --hf-overrides '{\"rope_parameters\": …}'",
    "serve.speculative.method": "--speculative-config (0.8.2 and later), --spec-method (0.22.1 and later)",
}
_DEFAULT = {
    "serve.dtype": "auto: the checkpoint's; float32 becomes bfloat16 on SM80 and later (float16 up to 0.9.0), else float16",
    "serve.quantization": "the checkpoint's method; gptq is auto_gptq since 0.22, awq is auto_awq since 0.24, marlin before",
    "serve.kv_cache_dtype": "auto: what a ModelOpt checkpoint asks for, else serve.dtype",
    "serve.tensor_parallel_size": "1",
    "serve.pipeline_parallel_size": "1",
    "serve.data_parallel_size": "1",
    "serve.max_model_len": "the checkpoint's context, scaled by RoPE (yarn: not since 0.30)",
    "serve.max_num_seqs": "1024 from 70 GiB of GPU memory on (no A100 since 0.9.0), else 256; 1024 up to 0.8.3; CPU 128 a worker; V0 256",
    "serve.max_num_batched_tokens": "16384 from 160 GiB on (0.28), 8192 from 70 GiB on (no A100 since 0.9.0), else 2048",
    "serve.enable_prefix_caching": "on since 0.8.0 (V1) for models that generate, hybrid ones since 0.26.0; off before",
    "serve.enable_chunked_prefill": "on since 0.8.0 (V1) for models that generate",
    "serve.enforce_eager": "false",
    "serve.attention_backend": "chosen at start by GPU, model and installed kernels",
    "serve.batch_invariant": "false",
    "serve.seed": "0; none at 0.8, and with the V0 engine up to 0.11.0",
    "serve.generation_config": "auto since 0.8.0; none of the checkpoint's before",
    "serve.load_format": "auto",
    "serve.trust_remote_code": "false",
    "serve.gpu_memory_share": "0.92 since 0.20.0, 0.9 before",
    "tokenizer.mode": "auto: mistral for repositories of Mistral's format, else hf",
    "chat_template.content_format": "auto: told from the template",
}
_SEEN = {
    "engine.version": "GET /version; the start log",
    "checkpoint.repo": "GET /v1/models: root",
    "serve.max_model_len": "GET /v1/models; POST /tokenize",
    "serve.enable_prefix_caching": "GET /metrics: vllm:cache_config_info",
    "serve.kv_cache_dtype": "GET /metrics: vllm:cache_config_info, where it is not auto",
    "serve.gpu_memory_share": "GET /metrics: vllm:cache_config_info",
    "chat_template.sha256": "GET /tokenizer_info with --enable-tokenizer-info-endpoint",
    **{
        f"serve.{each}_parallel_size": "POST /v1/chat/completions with --probe-generate: system_fingerprint, 0.21.0 and later"
        for each in ("tensor", "pipeline", "data")
    },
    "serve.attention_backend": "the start log",
    "serve.batch_invariant": "GET /server_info with VLLM_SERVER_DEV_MODE=1",
}
_ECHOES = frozenset(f"sampling.{each}" for each in ("temperature", "top_p", "presence_penalty", "frequency_penalty"))
_ECHOED = "POST /v1/chat/completions/render with --enable-scale-out"


def where(fact: Fact[Any]) -> Mapping[str, str]:
    """`set_by`, `default`, `seen_at` and `unknown` for that fact, those that apply."""
    found = {
        "set_by": _set_by(fact),
        "default": _default(fact),
        "seen_at": _seen_at(fact),
        "unknown": _unknown(fact),
    }
    return {word: text for word, text in found.items() if text}


def _set_by(fact: Fact[Any]) -> str:
    key, path = fact.key, fact.path
    if key in _SET_BY:
        return _SET_BY[key]
    if key in ("sampling.stop", "sampling.stop_token_ids", "sampling.seed"):
        return ""
    if path[0] == "sampling" and len(path) == 2:
        return "--override-generation-config (0.7.1 and later), else generation_config.json (0.8.0 and later)"
    if path[0] == "env" and len(path) == 2:
        span = variables.history().get(path[1])
        return f"the variable; read {_span(*span)}" if span else "the variable"
    name = _option(path)
    span = options.history().get(name) if name else None
    return f"--{name.replace('_', '-')} ({_span(*span)})" if name and span else ""


def _option(path: tuple[str, ...]) -> str | None:
    if path in RENAMED:
        return RENAMED[path]
    if path[:2] in GATHERED:
        return GATHERED[path[:2]]
    if path[:2] == ("serve", "args") and len(path) > 2:
        return path[2]
    return path[1] if path[0] == "serve" and len(path) == 2 and path[1] in options.SAME_TAIL else None


def _span(first: str, last: str) -> str:
    if first == options.OLDEST:
        return f"up to {last}" if last else "every release read"
    return f"{first} to {last}" if last else f"{first} and later"


def _default(fact: Fact[Any]) -> str:
    if fact.key in ("sampling.stop", "sampling.stop_token_ids", "sampling.seed"):
        return ""
    if fact.path[0] == "sampling" and len(fact.path) == 2:
        return "the checkpoint's generation_config.json since 0.8.0; transformers 4 leaves out its own defaults"
    return _DEFAULT.get(fact.key, "")


def _seen_at(fact: Fact[Any]) -> str:
    from lockllm.engines.vllm.log_patterns import FIRST, LAST, SAID

    key = fact.key
    told = [_SEEN[key]] if key in _SEEN else []
    if key in _ECHOES:
        told += [_ECHOED, "POST /v1/responses with --probe-generate"]
    if any(key == each for each, _, _ in LEAVES) or key in ("serve.quantization", "serve.generation_config"):
        told.append("GET /server_info with VLLM_SERVER_DEV_MODE=1")
    if key in DUMPED.values() or any(key == row[0] for row in (*FIRST, *LAST, *SAID)):
        told.append("the start log")
    name = _option(fact.path)
    if key in _SET_BY or (name is not None and (name in options.history() or fact.path[:2] in GATHERED)):
        told.append("the command line of the server's process")
    if fact.path[0] == "env":
        told.append("the environment of the server's process")
    return "; ".join(dict.fromkeys(part for text in told for part in text.split("; ")))


def _unknown(fact: Fact[Any]) -> str:
    if fact.path[0] == "kernels":
        return "only the start log shows it"
    if fact.key == "serve.attention_backend":
        return "no endpoint shows what auto chose"
    return ""
