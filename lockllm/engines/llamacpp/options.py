"""llama-server's options: spellings, variable, value and class.

Read in tools/server/README.md and common/arg.cpp of llama.cpp b11549, older spellings in builds since b4112.
A line of the table is: spellings, `!` before those that say no; the variable without `LLAMA_ARG_`, or `-`; the kind of
value; the class. The first long spelling is the canonical name, unless `=name` gives another.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

import msgspec

from lockllm.facts.variables import recorded, rows

_TABLE = """
-t --threads | THREADS | int | kept
-tb --threads-batch | - | int | kept
-C --cpu-mask | - | text | kept
-Cr --cpu-range | - | text | kept
--cpu-strict | - | int | kept
--prio | - | int | kept
--poll | - | int | kept
-Cb --cpu-mask-batch | - | text | kept
-Crb --cpu-range-batch | - | text | kept
--cpu-strict-batch | - | int | kept
--prio-batch | - | int | kept
--poll-batch | - | int | kept
-c --ctx-size | CTX_SIZE | int | serve.ctx_size
-n --predict --n-predict | N_PREDICT | int | sampling.max_tokens
-b --batch-size | BATCH | int | serve.max_num_batched_tokens
-ub --ubatch-size | UBATCH | int | serve.ubatch_size
--keep | - | int | kept
--swa-full | SWA_FULL | flag | kept
-fa --flash-attn | FLASH_ATTN | flash | serve.flash_attn
--perf !--no-perf | PERF | switch | operational
-e --escape !--no-escape | - | switch | kept
--rope-scaling | ROPE_SCALING_TYPE | text | kept
--rope-scale | ROPE_SCALE | number | kept
--rope-freq-base | ROPE_FREQ_BASE | number | kept
--rope-freq-scale | ROPE_FREQ_SCALE | number | kept
--yarn-orig-ctx | YARN_ORIG_CTX | int | kept
--yarn-ext-factor | YARN_EXT_FACTOR | number | kept
--yarn-attn-factor | YARN_ATTN_FACTOR | number | kept
--yarn-beta-slow | YARN_BETA_SLOW | number | kept
--yarn-beta-fast | YARN_BETA_FAST | number | kept
-gan --grp-attn-n | GRP_ATTN_N | int | kept
-gaw --grp-attn-w | GRP_ATTN_W | int | kept
-kvo --kv-offload !-nkvo !--no-kv-offload | KV_OFFLOAD | switch | kept
--repack !-nr !--no-repack | REPACK | switch | kept
--no-host | NO_HOST | flag | kept
-ctk --cache-type-k | CACHE_TYPE_K | text | serve.cache_type_k
-ctv --cache-type-v | CACHE_TYPE_V | text | serve.cache_type_v
-dt --defrag-thold | DEFRAG_THOLD | number | kept
--rpc | RPC | text | kept
-lm --load-mode | LOAD_MODE | text | kept
--mmap !--no-mmap | MMAP | switch | kept
--mlock | MLOCK | flag | kept
-dio --direct-io !-ndio !--no-direct-io | DIO | switch | kept
-lzm --lazy-mode | LAZY_MODE | text | kept
--numa | NUMA | text | kept
-dev --device | DEVICE | text | kept
-ot --override-tensor | OVERRIDE_TENSOR | list | kept
-cmoe --cpu-moe | CPU_MOE | flag | kept
-ncmoe --n-cpu-moe | N_CPU_MOE | int | kept
--moe-cache-mib | MOE_CACHE_MIB | int | kept
-ncffn --n-cpu-ffn | N_CPU_FFN | int | kept
-ngl --gpu-layers --n-gpu-layers | N_GPU_LAYERS | layers | serve.gpu_layers
-sm --split-mode | SPLIT_MODE | text | serve.split_mode
-ts --tensor-split | TENSOR_SPLIT | text | kept
-mg --main-gpu | MAIN_GPU | int | kept
-fit --fit | FIT | text | kept
-fitt --fit-target | FIT_TARGET | loose | kept
-fitc --fit-ctx | FIT_CTX | int | kept
-fitp --fit-print | - | text | operational
--check-tensors | - | flag | kept
--override-kv | - | list1 | kept
--op-offload !--no-op-offload | - | switch | kept
--lora | - | list | adapter
--lora-scaled | - | list | adapter
--lora-base | - | path | kept
--lora-init-without-apply | - | flag | kept
--control-vector | - | list | path
--control-vector-scaled | - | list | path
--control-vector-layer-range | - | pair | kept
-m --model | MODEL | text | model
-mu --model-url | MODEL_URL | text | model
-dr --docker-repo | DOCKER_REPO | text | model
-hf -hfr --hf-repo | HF_REPO | text | model
-hff --hf-file | HF_FILE | text | model
-hfv -hfrv --hf-repo-v | HF_REPO_V | text | kept
-hffv --hf-file-v | HF_FILE_V | text | kept
-hft --hf-token | HF_TOKEN= | text | secret
--log-disable | - | flag | operational
--log-file | LOG_FILE | text | operational
--log-jsonl !--no-log-jsonl | LOG_JSONL | switch | operational
--log-colors | LOG_COLORS | optional | operational
-v --verbose --log-verbose | - | flag | operational
-lv --verbosity --log-verbosity | LOG_VERBOSITY | int | operational
--log-prefix !--no-log-prefix | LOG_PREFIX | switch | operational
--log-timestamps !--no-log-timestamps | LOG_TIMESTAMPS | switch | operational
--log-prompts-dir | - | text | operational
--offline | OFFLINE | flag | kept
--samplers | - | text | sampling.samplers
--sampler-seq --sampling-seq | - | text | shown
-s --seed | - | seed | seed
--ignore-eos | - | flag | kept
--temp --temperature | TEMPERATURE | number | sampling.temperature
--top-k | TOP_K | int | sampling.top_k
--top-p | TOP_P | number | sampling.top_p
--min-p | MIN_P | number | sampling.min_p
--top-nsigma --top-n-sigma | - | number | sampling.top_n_sigma
--xtc-probability | - | number | sampling.xtc_probability
--xtc-threshold | - | number | sampling.xtc_threshold
--typical --typical-p | - | number | sampling.typical_p
--repeat-last-n | - | int | sampling.repeat_last_n
--repeat-penalty | REPEAT_PENALTY | number | sampling.repetition_penalty
--presence-penalty | PRESENCE_PENALTY | number | sampling.presence_penalty
--frequency-penalty | FREQUENCY_PENALTY | number | sampling.frequency_penalty
--dry-multiplier | - | number | sampling.dry_multiplier
--dry-base | - | number | sampling.dry_base
--dry-allowed-length | - | int | sampling.dry_allowed_length
--dry-penalty-last-n | - | int | sampling.dry_penalty_last_n
--dry-sequence-breaker | - | list | shown
--adaptive-target | - | number | sampling.adaptive_target
--adaptive-decay | - | number | sampling.adaptive_decay
--dynatemp-range | - | number | sampling.dynatemp_range
--dynatemp-exp | - | number | sampling.dynatemp_exponent
--mirostat | - | int | sampling.mirostat
--mirostat-lr | - | number | sampling.mirostat_eta
--mirostat-ent | - | number | sampling.mirostat_tau
-bs --backend-sampling | BACKEND_SAMPLING | flag | sampling.backend_sampling
-l --logit-bias | - | list1 | kept
--penalize-nl | - | flag | kept
--grammar | - | text | kept
--grammar-file | - | path | kept
-j --json-schema | - | text | kept
-jf --json-schema-file | - | path | kept
-lcs --lookup-cache-static | - | path | kept
-lcd --lookup-cache-dynamic | - | text | switched
--kv-unified-per-slot | KV_UNIFIED_PER_SLOT | int | kept
-ctxcp --ctx-checkpoints --swa-checkpoints | CTX_CHECKPOINTS | int | kept
-cms --checkpoint-min-step | CHECKPOINT_MIN_SPACING_NT | int | kept
-cpent --checkpoint-every-n-tokens | CHECKPOINT_EVERY_NT | int | kept
-cram --cache-ram | CACHE_RAM | int | serve.cache_ram
-kvu --kv-unified !-no-kvu !--no-kv-unified | KV_UNIFIED | switch | serve.kv_unified
--cache-idle-slots !--no-cache-idle-slots | CACHE_IDLE_SLOTS | switch | kept
--context-shift !--no-context-shift | CONTEXT_SHIFT | switch | kept
-r --reverse-prompt | - | list1 | kept
-sp --special | - | flag | kept
--warmup !--no-warmup | - | switch | kept
--spm-infill | - | flag | kept
--pooling | POOLING | text | kept
--attention | - | text | kept
-np --parallel | N_PARALLEL | slots | serve.max_num_seqs
-cb --cont-batching !-nocb !--no-cont-batching | CONT_BATCHING | switch | serve.cont_batching
-mm --mmproj | MMPROJ | path | kept
-mmu --mmproj-url | MMPROJ_URL | text | kept
--mmproj-auto !--no-mmproj !--no-mmproj-auto | MMPROJ_AUTO | switch | kept
--mmproj-offload !--no-mmproj-offload | MMPROJ_OFFLOAD | switch | kept
-mmdev --mmproj-device | MTMD_BACKEND_DEVICE= | text | kept
--image-min-tokens | IMAGE_MIN_TOKENS | int | kept
--image-max-tokens | IMAGE_MAX_TOKENS | int | kept
--mtmd-batch-max-tokens | MTMD_BATCH_MAX_TOKENS | int | kept
--video-fps | VIDEO_FPS | number | kept
--video-timestamp-interval | VIDEO_TIMESTAMP_INTERVAL | int | kept
--video-ffmpeg-dir | VIDEO_FFMPEG_DIR | text | kept
-a --alias | ALIAS | text | operational
--tags | TAGS | text | operational
--embd-normalize | - | int | kept
--host | HOST | text | operational
--port | PORT | int | port
--reuse-port | REUSE_PORT | flag | operational
--path | STATIC_PATH | text | operational
--public-path | - | text | operational
--cors-origins | CORS_ORIGINS | text | operational
--cors-methods | CORS_METHODS | text | operational
--cors-headers | CORS_HEADERS | text | operational
--cors-credentials !--no-cors-credentials | CORS_CREDENTIALS | switch | operational
--api-prefix | API_PREFIX | text | operational
--ui-config --webui-config | UI_CONFIG | text | operational
--ui-config-file --webui-config-file | UI_CONFIG_FILE | text | operational
--ui-mcp-proxy --webui-mcp-proxy !--no-ui-mcp-proxy !--no-webui-mcp-proxy | UI_MCP_PROXY | switch | operational
--tools | TOOLS | text | operational
--tools-runtime | TOOLS_RUNTIME | text | operational
--mcp-servers-config | MCP_SERVERS_CONFIG | text | secret
--mcp-servers-json | MCP_SERVERS_JSON | text | secret
-ag --agent !-no-ag !--no-agent | AGENT | switch | operational
--ui --webui !--no-ui !--no-webui | UI | switch | operational
--embedding --embeddings | EMBEDDINGS | flag | kept
--rerank --reranking | RERANKING | flag | kept
--api-key | LLAMA_API_KEY= | text | secret
--api-key-file | API_KEY_FILE | text | secret
--ssl-key-file | SSL_KEY_FILE | text | secret
--ssl-cert-file | SSL_CERT_FILE | text | operational
--chat-template-kwargs | CHAT_TEMPLATE_KWARGS | text | kwargs
-to --timeout | TIMEOUT | int | operational
--sse-ping-interval | SSE_PING_INTERVAL | int | operational
--threads-http | THREADS_HTTP | int | kept
--cache-prompt !--no-cache-prompt | CACHE_PROMPT | switch | serve.enable_prefix_caching
--cache-reuse | CACHE_REUSE | int | serve.cache_reuse
--metrics | ENDPOINT_METRICS | flag | operational
--props | ENDPOINT_PROPS | flag | operational
--slots !--no-slots | ENDPOINT_SLOTS | switch | operational
--slot-save-path | SLOT_SAVE_PATH | text | operational
--media-path | - | text | operational
--models-dir | MODELS_DIR | text | router
--models-preset | MODELS_PRESET | path | kept
--models-max | MODELS_MAX | int | kept
--models-autoload !--no-models-autoload | MODELS_AUTOLOAD | switch | operational
--jinja !--no-jinja | JINJA | switch | serve.jinja
--reasoning-format | THINK | text | kept
-rea --reasoning | REASONING | text | kept
--reasoning-effort | REASONING_EFFORT | text | kept
--reasoning-budget | THINK_BUDGET | int | kept
--reasoning-budget-message | THINK_BUDGET_MESSAGE | text | kept
--reasoning-preserve !--no-reasoning-preserve | REASONING_PRESERVE | switch | kept
--chat-template | CHAT_TEMPLATE | text | template
--chat-template-file | CHAT_TEMPLATE_FILE | text | template
--skip-chat-parsing !--no-skip-chat-parsing | SKIP_CHAT_PARSING | switch | kept
--prefill-assistant !--no-prefill-assistant | PREFILL_ASSISTANT | switch | kept
-sps --slot-prompt-similarity | - | number | kept
--sleep-idle-seconds | - | int | operational
-hfd -hfrd --hf-repo-draft --spec-draft-hf | SPEC_DRAFT_HF_REPO | text | draft
-td --threads-draft --spec-draft-threads | - | int | kept
-tbd --threads-batch-draft --spec-draft-threads-batch | - | int | kept
-Cd --cpu-mask-draft --spec-draft-cpu-mask | - | text | kept
-Crd --cpu-range-draft --spec-draft-cpu-range | - | text | kept
--cpu-strict-draft --spec-draft-cpu-strict | - | int | kept
--prio-draft --spec-draft-prio | - | int | kept
--poll-draft --spec-draft-poll | - | int | kept
-Cbd --cpu-mask-batch-draft --spec-draft-cpu-mask-batch | - | text | kept
--cpu-strict-batch-draft --spec-draft-cpu-strict-batch | - | int | kept
--prio-batch-draft --spec-draft-prio-batch | - | int | kept
--poll-batch-draft --spec-draft-poll-batch | - | int | kept
-otd --override-tensor-draft --spec-draft-override-tensor | - | list | kept
-cmoed --cpu-moe-draft --spec-draft-cpu-moe | SPEC_DRAFT_CPU_MOE | flag | kept
-ncmoed --n-cpu-moe-draft --spec-draft-n-cpu-moe --spec-draft-ncmoe | SPEC_DRAFT_N_CPU_MOE | int | kept
-cd --ctx-size-draft --spec-draft-ctx-size | CTX_SIZE_DRAFT | int | kept
-ctkd --cache-type-k-draft --spec-draft-type-k | SPEC_DRAFT_CACHE_TYPE_K | text | kept
-ctvd --cache-type-v-draft --spec-draft-type-v | SPEC_DRAFT_CACHE_TYPE_V | text | kept
--spec-draft-n-max | SPEC_DRAFT_N_MAX | int | kept
--spec-draft-n-min | SPEC_DRAFT_N_MIN | int | kept
--spec-synth-len | SPEC_SYNTH_LEN | number | kept
--spec-synth-rates | SPEC_SYNTH_RATES | text | kept
--draft-p-split --spec-draft-p-split | SPEC_DRAFT_P_SPLIT | number | kept
--draft-p-min --spec-draft-p-min | SPEC_DRAFT_P_MIN | number | kept
--spec-draft-backend-sampling !--no-spec-draft-backend-sampling | SPEC_DRAFT_BACKEND_SAMPLING | switch | kept
--spec-draft-sampling | SPEC_DRAFT_SAMPLING | text | kept
--spec-replace | - | pair | kept
-devd --device-draft --spec-draft-device | - | text | kept
-ngld --gpu-layers-draft --n-gpu-layers-draft --spec-draft-ngl | N_GPU_LAYERS_DRAFT | layers | kept
-md --model-draft --spec-draft-model | SPEC_DRAFT_MODEL | text | draft
--spec-type | SPEC_TYPE | text | kept
--spec-default | - | flag | kept
--draft-max --draft --draft-n | DRAFT_MAX | int | kept
--draft-min --draft-n-min | DRAFT_MIN | int | kept
-spf --system-prompt-file | - | path | kept
-mv --model-vocoder | - | path | kept
--tts-use-guide-tokens | - | flag | kept
"""

_NUMBERED = ("size-n", "size-m", "min-hits")
_NGRAM = (
    "--spec-ngram-mod-n-min --spec-ngram-mod-n-max --spec-ngram-mod-n-match".split()
    + [f"--spec-ngram-{kind}-{part}" for kind in ("simple", "map-k", "map-k4v") for part in _NUMBERED]
    + [f"--spec-ngram-{part}" for part in _NUMBERED]
)
_PRESETS = (
    "--embd-gemma-default --fim-qwen-1.5b-default --fim-qwen-3b-default --fim-qwen-7b-default --fim-qwen-7b-spec "
    "--fim-qwen-14b-spec --fim-qwen-30b-default --gpt-oss-20b-default --gpt-oss-120b-default --vision-gemma-4b-default "
    "--vision-gemma-12b-default"
).split()
GONE = frozenset(
    "--draft-max --draft --draft-n --draft-min --draft-n-min --spec-ngram-size-n --spec-ngram-size-m "
    "--spec-ngram-min-hits --mmap --no-mmap --mlock -dio --direct-io -ndio --no-direct-io --system-prompt-file -spf "
    "--lora-base --penalize-nl -cd --ctx-size-draft --spec-draft-ctx-size -hfv -hfrv --hf-repo-v -hffv "
    "--hf-file-v -cpent --checkpoint-every-n-tokens --public-path --spec-replace".split()
)
"""Spellings that b11434 refuses, although an older build took them."""
NEVER = frozenset(("--config", "-config", "--model-path", "--temp-file"))
"""Spellings that people write and no build ever took."""


class Kind(enum.Enum):
    """What an option's argument is."""

    FLAG = "flag"  # none: it says yes
    SWITCH = "switch"  # none; another spelling says no
    INT = "int"
    NUMBER = "number"
    TEXT = "text"
    LOOSE = "loose"  # a number where it is one, else the text
    FLASH = "flash"  # on, off, auto; none in builds that know a switch
    OPTIONAL = "optional"  # may be left out
    SLOTS = "slots"  # a number; -1: auto
    LAYERS = "layers"  # a number, auto, all
    SEED = "seed"  # a number; -1: random
    LIST = "list"  # accumulates
    LIST1 = "list1"  # accumulates, a text where it is given once
    PAIR = "pair"  # takes two
    PATH = "path"  # a file: locked as its content


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """One option. `role` is a fact's key, or kept, shown, operational, secret, model, draft, adapter, template, ..."""

    name: str  # canonical, dashes to underscores
    flags: tuple[str, ...]
    off: tuple[str, ...]
    variable: str  # whole, empty where there is none
    kind: Kind
    role: str

    @property
    def long(self) -> str:
        """The spelling that `command` writes."""
        return next((flag for flag in self.flags if flag.startswith("--")), self.flags[0])


