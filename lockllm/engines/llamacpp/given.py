"""What a llama-server's command line, variables and config files say."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from lockllm.engines import Form, Given, MayBeMissing, Model, PathGiven, Template
from lockllm.engines.kernel.values import leaves, secret_name, unresolved, without_userinfo
from lockllm.engines.kernel.variables import is_common
from lockllm.engines.llamacpp import build as builds
from lockllm.engines.llamacpp import findings, sources
from lockllm.engines.llamacpp.options import FAMILIES, VARIABLES, Kind
from lockllm.engines.llamacpp.sources import Setting, Settings, named
from lockllm.facts.env import is_secret
from lockllm.facts.fact import Path
from lockllm.facts.observation import ABSENT, By, Reading, Unobserved
from lockllm.facts.registry import fact, find, row_of, seen

if TYPE_CHECKING:
    from lockllm.facts.fact_keys import FactKey


class _Collected(msgspec.Struct, kw_only=True):
    """What is being put together."""

    by: By
    readings: list[Reading] = []
    paths: list[PathGiven] = []
    auto: set[Path] = set()
    operational: list[str] = []
    secrets: list[str] = []
    adapters: dict[str, Model] = {}
    template: str | None = None
    read_from: dict[Path, str] = {}
    unread: list[Unobserved] = []

    def read(self, key: FactKey | Path, value: Any, source: str) -> None:
        """One reading; URLs lose user and password."""
        self.readings.append(seen(key, without_userinfo(value, self.secrets), source, self.by))


def wants_files(form: Form, env: Mapping[str, str]) -> Iterator[str]:
    """The two config.ini files, and a chat template that the command names."""
    yield MayBeMissing(sources.SYSTEM_FILE)
    if user := sources.user_file(env):
        yield MayBeMissing(user)
    yield from wants_more(form, env, {})


def wants_more(form: Form, env: Mapping[str, str], files: Mapping[str, str]) -> Iterator[str]:
    """The chat template that the command, its variables or a config.ini names."""
    template = named(sources.read(form.args, env, files, None), "chat_template_file")
    if template is not None:
        yield str(template.value)


def given(form: Form, env: Mapping[str, str], files: Mapping[str, str], version: str | None, live: bool) -> Given:
    """Facts, kept, operational and secret options told apart; the last word on each."""
    build = builds.number(version)
    settings = sources.read(form.args, env, files, build)
    into = _Collected(by=By.PROCESS if live else By.PLAN)
    for setting in settings.by_name.values():
        if setting.option.kind is Kind.SLOTS and setting.value == 1 and build in findings.ONE_IS_AUTO:
            into.auto.add(fact("serve.max_num_seqs").path)
        else:
            _one(setting, into)
    _cache_types(settings, into)
    _template(settings, files, into)
    for name, value in settings.unknown.items():
        if secret_name(name):
            into.secrets.append(str(value))
        else:
            into.read(("serve", "args", name), value, f"argument --{name.replace('_', '-')}")
    port = named(settings, "port")
    model, draft = _model(settings), _draft(settings)
    if (
        model is not None
        and not unresolved(model.text)
        and model.source.endswith(("--hf-repo", "-hf", "-hfr", "HF_REPO", "hf-repo"))
    ):
        into.read("checkpoint.repo", model.text, model.source)
    return Given(
        engine="llama.cpp",
        readings=tuple(into.readings),
        model=model,
        draft=draft,
        adapters=into.adapters,
        paths=tuple(into.paths),
        template=into.template,
        read_from=into.read_from,
        unread=tuple(into.unread),
        auto=frozenset(into.auto),
        operational=tuple(into.operational),
        env=tuple(_environment(env, into.by)),
        secrets=(*into.secrets, *_secret_variables(env)),
        port=port.value if port is not None and isinstance(port.value, int) else None,
        checks=tuple(findings.of_command(settings, build, version, env)),
        warnings=tuple(findings.warnings(settings)),
    )


def _one(setting: Setting, into: _Collected) -> None:
    option, value, source = setting.option, setting.value, setting.source
    role = option.role
    if role == "secret":
        into.secrets.extend(part for part in (str(value), *str(value).split(",")) if part)
    elif role in ("operational", "router", "port"):
        into.operational.append(option.name)
    elif role == "adapter":
        _adapters(option.name, value, source, into)
    elif role == "kwargs":
        _kwargs(str(value), source, into)
    elif role == "seed":
        into.read("serve.seed", value if value not in (-1, 4294967295) else ABSENT, source)
        into.read("sampling.seed", value if value not in (-1, 4294967295) else ABSENT, source)
    elif option.kind is Kind.PATH or role == "path":
        row = find(("serve", "args", option.name))
        for path, form in _paths(option.name, value if isinstance(value, tuple) else (value,)):
            into.paths.append(PathGiven(fact=row, path=path, source=source, form=form))
    elif role.startswith(("serve.", "sampling.")):
        _neutral(setting, into)
    elif role == "switched":  # a file that the server itself writes: that it is there counts, not what it holds
        into.read(("serve", "args", option.name), True, source)
    elif role == "shown":
        into.read(("serve", option.name), _listed(option.kind, value), source)
    elif role == "kept":
        into.read(("serve", "args", option.name), _listed(option.kind, value), source)


def _paths(name: str, values: tuple[Any, ...]) -> Iterator[tuple[str, str]]:
    """The paths of an option, and how each content stands in its fact. Lists have commas; `FILE:SCALE` keeps its scale."""
    for entry in (
        part for each in values for part in (str(each).split(",") if name.startswith("control_vector") else [each])
    ):
        path, colon, scale = str(entry).rpartition(":") if name.endswith("_scaled") else (str(entry), "", "")
        yield (path, f"{{}}:{scale}") if colon else (str(entry), "{}")


def _neutral(setting: Setting, into: _Collected) -> None:
    option, value, source = setting.option, setting.value, setting.source
    target = row_of(option.role)
    automatic = option.kind in (Kind.SLOTS, Kind.LAYERS) and value in (-1, 0 if option.kind is Kind.SLOTS else -1)
    if automatic or str(value).lower() == "auto":
        into.auto.add(target.path)
        return
    if target.group == "sampling":
        if option.role.removeprefix("sampling.") not in _SAME_NAME:
            into.read(("serve", option.name), value, source)
        if option.role == "sampling.samplers":
            value = tuple(str(value).split(";"))
        elif option.role == "sampling.max_tokens" and isinstance(value, int) and value < 0:
            value = ABSENT
    into.read(target.path, value, source)


_SAME_NAME = frozenset(
    ("temperature", "top_k", "top_p", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty")
)
"""Sampling facts that stand for the option's own spelling as well."""


