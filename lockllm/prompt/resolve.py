"""Which chat template wins, by engine and version. The rules were read and run as the docstring of each says."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from lockllm import engines
from lockllm.engines import Prompts
from lockllm.engines.kernel import renderers
from lockllm.prompt.rules import release
from lockllm.prompt.templates import CONFIG, DEFAULT, TOOL_USE, Candidate, Read, Shelf, document, shelve

_OF_GGUF = frozenset({"gguf_or_chatml", "gguf_or_llama2"})
_LONGEST_PATH = 4_096  # of Linux; a pattern with a gap takes the square of it
_MULTIMODAL = ("vision_config", "audio_config", "vision_tower", "thinker_config")


class Resolution(msgspec.Struct, frozen=True, kw_only=True):
    """The template of a plain chat and of one with tools, every candidate, and what is odd about them.

    `unknown` says why the winner cannot be told from what was looked at; `winner` is then None. `edited` says why the
    engine's text is not that of the winner.
    """

    winner: Candidate | None = None
    with_tools: Candidate | None = None
    candidates: tuple[Candidate, ...] = ()
    problems: tuple[str, ...] = ()
    unknown: str = ""
    edited: str = ""

    @property
    def differ(self) -> tuple[Candidate, ...]:
        """The candidates whose text is not that of the winner, named ones for other purposes left out."""
        if self.winner is None:
            return ()
        plain = {"", DEFAULT, self.winner.name}
        return tuple(each for each in self.candidates if each.text != self.winner.text and each.name in plain)


class _Choice(msgspec.Struct, frozen=True):
    plain: Candidate | None = None
    tools: Candidate | None = None
    unknown: str = ""
    problem: str = ""


def resolve(
    read: Read, names: Sequence[str], engine: str | None = None, version: str | None = None, *,
    explicit: Candidate | None = None, gguf: Mapping[str, str] | None = None, transformers: str | None = None,
    tokenizer_mode: str | None = None, model: str = "", options: Mapping[str, str] = {}, edition: int = 2,
) -> Resolution:  # fmt: skip
    """Choose as that engine and version does; as transformers 5 loads a tokenizer where no engine is named.

    `explicit`: what a flag names. `gguf`: the template keys of a GGUF's metadata. `transformers`: the
    installed release where the engine is another. `tokenizer_mode`: as the engine's flag says. `model`: as the
    command names it, which some engines guess by. `options`: others that choose a renderer, and variables.
    `edition`: of the lock; those of edition 1 were made where no renderer of an engine was known.
    """
    shelf = shelve(read, names, gguf, edition=edition)
    prompts = engines.identity(engine).prompts
    if prompts.one_line_end:
        kept = {name: _kept(each) for name, each in shelf.gguf.items()}
        shelf = msgspec.structs.replace(shelf, gguf=kept)
    library = version if engine is None or prompts.is_library else transformers
    config = document(read, "config.json") or {}
    if explicit is None:
        explicit = _guessed(prompts, model, config.get("model_type"))

    def choose(shelf: Shelf) -> _Choice:
        vendor = edition >= 2 and prompts.mistral_over_flag and tokenizer_mode == "mistral"
        flag = None if vendor else explicit
        choice = _choose(shelf, read, names, engine, version, library, tokenizer_mode, flag)
        if edition < 2 or gguf is not None:
            return choice
        taken = tokenizer_choice(shelf, library)
        return _by_the_engine(choice, engine, version, _model(config, taken, tokenizer_mode, explicit, options))

    choice = choose(shelf)
    if gguf is None and explicit is None and prompts.rule in _OF_GGUF:
        choice = _Choice(unknown="no GGUF was read")
    if lost := "; ".join(_lost(shelf, choose)):
        choice = _Choice(unknown=lost)
    own = re.search(prompts.own_families, model, re.IGNORECASE) if prompts.own_families and explicit is None else None
    if own is not None:
        label = engines.identity(engine).label
        choice = _Choice(
            unknown=f"{label} may take a template of its own for a path with {own.group()}, by its name alone"
        )
    candidates = (*((explicit,) if explicit else ()), *shelf.all())
    problems = (*shelf.problems.values(), *((choice.problem,) if choice.problem else ()))
    kind = renderers.architecture_of(config)
    return Resolution(
        winner=choice.plain, with_tools=choice.tools, candidates=candidates, problems=problems, unknown=choice.unknown,
        edited=renderers.edited(engine, renderers.Model(architecture=kind[0], model_type=kind[1])) if edition >= 2 else "",
    )  # fmt: skip


def _model(
    config: Mapping[str, Any], taken: _Choice, mode: str | None, explicit: Candidate | None, options: Mapping[str, str]
) -> renderers.Model:
    architecture, model_type = renderers.architecture_of(config)
    return renderers.Model(
        architecture=architecture, model_type=model_type, mode=mode, options=options,
        has_template=explicit is not None or taken.plain is not None or taken.tools is not None,
        named=explicit is not None and explicit.text is None,
    )  # fmt: skip


def _by_the_engine(choice: _Choice, engine: str | None, version: str | None, model: renderers.Model) -> _Choice:
    """The choice, unless the engine writes the prompts of that model itself, or has a template for it and needs one."""
    own = renderers.renderer(engine, version, model)
    if own.unknown:
        return _Choice(unknown=own.unknown)
    name = own.name
    if not name and choice == _Choice():
        name = renderers.fallback(engine, model.model_type)
    if not name:
        return choice
    code = Candidate(None, renderers.shown(name, engine or "", version), name)
    return _Choice(code, code)


def _lost(shelf: Shelf, choose: Callable[[Shelf], _Choice]) -> Iterator[str]:
    """Why the template in force cannot be told: files whose templates nobody knows, and that would change the choice."""
    told = choose(shelf)
    for name, problem in shelf.problems.items():
        other = choose(shelf.with_one_in(name))
        if (other.plain, other.tools, other.unknown) != (told.plain, told.tools, told.unknown):
            yield problem


def tokenizer_choice(shelf: Shelf, library: str | None) -> _Choice:
    """As `AutoTokenizer` does. Run: transformers 4.44.2, 4.51.3, 4.57.6, 5.24.0."""
    number = release(library) if library else (5, 24)
    if number is None or number >= (4, 52):
        files = {**({DEFAULT: shelf.jinja} if shelf.jinja else {}), **shelf.folder}
    else:
        files = {DEFAULT: shelf.jinja} if shelf.jinja and number >= (4, 47) else {}
    if set(files) == {DEFAULT}:
        return _Choice(files[DEFAULT], files[DEFAULT])
    named = files or shelf.config_named
    if named is None:
        return _Choice(shelf.config, shelf.config)
    plain = named.get(DEFAULT)
    problem = "" if plain else f"several templates and none named {DEFAULT}: a chat without tools has none"
    return _Choice(plain, named.get(TOOL_USE, plain), problem=problem)


def processor_choice(shelf: Shelf, library: str | None) -> _Choice:
    """As `AutoProcessor` does. Run: transformers 4.57.6, 5.24.0; only where the checkpoint has a processor."""
    number = release(library) if library else (5, 24)
    if shelf.legacy and shelf.folder:
        return _Choice(
            problem="chat_template.json beside additional_chat_templates: transformers refuses to load the processor"
        )
    if shelf.processor and (number is None or number >= (5, 0)):
        return _Choice(shelf.processor, shelf.processor)
    if shelf.legacy:
        return _Choice(shelf.legacy, shelf.legacy)
    plain = shelf.jinja or shelf.folder.get(DEFAULT)
    return _Choice(plain, plain, unknown="" if plain or not shelf.folder else "the processor has only named templates")


def _choose(
    shelf: Shelf, read: Read, names: Sequence[str], engine: str | None, version: str | None, library: str | None,
    mode: str | None, explicit: Candidate | None,
) -> _Choice:  # fmt: skip
    if explicit is not None:
        return _Choice(explicit, explicit)
    if engine is None:
        return _gguf_or_chatml(shelf, library, False) if shelf.gguf else tokenizer_choice(shelf, library)
    prompts = engines.identity(engine).prompts
    if prompts.mistral_common and (vendor := _by_mistral(shelf, names, engine, version, mode)) is not None:
        return vendor
    rule = _RULES.get(prompts.rule)
    if rule is None:
        return _Choice(unknown=f"the rules of {engine} were not read")
    choice = rule(shelf, library, _has_processor(read, names))
    if _is_certain(shelf, engine, version):
        return choice
    return _Choice(unknown=f"which of several templates {engine} {version} takes was not read", problem=choice.problem)


def _guessed(prompts: Prompts, model: str, model_type: object) -> Candidate | None:
    """A conversation of the engine's own, by words of the path or the type."""
    path = model[:_LONGEST_PATH]
    found = next((name for pattern, name in prompts.guesses if re.search(pattern, path, re.IGNORECASE)), None)
    if found is None and isinstance(model_type, str):
        found = prompts.guessed_types.get(model_type)
    return Candidate(None, "guessed-from-path", found) if found else None