def _option(line: str) -> Option:
    spellings, variable, kind, role = (part.strip() for part in line.split("|"))
    words = spellings.split()
    flags = tuple(word for word in words if not word.startswith("!"))
    off = tuple(word[1:] for word in words if word.startswith("!"))
    name = next((flag for flag in flags if flag.startswith("--")), flags[0]).lstrip("-").replace("-", "_")
    env = "" if variable == "-" else variable[:-1] if variable.endswith("=") else f"LLAMA_ARG_{variable}"
    return Option(name=name, flags=flags, off=off, variable=env, kind=Kind(kind), role=role)


OPTIONS: tuple[Option, ...] = (
    *(_option(line) for line in _TABLE.strip().splitlines()),
    *(
        Option(name=f[2:].replace("-", "_"), flags=(f,), off=(), variable="", kind=Kind.INT, role="kept")
        for f in _NGRAM
    ),
    *(
        Option(name=f[2:].replace("-", "_"), flags=(f,), off=(), variable="", kind=Kind.FLAG, role="kept")
        for f in _PRESETS
    ),
)
BY_FLAG: Mapping[str, Option] = {flag: option for option in OPTIONS for flag in (*option.flags, *option.off)}
BY_NAME: Mapping[str, Option] = {option.name: option for option in OPTIONS}
BY_VARIABLE: Mapping[str, Option] = {
    **{option.variable: option for option in OPTIONS if option.variable},
    "LLAMA_CHAT_TEMPLATE_KWARGS": BY_NAME["chat_template_kwargs"],  # until 2026-05
}

