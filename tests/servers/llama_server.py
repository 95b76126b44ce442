"""A stand-in for `llama-server`: llama.cpp's own HTTP server out of xllamacpp, under the real program's command line.

xllamacpp wraps llama.cpp's server but not its argument parser, and its process is a Python script's. So this program is
run by a copy of the interpreter that is called `llama-server`, takes the genuine command line from its standard input,
writes it over its own (/proc/PID/cmdline shows that memory), reads variables, config.ini and options as llama.cpp's
`common/arg.cpp` does for those that the tests need, and starts the server. `start.py` is its only caller.
"""

from __future__ import annotations

import configparser
import ctypes
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import xllamacpp

Apply = Callable[[Any, str], None]


class Option(NamedTuple):
    """One option of llama-server: its spellings, the variable that gives it, and what it does to the parameters."""

    flags: tuple[str, ...]
    variable: str | None
    apply: Apply
    off: tuple[str, ...] = ()  # spellings that say no; such an option takes no value


def main() -> None:
    """Becomes the server that standard input describes, and serves until it is told to end."""
    order = json.load(sys.stdin)
    overwrite_command_line(order["argv"])
    os.chdir(order["cwd"])
    params = xllamacpp.CommonParams()
    params.n_parallel, params.kv_unified = 4, True  # llama-server's `-np -1`
    for option, value in settings(order["argv"][1:], os.environ).items():
        OPTIONS[option].apply(params, value)
    server = xllamacpp.Server(params)
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    del server


def overwrite_command_line(argv: Sequence[str]) -> None:
    """Puts other words in the place of this process's own; they must be as long as these, to the byte."""
    with open("/proc/self/stat", "rb") as stat:
        fields = stat.read().rpartition(b")")[2].split()
    start, end = int(fields[45]), int(fields[46])
    words = b"".join(os.fsencode(word) + b"\0" for word in argv)
    if len(words) != end - start:
        raise SystemExit(f"the command line holds {end - start} bytes, not {len(words)}")
    ctypes.memmove(start, words, len(words))
    with open("/proc/self/cmdline", "rb") as shown:
        if shown.read() != words:
            raise SystemExit("/proc shows another command line than was written")


def settings(args: Sequence[str], environ: Mapping[str, str]) -> dict[int, str]:
    """The last word on each option: config.ini, then variables, then the command line. Keys are places in OPTIONS."""
    found: dict[int, str] = {}
    spelled = {flag: number for number, option in enumerate(OPTIONS) for flag in (*option.flags, *option.off)}
    for key, value in config_files(environ):
        found[spelled[f"--{key}"]] = value
    for number, option in enumerate(OPTIONS):
        if option.variable and option.variable in environ:
            found[number] = environ[option.variable]
        if option.off and option.variable and f"LLAMA_ARG_NO_{option.variable.removeprefix('LLAMA_ARG_')}" in environ:
            found[number] = "off"
    words = iter(args)
    for word in words:
        flag = word if word in spelled else word.replace("_", "-")
        if flag not in spelled:
            raise SystemExit(f"error: invalid argument: {word}")
        option = OPTIONS[spelled[flag]]
        found[spelled[flag]] = ("off" if flag in option.off else "on") if option.off else next(words)
    return found