def _is_certain(shelf: Shelf, engine: str, version: str | None) -> bool:
    """Whether the rule was read for that version, or all candidates are one text anyway."""
    number = release(version) if version else None
    if number is None:
        return True
    prompts = engines.identity(engine).prompts
    read = prompts.oldest <= number and (prompts.newest is None or number <= prompts.newest)
    return read or len({each.text for each in shelf.all()}) <= 1


def _by_mistral(
    shelf: Shelf, names: Sequence[str], engine: str, version: str | None, mode: str | None
) -> _Choice | None:
    """Whether mistral-common renders in place of any template: by the tokenizer mode, or by the files."""
    vendor = Candidate(None, "built-in: mistral-common")
    if mode not in {None, "auto"}:
        return _Choice(vendor, vendor) if mode == "mistral" else None
    tekken = any(name == "tekken.json" or name.startswith("tokenizer.model.v") for name in names)
    since = engines.identity(engine).prompts.mistral_by_files
    if not tekken or since is None:
        return None
    if not shelf.all() and CONFIG not in names:
        return _Choice(vendor, vendor)
    if not any(name.startswith("consolidated") and name.endswith(".safetensors") for name in names):
        return None
    number = release(version) if version else None
    if number is None or number >= since:
        return _Choice(vendor, vendor)
    return _Choice(unknown=f"whether {engine} {version} takes mistral-common here was not read: give --tokenizer-mode")