def _listed(kind: Kind, value: Any) -> Any:
    return value[0] if kind is Kind.LIST1 and isinstance(value, tuple) and len(value) == 1 else value


def _cache_types(settings: Settings, into: _Collected) -> None:
    """One fact for both types; f16 is the default of either in every build."""
    key, value = named(settings, "cache_type_k"), named(settings, "cache_type_v")
    if key is None and value is None:
        return
    types = tuple(str(each.value).lower() if each else "f16" for each in (key, value))
    source = (key or value).source if key is None or value is None else f"{key.source}, {value.source}"  # type: ignore[union-attr]
    into.read("serve.kv_cache_dtype", both(*types), source)


def both(key: str, value: str) -> str:
    """The KV cache's type in one word: `q8_0`, or `q4_0/q8_0` where keys and values differ."""
    return key if key == value else f"{key}/{value}"


def _kwargs(text: str, source: str, into: _Collected) -> None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = text
    if not isinstance(value, dict):
        into.read(("serve", "args", "chat_template_kwargs"), text, source)
        return
    for path, leaf in leaves(value):
        into.read(("serve", "chat_template_kwargs", *path), leaf, source)


def _adapters(name: str, value: tuple[str, ...], source: str, into: _Collected) -> None:
    for entry in (part for each in value for part in each.split(",") if part):
        path, colon, scale = entry.rpartition(":") if name == "lora_scaled" else (entry, "", "")
        path = path if colon else entry
        stem = _free(adapter_name(path), into.adapters)
        into.adapters[stem] = Model(text=path, source=source)
        into.read(("adapters", stem, "scale"), sources.number(scale) if colon else 1.0, source)


