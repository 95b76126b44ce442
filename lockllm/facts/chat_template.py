"""Facts of the prompt: the chat template in force, what it reads, and probes rendered through it."""

from __future__ import annotations

from lockllm.facts.fact import Fact, Family, Group, Kind
from lockllm.facts.types import ANY, COUNT, SHA256, TEXT, TEXTS

CHAT_TEMPLATE = Group(
    name="chat_template", about="what the model is told besides the messages", guarded=True, waits=True
)
_SOURCES = (
    'checkpoint.files."*chat_template*"', 'checkpoint.files."tokenizer_config.json"', 'checkpoint.files."processor_config.json"',
    'checkpoint.files."*.gguf"', "chat_template.source", "serve.chat_template",
)  # fmt: skip
TEMPLATE_SHA256 = Fact(
    ("chat_template", "sha256"), SHA256, Kind.STEP, "every prompt is rendered otherwise",
    "restore the locked template, or serve it with the engine's template flag",
    "The sha256 of the template text as the engine will use it.", causes=_SOURCES, part="template", settable=False,
)  # fmt: skip
SOURCE = Fact(
    ("chat_template", "source"), TEXT, Kind.STEP, "another of several templates wins",
    "remove the extra template, or drop the template flag",
    "Which file, key, flag, built-in or guess supplied the template.",
    causes=('checkpoint.files."*chat_template*"', "tokenizer.mode", "engine.version"),
    settable=False,
)  # fmt: skip
CONTEXT = Fact(
    ("chat_template", "context"), TEXTS, Kind.STEP, "prompts also depend on something other than the messages",
    "serve the locked template",
    "What the template reads besides messages and tools: `clock`, and the names of keyword arguments.",
    follows_from=("chat_template.sha256",), settable=False,
)  # fmt: skip
CONTENT_FORMAT = Fact(
    ("chat_template", "content_format"), TEXT, Kind.STEP, "content parts reach the template as a list or as one text",
    "start the server with the locked content format",
    "How the engine hands message content to the template: string or openai.", causes=("chat_template.sha256",),
)  # fmt: skip

PROMPT_PROBES = Group(name="prompt_probes", about="fixed conversations, rendered and tokenized", via=False, waits=True)
PROBES_VERSION = Fact(
    ("prompt_probes", "version"), COUNT, Kind.IDENTITY, "the probes are other conversations", "run `lockllm lock`",
    "The version of the fixed set of conversations.", settable=False, follows_from=("chat_template.sha256", "checkpoint.files"),
)  # fmt: skip
PROBE = Family(
    Fact(
        ("prompt_probes",), ANY, Kind.STEP, "this conversation reaches the model as other text",
        "restore template, tokenizer and template arguments as locked",
        "A fixed conversation: `text` is the sha256 of its rendering, `token_count` and `token_ids` (sha256) what the tokenizer makes.",
        follows_from=("chat_template.sha256", "checkpoint.files"),
        causes=("tokenizer.content_sha256", "chat_template.content_format", "prompt_probes.version"),
        settable=False, stale_with=("chat_template.sha256", "tokenizer.content_sha256", "engine.version"),
        unless="tokenizer.repo",
    ),
    depth=0,
)  # fmt: skip
