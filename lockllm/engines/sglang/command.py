"""The command line that puts facts in force on SGLang, and where each fact is set and seen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lockllm.engines import Command, Context
from lockllm.engines.kernel.argparse import Option
from lockllm.engines.kernel.command import nest, words
from lockllm.engines.kernel.releases import at_least
from lockllm.engines.sglang import http, log, options
from lockllm.facts.fact import Fact, Path
from lockllm.facts.keys import dotted, parse
from lockllm.facts.observation import ABSENT, Raw

_FLAG_OF = {parse(key): name for name, key in options.FACTS.items()}
_SWITCHES = {
    ("serve", "enable_prefix_caching"): ("disable_radix_cache", False),
    ("serve", "enforce_eager"): ("disable_cuda_graph", True),
    ("serve", "batch_invariant"): ("enable_deterministic_inference", True),
    ("serve", "trust_remote_code"): ("trust_remote_code", True),
}
"""Fact -> the switch that sets it, and the value for which the switch is given."""
_SILENT = frozenset(
    {("serve", "enable_chunked_prefill"), ("serve", "gpu_memory_share"), ("serve", "structured_output")}
)
_GENERATION = {"auto": "model", "openai": "openai"}


def command(facts: Mapping[Path, Any], context: Context) -> Command:
    """The command line of a set of facts."""
    table = options.of(context.version or options.NEWEST)
    by_name = {option.name: option for option in table.options}
    argv = [*_program(context.version)]
    env: dict[str, str] = {}
    notes: list[str] = []
    args: dict[str, Any] = {}
    for path, value in facts.items():
        if (
            value is ABSENT
            or isinstance(value, Raw)
            or path[0] not in ("checkpoint", "tokenizer", "draft", "serve", "env", "sampling", "adapters")
        ):
            continue
        if path[0] == "env":
            env[path[1]] = str(value)
        elif path[:2] == ("serve", "args"):
            nest(args, path[2:], value)
        elif path[0] == "sampling":
            continue
        else:
            _fact(args, path, value, facts, notes)
    for name, value in args.items():
        argv += _words(name, value, by_name.get(name), notes)
    notes += _sampling_notes(facts)
    return Command(argv=tuple(argv), env=env, notes=tuple(notes))


def _program(version: str | None) -> tuple[str, ...]:
    return ("sglang", "serve") if version and at_least(version, "0.5.10") else ("python3", "-m", "sglang.launch_server")


def _fact(args: dict[str, Any], path: Path, value: Any, facts: Mapping[Path, Any], notes: list[str]) -> None:
    if path in _SWITCHES:
        name, when = _SWITCHES[path]
        if value is when:
            args[name] = True
    elif path in _FLAG_OF:
        args[_FLAG_OF[path]] = value
    elif path == ("serve", "generation_config"):
        args["sampling_defaults"] = _GENERATION.get(str(value), value)
    elif path == ("serve", "chunked_prefill_size"):
        args["chunked_prefill_size"] = value
    elif path == ("serve", "enable_chunked_prefill"):
        if value is False:
            args.setdefault("chunked_prefill_size", -1)
    elif path == ("serve", "gpu_memory_share"):
        args.setdefault("mem_fraction_static", value)
    elif path == ("serve", "structured_output"):
        args.setdefault("grammar_backend", value)
    elif path == ("serve", "chat_template"):
        args["chat_template"] = value
    elif path[:2] == ("serve", "chat_template_kwargs"):
        nest(args.setdefault("default_chat_template_kwargs", {}), path[2:], value)
    elif path == ("serve", "rope_scaling"):
        args.setdefault("json_model_override_args", {})["rope_scaling"] = value
    elif path in (("checkpoint", "repo"), ("checkpoint", "path")):
        args.setdefault("model_path", value)
    elif path in (("checkpoint", "commit"), ("checkpoint", "revision")):
        if ("checkpoint", "repo") in facts and (path[1] == "commit" or ("checkpoint", "commit") not in facts):
            args["revision"] = value
    elif path == ("tokenizer", "repo"):
        if value != facts.get(("checkpoint", "repo")):
            args["tokenizer_path"] = value
    elif path == ("tokenizer", "path"):
        args["tokenizer_path"] = value
    elif path in (("draft", "repo"), ("draft", "path")):
        args["speculative_draft_model_path"] = value
    elif path == ("draft", "commit"):
        args["speculative_draft_model_revision"] = value
    elif len(path) == 3 and path[0] == "adapters" and path[2] in ("repo", "path"):
        args.setdefault("lora_paths", []).append(f"{path[1]}={value}")
    elif path[0] == "serve":
        notes.append(f"{dotted(path)}: no option of SGLang sets it")


def _words(name: str, value: Any, option: Option | None, notes: list[str]) -> list[str]:
    if option is None:
        notes.append(f"serve.args.{name}: this release has no option --{name.replace('_', '-')}")
    return words(name, value, option)


def _sampling_notes(facts: Mapping[Path, Any]) -> list[str]:
    """Sampling defaults that no option sets: they come from generation_config.json or are built in."""
    named = sorted(dotted(path) for path in facts if path[0] == "sampling" and facts[path] is not ABSENT)
    if not named:
        return []
    return [f"{', '.join(named)}: SGLang takes them from generation_config.json, or has them built in"]


def where(fact: Fact[Any]) -> Mapping[str, str]:
    """For `explain`: how the fact is set, defaulted and seen on SGLang."""
    found: dict[str, str] = {}
    key = fact.key
    if fact.path in _SWITCHES:
        found["set_by"] = "--" + _SWITCHES[fact.path][0].replace("_", "-")
    elif fact.path in _FLAG_OF:
        found["set_by"] = "--" + _FLAG_OF[fact.path].replace("_", "-")
    elif key in _SET_BY:
        found["set_by"] = _SET_BY[key]
    seen_at = [f"GET /server_info: {name}" for name, told in {**http.PLAIN, **http.MAYBE}.items() if told == key]
    if key in _SEEN_AT:
        seen_at.append(_SEEN_AT[key])
    if key in {told for told, _ in log.FIRST} | {told for told, _, _ in log.SAID} | set(log.DUMPED.values()):
        seen_at.append("start log")
    if seen_at:
        found["seen_at"] = "; ".join(seen_at)
    if key in _DEFAULTS:
        found["default"] = _DEFAULTS[key]
    if key in _UNKNOWN:
        found["unknown"] = _UNKNOWN[key]
    return found


_SET_BY = {
    "serve.generation_config": "--sampling-defaults (0.5.4 and newer)",
    "serve.chunked_prefill_size": "--chunked-prefill-size",
    "serve.enable_chunked_prefill": "--chunked-prefill-size -1 switches it off",
    "serve.gpu_memory_share": "--mem-fraction-static",
    "serve.structured_output": "--grammar-backend",
    "serve.chat_template": "--chat-template NAME or FILE",
    "serve.rope_scaling": "--json-model-override-args",
    "checkpoint.repo": "--model-path",
    "checkpoint.revision": "--revision",
    "tokenizer.repo": "--tokenizer-path",
    "sampling.temperature": "generation_config.json (0.5.4 and newer)",
    "sampling.top_p": "generation_config.json (0.5.4 and newer)",
    "sampling.top_k": "generation_config.json (0.5.4 and newer)",
    "sampling.min_p": "generation_config.json (0.5.4 and newer)",
    "sampling.repetition_penalty": "generation_config.json (0.5.4 and newer)",
}
_SEEN_AT = {
    "engine.version": "GET /server_info: version",
    "serve.enable_prefix_caching": "GET /server_info: disable_radix_cache; start log: server_args",
    "serve.max_model_len": "GET /v1/models: max_model_len",
    "serve.max_num_seqs": "GET /server_info: max_running_requests, internal_states",
    "serve.enforce_eager": "GET /server_info: cuda_graph_config, disable_cuda_graph",
    "serve.generation_config": "GET /server_info: sampling_defaults",
    "serve.chat_template": "GET /server_info: chat_template (a name; of a file only that there is one)",
    "checkpoint.architecture": "GET /model_info: architectures",
    "host.gpu": "GET /v1/loads: accelerator",
}
_DEFAULTS = {
    "serve.dtype": "the checkpoint's; float32 becomes float16 (bfloat16 for Gemma), all float16 below capability 8.0",
    "serve.quantization": "the checkpoint's method; gptq and awq become their Marlin kernels where they can",
    "serve.kv_cache_dtype": "fp8_e4m3 where the checkpoint asks for an FP8 cache, else the model's dtype",
    "serve.tensor_parallel_size": "1",
    "serve.pipeline_parallel_size": "1",
    "serve.data_parallel_size": "1",
    "serve.expert_parallel_size": "1",
    "serve.max_model_len": "the checkpoint's own context",
    "serve.max_num_seqs": "follows free memory at start",
    "serve.chunked_prefill_size": "8192 up to 0.3.6; by GPU memory since: 2048 to 16384, shared by the ranks of DP attention",
    "serve.enable_prefix_caching": "true; off on decode servers, and in deterministic mode with some attention backends",
    "serve.enable_chunked_prefill": "true",
    "serve.enforce_eager": "false; true with torch_native",
    "serve.attention_backend": "by model, GPU and release: fa3 on Hopper since 0.4.6, trtllm_mha on Blackwell since 0.5.7, else flashinfer",
    "serve.batch_invariant": "false (the mode exists since 0.5.3)",
    "serve.seed": "drawn at every start",
    "serve.generation_config": "auto (`model`) since 0.5.4; before, generation_config.json sets no sampling default",
    "serve.trust_remote_code": "false",
    "sampling.temperature": "1.0",
    "sampling.top_p": "1.0",
    "sampling.top_k": "off; 50 on 0.5.4 to 0.5.9 where generation_config.json leaves it out (transformers 4)",
    "sampling.min_p": "0.0",
    "sampling.repetition_penalty": "1.0",
    "sampling.max_tokens": "up to the context; completions 16, /generate 128",
}
_UNKNOWN = {
    "serve.seed": "without --random-seed the running server alone can tell",
    "serve.max_num_seqs": "without --max-running-requests the running server alone can tell",
    "kernels.quant_kernel": "no endpoint and hardly any log line shows it",
    "chat_template.sha256": "no endpoint shows the text: read from the checkpoint",
}