def _has_processor(read: Read, names: Sequence[str]) -> bool:
    """Whether `AutoProcessor` finds a processor: a class is named, or the model has parts other than text."""
    if "processor_config.json" in names:
        return True
    for name in ("preprocessor_config.json", "video_preprocessor_config.json", CONFIG):
        if name in names and "processor_class" in (document(read, name) or {}):
            return True
    images = "preprocessor_config.json" in names
    return images and any(key in (document(read, "config.json") or {}) for key in _MULTIMODAL)


def _processor_first(shelf: Shelf, library: str | None, has_processor: bool) -> _Choice:
    """The processor's, else the tokenizer's; no template is built in. Read: transformers serve, TensorRT-LLM."""
    first = processor_choice(shelf, library) if has_processor else _Choice()
    return first if first.plain or first.unknown else tokenizer_choice(shelf, library)


def _processor_without_tools(shelf: Shelf, library: str | None, has_processor: bool) -> _Choice:
    """The processor's where the request has no tools, else the tokenizer's: vLLM `renderers/hf.py`, 0.9 to 0.33."""
    tokenizer = tokenizer_choice(shelf, library)
    plain = _processor_first(shelf, library, has_processor)
    if has_processor and shelf.folder and not (shelf.legacy or shelf.processor):
        return _Choice(None, tokenizer.tools, "the processor has several named templates, and none is taken by name")
    return _Choice(plain.plain, tokenizer.tools, plain.unknown, plain.problem)


def _first_of_several(shelf: Shelf, library: str | None, has_processor: bool) -> _Choice:
    """The processor's, else the tokenizer's; of several the first: SGLang `parser/template_manager.py`, 0.5.8 to 0.5.23."""
    choice = _processor_first(shelf, library, has_processor)
    if choice.unknown:
        return choice
    if shelf.folder and not shelf.jinja and len(shelf.folder) > 1:
        return _Choice(unknown="the first of several files is taken, in the order of the file system")
    listed = shelf.config_named or {}
    files = shelf.folder if not shelf.jinja else {}
    taken = choice.plain
    if not (has_processor and (shelf.legacy or shelf.processor)) and not shelf.jinja and (files or listed):
        taken = next(iter((files or listed).values()))
    return _Choice(taken, taken, problem=choice.problem if taken is None else "")


def _json_files(shelf: Shelf, library: str | None, has_processor: bool) -> _Choice:
    """First the JSON files of processor and tokenizer; `.jinja` files are never read: TGI `router/src/server.rs`."""
    listed = (shelf.config_named or {}).get(DEFAULT)
    plain = shelf.legacy or shelf.config or listed or shelf.processor
    unread = "chat_template.jinja is there, and this engine does not read it" if shelf.jinja or shelf.folder else ""
    return _Choice(plain, plain, problem=unread)


def _gguf_or_chatml(shelf: Shelf, library: str | None, has_processor: bool) -> _Choice:
    """The GGUF's default, with tools its `tool_use`, else chatml: llama.cpp `common/chat.cpp`, run at b11434."""
    if not shelf.gguf:
        fallback = Candidate(None, "built-in: chatml")
        return _Choice(fallback, fallback, problem="the GGUF holds no template: the engine falls back to chatml")
    plain = shelf.gguf.get(DEFAULT)
    return _Choice(plain, shelf.gguf.get(TOOL_USE, plain))


def _kept(held: Candidate) -> Candidate:
    """A template with one kind of line end, as llama.cpp keeps it: one line end at the end goes, others become LF. Run: b11549."""
    text = (held.text or "").replace("\r\n", "\n").removesuffix("\n").replace("\r", "\n")
    return msgspec.structs.replace(held, text=text)


def _gguf_or_llama2(shelf: Shelf, library: str | None, has_processor: bool) -> _Choice:
    """The GGUF's default, else llama-2: llama-cpp-python `llama_chat_format.py`, 0.3.36."""
    plain = shelf.gguf.get(DEFAULT) or Candidate(None, "built-in: llama-2")
    return _Choice(plain, plain)


def _tokenizer_first(shelf: Shelf, library: str | None, has_processor: bool) -> _Choice:
    """The tokenizer's, else the processor's: LMDeploy `model.py`, 0.18."""
    choice = tokenizer_choice(shelf, library)
    return choice if choice.plain or not has_processor else processor_choice(shelf, library)


_RULES: Mapping[str, Callable[[Shelf, str | None, bool], _Choice]] = {
    "processor": _processor_first,
    "processor_without_tools": _processor_without_tools,
    "first_of_several": _first_of_several,
    "json_files": _json_files,
    "gguf_or_chatml": _gguf_or_chatml,
    "gguf_or_llama2": _gguf_or_llama2,
    "tokenizer": _tokenizer_first,
}
"""What `Prompts.rule` of an engine may say."""