OPERATIONAL_BECAUSE = {
    "where and under which name it is reached": "alias tags host port reuse_port path public_path api_prefix",
    "who may ask": "cors_origins cors_methods cors_headers cors_credentials ssl_cert_file media_path",
    "what is written to logs": (
        "perf log_disable log_file log_jsonl log_colors verbose verbosity log_prefix log_timestamps log_prompts_dir fit_print"
    ),
    "which routes and pages are there, for who calls them": (
        "ui_config ui_config_file ui_mcp_proxy tools tools_runtime agent ui metrics props slots slot_save_path"
    ),
    "how long it waits, and what it does when nobody asks": "timeout sse_ping_interval sleep_idle_seconds models_autoload",
    "the servers that the router starts are looked at by themselves": "models_dir models_preset",
}
"""Reason -> options that lock nothing, because they move no token."""

TEMPLATES = frozenset(
    "chatml llama2 llama2-sys llama2-sys-bos llama2-sys-strip mistral-v1 mistral-v3 mistral-v3-tekken "
    "mistral-v7 mistral-v7-tekken phi3 phi4 falcon3 zephyr monarch gemma orion openchat vicuna vicuna-orca "
    "deepseek deepseek2 deepseek3 deepseek-ocr command-r llama3 llama4 chatglm3 chatglm4 glmedge minicpm "
    "exaone3 exaone4 exaone-moe rwkv-world granite granite-4.0 granite-4.1 gigachat megrez yandex bailing "
    "bailing-think bailing2 smolvlm hunyuan-moe hunyuan-dense hunyuan-vl gpt-oss kimi-k2 seed_oss grok-2 "
    "pangu-embedded solar-open".split()
)
"""Names of llama.cpp's built-in chat templates."""
VARIABLES = recorded("llama.cpp") | {"GGML_BACKEND_PATH"}
"""Variables that llama.cpp or the CUDA below it reads and that change results (TZ: templates that read the clock)."""
FAMILIES = tuple(row.name[:-1] for row in rows("llama.cpp") if row.name.endswith("*"))
"""Prefixes of further variables that change results."""
NOISE = frozenset(
    "LLAMA_APP_CMD LLAMA_SERVER_ROUTER_PORT LLAMA_SERVER_SLOTS_DEBUG LLAMA_CACHE LLAMA_API_KEY "
    "GGML_NO_BACKTRACE GGML_SCHED_DEBUG GGML_CUDA_DEVICES GGML_VK_VISIBLE_DEVICES LLAMA_ARG_FIT_ESTIMATE "
    "LLAMA_ARG_SHOW_TIMINGS".split()
)
"""Variables of llama.cpp that move nothing, or whose effect is read elsewhere."""