def adapter_name(path: str) -> str:
    """The name of an adapter: its file's, without the ending."""
    return path.rsplit("/", 1)[-1].removesuffix(".gguf") or "adapter"


def _free(name: str, taken: Mapping[str, Model]) -> str:
    number, free = 2, name
    while free in taken:
        free, number = f"{name}-{number}", number + 1
    return free


def _template(settings: Settings, files: Mapping[str, str], into: _Collected) -> None:
    """The template that an option gives: its text is what counts, a built-in name only where jinja is off."""
    inline, file = named(settings, "chat_template"), named(settings, "chat_template_file")
    if file is not None:
        text = files.get(str(file.value))
        into.read("chat_template.source", "--chat-template-file", file.source)
        if text is None:
            into.paths.append(PathGiven(fact=fact("serve.chat_template"), path=str(file.value), source=file.source))
            reason = f"{file.value} ({file.source}) is the template in force, and was not read"
            fix = "look where that file is, or check the server's mounts"
            into.unread += [Unobserved((group,), reason, fix) for group in ("chat_template", "prompt_probes")]
        else:
            kept = explicit_template(text)
            into.template = kept.text
            into.read_from["serve", "chat_template"] = str(file.value)
            into.read("serve.chat_template", kept.value, file.source)
            into.read("chat_template.sha256", kept.value, file.source)
    elif inline is not None:
        text = as_kept(str(inline.value))
        into.read("serve.chat_template", text if findings.builtin(text) else digest(text), inline.source)
        into.read("chat_template.source", "--chat-template", inline.source)
        if text != "chatml":
            into.template = text
            into.read("chat_template.sha256", digest(text), inline.source)


def explicit_template(text: str) -> Template:
    """The text of a template's file as llama.cpp keeps it."""
    return Template(text=as_kept(text), value=digest(text))


def as_kept(text: str) -> str:
    """A template as llama.cpp keeps it: one line end at the end goes, others become LF (run, b11549)."""
    return text.replace("\r\n", "\n").removesuffix("\n").replace("\r", "\n")


def digest(text: str) -> str:
    """The sha256 of a template as the engine keeps it: one line end at the end goes, others become LF (run: b11549)."""
    kept = text.replace("\r\n", "\n").removesuffix("\n").replace("\r", "\n")
    return hashlib.sha256(kept.encode("utf-8", "surrogatepass")).hexdigest()


def _model(settings: Settings) -> Model | None:
    """What is loaded: --model, else a URL, else a repository (`owner/name[:quant]`), as llama.cpp takes them."""
    if (path := named(settings, "model")) is not None:
        return Model(text=str(path.value), source=path.source)
    if (repo := named(settings, "hf_repo")) is not None:
        name, _, quant = str(repo.value).partition(":")
        file = named(settings, "hf_file")
        return Model(
            text=name, source=repo.source, file=str(file.value) if file else f"*{quant}*.gguf" if quant else None
        )
    for name in ("model_url", "docker_repo"):
        if (other := named(settings, name)) is not None:
            return Model(text=without_userinfo(str(other.value), []), source=other.source)
    return None


def _draft(settings: Settings) -> Model | None:
    if (path := named(settings, "model_draft")) is not None:
        return Model(text=str(path.value), source=path.source)
    if (repo := named(settings, "hf_repo_draft")) is not None:
        return Model(text=str(repo.value).partition(":")[0], source=repo.source)
    return None


def _environment(env: Mapping[str, str], by: By) -> Iterator[Reading]:
    for name, value in env.items():
        if (name in VARIABLES or name.startswith(FAMILIES) or is_common(name)) and not is_secret(name):
            yield seen(("env", name), value, f"variable {name}", by)


def _secret_variables(env: Mapping[str, str]) -> Iterator[str]:
    for name in ("LLAMA_API_KEY", "HF_TOKEN"):
        if value := env.get(name):
            yield value
            if "," in value:
                yield from filter(None, value.split(","))