def config_files(environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """What the user's config.ini says."""
    root = environ.get("XDG_CONFIG_HOME") or os.path.join(environ.get("HOME", "/"), ".config")
    reader = configparser.ConfigParser(interpolation=None, default_section="")
    reader.read(os.path.join(root, "llama.cpp", "config.ini"))
    return [pair for section in ("*", "default") if reader.has_section(section) for pair in reader.items(section)]


def _value(path: str, kind: Callable[[str], Any], told: str = "") -> Apply:
    """Sets `path`; `told` marks a sampling value as the user's, which the GGUF's own then does not replace."""

    def apply(params: Any, text: str) -> None:
        *outer, name = path.split(".")
        for part in outer:
            params = getattr(params, part)
        setattr(params, name, kind(text))
        if told:
            bit = getattr(xllamacpp.common_params_sampling_config, f"COMMON_PARAMS_SAMPLING_CONFIG_{told}")
            params.user_sampling_config = params.user_sampling_config | int(bit)

    return apply


def _slots(params: Any, text: str) -> None:
    if int(text) > 0:
        params.n_parallel, params.kv_unified = int(text), False


def _template_file(params: Any, text: str) -> None:
    with open(text, encoding="utf-8") as template:
        params.chat_template = template.read()


def _lora(params: Any, text: str) -> None:
    adapter = xllamacpp.CommonAdapterLoraInfo()
    adapter.path, adapter.scale = text, 1.0
    params.lora_adapters = [*params.lora_adapters, adapter]


def _truth(text: str) -> bool:
    return text in ("on", "enabled", "true", "1")


def _cache_type(text: str) -> Any:
    return getattr(xllamacpp.ggml_type, f"GGML_TYPE_{text.upper()}")


def _flash(text: str) -> Any:
    name = {"on": "ENABLED", "off": "DISABLED", "auto": "AUTO"}[text]
    return getattr(xllamacpp.llama_flash_attn_type, f"LLAMA_FLASH_ATTN_TYPE_{name}")


def _switch(path: str, name: str, variable: str | None = None, short: tuple[str, ...] = ()) -> Option:
    return Option((*short, f"--{name}"), variable, _value(path, _truth), (f"--no-{name}",))


OPTIONS = (
    Option(("-m", "--model"), "LLAMA_ARG_MODEL", _value("model.path", str)),
    Option(("-a", "--alias"), "LLAMA_ARG_ALIAS", _value("model_alias", lambda text: set(text.split(",")))),
    Option(("--host",), "LLAMA_ARG_HOST", _value("hostnames", lambda text: [text])),
    Option(("--port",), "LLAMA_ARG_PORT", _value("port", int)),
    Option(("--api-key",), "LLAMA_API_KEY", _value("api_keys", lambda text: text.split(","))),
    Option(("-np", "--parallel"), "LLAMA_ARG_N_PARALLEL", _slots),
    Option(("-c", "--ctx-size"), "LLAMA_ARG_CTX_SIZE", _value("n_ctx", int)),
    Option(("-b", "--batch-size"), "LLAMA_ARG_BATCH", _value("n_batch", int)),
    Option(("-ub", "--ubatch-size"), "LLAMA_ARG_UBATCH", _value("n_ubatch", int)),
    Option(("-n", "--predict", "--n-predict"), "LLAMA_ARG_N_PREDICT", _value("n_predict", int)),
    Option(("-ngl", "--gpu-layers", "--n-gpu-layers"), "LLAMA_ARG_N_GPU_LAYERS", _value("n_gpu_layers", int)),
    Option(("-t", "--threads"), "LLAMA_ARG_THREADS", _value("cpuparams.n_threads", int)),
    Option(("-fa", "--flash-attn"), "LLAMA_ARG_FLASH_ATTN", _value("flash_attn_type", _flash)),
    Option(("-ctk", "--cache-type-k"), "LLAMA_ARG_CACHE_TYPE_K", _value("cache_type_k", _cache_type)),
    Option(("-ctv", "--cache-type-v"), "LLAMA_ARG_CACHE_TYPE_V", _value("cache_type_v", _cache_type)),
    Option(("-cram", "--cache-ram"), "LLAMA_ARG_CACHE_RAM", _value("cache_ram_mib", int)),
    Option(("--cache-reuse",), "LLAMA_ARG_CACHE_REUSE", _value("n_cache_reuse", int)),
    Option(("--chat-template",), "LLAMA_ARG_CHAT_TEMPLATE", _value("chat_template", str)),
    Option(("--chat-template-file",), "LLAMA_ARG_CHAT_TEMPLATE_FILE", _template_file),
    Option(("--chat-template-kwargs",), "LLAMA_CHAT_TEMPLATE_KWARGS", _value("default_template_kwargs", json.loads)),
    Option(("--lora",), None, _lora),
    Option(("--rope-freq-base",), "LLAMA_ARG_ROPE_FREQ_BASE", _value("rope_freq_base", float)),
    Option(("--rope-freq-scale",), "LLAMA_ARG_ROPE_FREQ_SCALE", _value("rope_freq_scale", float)),
    Option(("-s", "--seed"), None, _value("sampling.seed", int)),
    Option(("--temp", "--temperature"), "LLAMA_ARG_TEMPERATURE", _value("sampling.temp", float, "TEMP")),
    Option(("--top-k",), "LLAMA_ARG_TOP_K", _value("sampling.top_k", int, "TOP_K")),
    Option(("--top-p",), "LLAMA_ARG_TOP_P", _value("sampling.top_p", float, "TOP_P")),
    Option(("--min-p",), "LLAMA_ARG_MIN_P", _value("sampling.min_p", float, "MIN_P")),
    Option(
        ("--repeat-penalty",), "LLAMA_ARG_REPEAT_PENALTY", _value("sampling.penalty_repeat", float, "PENALTY_REPEAT")
    ),
    Option(("--presence-penalty",), "LLAMA_ARG_PRESENCE_PENALTY", _value("sampling.penalty_present", float)),
    Option(("--frequency-penalty",), "LLAMA_ARG_FREQUENCY_PENALTY", _value("sampling.penalty_freq", float)),
    Option(("-v", "--verbosity", "-lv", "--log-verbosity"), "LLAMA_ARG_LOG_VERBOSITY", _value("verbosity", int)),
    _switch("cache_prompt", "cache-prompt", "LLAMA_ARG_CACHE_PROMPT"),
    _switch("kv_unified", "kv-unified", "LLAMA_ARG_KV_UNIFIED", ("-kvu",)),
    _switch("cont_batching", "cont-batching", "LLAMA_ARG_CONT_BATCHING", ("-cb",)),
    _switch("ctx_shift", "context-shift", "LLAMA_ARG_CONTEXT_SHIFT"),
    _switch("swa_full", "swa-full", "LLAMA_ARG_SWA_FULL"),
    _switch("use_jinja", "jinja", "LLAMA_ARG_JINJA"),
    _switch("endpoint_metrics", "metrics", "LLAMA_ARG_ENDPOINT_METRICS"),
    _switch("endpoint_slots", "slots", "LLAMA_ARG_ENDPOINT_SLOTS"),
    _switch("endpoint_props", "props", "LLAMA_ARG_ENDPOINT_PROPS"),
    _switch("warmup", "warmup"),
)


if __name__ == "__main__":
    main()
