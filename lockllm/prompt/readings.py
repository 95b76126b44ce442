"""The facts and findings of the prompt: what `inspect`, `observe` and `lock` say about template and probes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from lockllm import engines
from lockllm.engines.kernel import renderers
from lockllm.facts.fact import Stage
from lockllm.facts.observation import By, Check, CheckStatus, Reading, Unobserved
from lockllm.facts.registry import seen
from lockllm.prompt import live, probes
from lockllm.prompt.render import Analysis, Refused, Rendered, format_of, renderings_at, study, study_as
from lockllm.prompt.resolve import Resolution, resolve
from lockllm.prompt.rules import NEWEST, Rules, rules
from lockllm.prompt.sandbox import Program
from lockllm.prompt.templates import CONFIG, Candidate, Read
from lockllm.prompt.tokens import held_tokens

_ADDRESS = re.compile(r" at 0x[0-9a-f]{6,16}>")
"""How Python prints an object that has no text of its own."""
_OUTSIDE = "put right what the reason names, and look again"  # the template is not at fault


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the server that the template is for. All of it may be unknown."""

    engine: str | None = None
    version: str | None = None
    explicit: Candidate | None = None  # what a flag names
    transformers: str | None = None  # the installed release
    tokenizer_mode: str | None = None
    model: str = ""  # as the command names it
    options: Mapping[str, str] = {}  # tool_call_parser, custom_tokenizer, and variables that choose a renderer
    edition: int = 2  # of the lock that this is held against
    content_format: str | None = None  # known already, from a flag or the log: string or openai
    arguments: Mapping[str, Any] = {}  # the server's default chat_template_kwargs
    served: live.Served | None = None  # what the running server answered to the probes
    clock: bool | None = None  # whether the template that was locked reads it
    zone: str | None = None  # the server's own TZ
    brief: bool = False  # no token ids are made where the server shows its own
    program: Program | None = None  # the serving interpreter, where it may be run: for token ids that we cannot make


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that was seen of the prompt."""

    resolution: Resolution
    readings: tuple[Reading, ...] = ()
    unobserved: tuple[Unobserved, ...] = ()
    checks: tuple[Check, ...] = ()


Examine = Callable[
    [str, Mapping[str, Any], Setup, "Rules | None"], "tuple[Analysis | Refused, tuple[Rendered | Refused, ...]]"
]
"""Template, special tokens, server and rules -> what the syntax says, and an answer for each probe."""


def observe(
    read: Read, names: Sequence[str], setup: Setup | None = None, *, gguf: Mapping[str, str] | None = None,
    gguf_tokens: Mapping[str, str] | None = None, tokenizer_json: str | None = None, by: By = By.FILE,
    examine: Examine | None = None,
) -> Prompt:  # fmt: skip
    """Resolve, analyze and probe the template of a checkpoint. Never raises for what a checkpoint holds.

    `read` and `names` give the checkpoint's files, `gguf` and `gguf_tokens` the template keys and special tokens of a
    GGUF. `tokenizer_json` is the path of a plain file that token ids are made with, where the library is installed.
    `examine` renders in another way than in a child of its own.
    """
    given = setup or Setup()
    resolution = resolve(
        read, names, given.engine, given.version, explicit=given.explicit, gguf=gguf, transformers=given.transformers,
        tokenizer_mode=given.tokenizer_mode, model=given.model, options=given.options, edition=given.edition,
    )  # fmt: skip
    winner = resolution.winner
    found: list[Reading | Unobserved | Check] = []
    if winner is not None and winner.text is not None:
        tokens = dict(gguf_tokens or {}) or held_tokens(read, names if gguf is None else ())
        found += _studied(resolution, winner, tokens, given, tokenizer_json, by, examine or _examined)
    else:
        found += _identity(resolution, by)
        found += _by_the_engine(winner, given) if winner is not None and given.edition >= 2 else ()
    found += _findings(resolution)
    return Prompt(
        resolution=resolution,
        readings=tuple(each for each in found if isinstance(each, Reading)),
        unobserved=tuple(each for each in found if isinstance(each, Unobserved)),
        checks=tuple(each for each in found if isinstance(each, Check)),
    )


def _identity(resolution: Resolution, by: By) -> Iterator[Reading | Unobserved]:
    winner = resolution.winner
    if resolution.unknown:
        fix = "name the template with the engine's own flag"
        yield Unobserved(("chat_template",), resolution.unknown, fix)
    elif winner is None:
        yield seen("chat_template.sha256", None, "no file holds a chat template for a plain chat", by)
        yield seen("chat_template.source", None, "no file holds a chat template for a plain chat", by)
    else:
        where = f"{winner.source} ({winner.name})" if winner.name and winner.source == CONFIG else winner.source
        where = "the engine's own code" if winner.source.startswith("built in: ") else where
        yield seen("chat_template.source", winner.source, where, by)
        if winner.text is not None:
            yield seen("chat_template.sha256", winner.sha256, where, by)
        else:
            yield Unobserved(("chat_template", "sha256"), "the engine's own code is the template", "pin engine.version")


def _by_the_engine(winner: Candidate, given: Setup) -> Iterator[Reading | Unobserved]:
    """What the server shows of prompts that only its own code writes: nothing is rendered here in its place."""
    name = winner.name or winner.source
    if given.served is not None and given.served.answers and not renderers.reads_clock(name, given.options):
        yield from live.readings(given.served, clock=False)
        return
    what = f"{name} is code of the engine, and only the engine renders with it"
    if renderers.reads_clock(name, given.options):
        what += "; it writes the date of the day"
    yield Unobserved(("prompt_probes",), what, "compare prompt token counts of the running server", due=Stage.LIVE)


def _studied(
    resolution: Resolution, winner: Candidate, special: dict[str, Any] | str, given: Setup, tokenizer_json: str | None, by: By,
    examine: Examine,
) -> Iterator[Reading | Unobserved | Check]:  # fmt: skip
    source = winner.source
    prompts = engines.identity(given.engine).prompts
    library = given.version if prompts.is_library else given.transformers
    applied = rules(library)
    tokens = {} if isinstance(special, str) else special
    analysis, texts = examine(winner.text or "", tokens, given, applied)
    yield from _identity(resolution, by)
    silent = given.edition >= 2 and not prompts.own_renderer and _is_silent(texts)
    if isinstance(special, str):
        texts = (Refused(special, world=True),) * len(texts)
    by_chance = _by_chance(analysis, texts, given.edition)
    if isinstance(analysis, Refused):
        for name in ("context", "content_format"):
            yield Unobserved(("chat_template", name), f"the template cannot be read: {analysis.reason}")
    else:
        yield from _read_of(analysis, given, source, by, by_chance=by_chance)
    yield _clock(analysis, source, given)
    yield _silent(source) if silent else _renders(texts[0], source)
    yield _bos(texts[0], tokens, source)
    clock = None if isinstance(analysis, Refused) else reads_clock(analysis, given.engine) or bool(given.clock)
    if by_chance and given.edition >= 2:
        yield from _of_chance(source, given)
        return
    if given.served is not None:
        yield from live.readings(given.served, clock)
    ids = _Ids(tokenizer_json, given)
    if prompts.own_renderer:
        yield Unobserved(("prompt_probes",), prompts.own_renderer, prompts.compare, due=Stage.LIVE)
    elif resolution.edited:
        yield Unobserved(
            ("prompt_probes",), resolution.edited, "compare prompt token counts of the running server", due=Stage.LIVE
        )
    elif applied is None:
        reason = f"what transformers {library} does to a conversation was not read (newest read: {NEWEST})"
        yield Unobserved(("prompt_probes",), reason, "compare with the running server")
    else:
        yield from _probed(texts, source, ids, by)
    if given.served is not None and applied is not None and not ids.brief:
        answers: Sequence[Sequence[Rendered | Refused]] = [texts]
        if clock and not _stopped(given.served, answers):
            answers = _rendered_at(given.served, winner.text or "", tokens, given, analysis, applied)
        yield _compared(given.served, answers, tokens.get("bos_token"), ids, clock=bool(clock))


def _by_chance(analysis: Analysis | Refused, texts: Sequence[Rendered | Refused], edition: int) -> bool:
    """Whether the texts are others at every rendering: by the syntax, or because a text holds the address of an object."""
    told = isinstance(analysis, Analysis) and analysis.chance
    return told or (edition >= 2 and any(isinstance(each, Rendered) and _ADDRESS.search(each.text) for each in texts))


def _of_chance(source: str, given: Setup) -> Iterator[Unobserved | Check]:
    """Nothing of such a text can be locked, or compared with the server's."""
    reason = f"{source} prints chance: a random choice, or the address of an object; no two renderings are alike"
    fix = "serve a template without random, lipsum() and names of functions in its text"
    yield Unobserved(("prompt_probes",), reason, fix)
    if given.served is not None:
        yield Check("check.prompt_as_served", CheckStatus.UNKNOWN, reason, source, fix)


def _examined(
    template: str, tokens: Mapping[str, Any], given: Setup, applied: Rules | None
) -> tuple[Analysis | Refused, tuple[Rendered | Refused, ...]]:
    """One child for syntax tree and probes, which may be rendered as the tree says."""
    engine = given.engine
    if engine is None or not engines.identity(engine).prompts.content_format or given.content_format:
        requests = _requests(given, given.content_format or "string")
        return study(template, requests, tokens, probes.NOW, applied=applied)
    forms = {form: _requests(given, form) for form in ("string", "openai")}
    return study_as(engine, template, forms, tokens, probes.NOW, applied=applied)


def _rendered_at(
    served: live.Served,
    template: str,
    tokens: Mapping[str, Any],
    given: Setup,
    analysis: Analysis | Refused,
    applied: Rules,
) -> Sequence[Sequence[Rendered | Refused]]:
    """The probes as they are rendered at the moments that the server was asked at, and not at the one that is locked."""
    form = given.content_format or ("string" if isinstance(analysis, Refused) else format_of(analysis, given.engine))
    return renderings_at(template, _requests(given, form), tokens, live.moments(served, given.zone), applied=applied)


def _compared(
    served: live.Served, answers: Sequence[Sequence[Rendered | Refused]], bos: Any, ids: _Ids, *, clock: bool
) -> Check:
    """Whether the server renders as its template does here: nobody knows where not all of it was rendered."""
    stopped = _stopped(served, answers)
    if stopped:
        detail = f"not every conversation was rendered here: {stopped}"
        return Check("check.prompt_as_served", CheckStatus.UNKNOWN, detail)
    rendered = [_named(texts) for texts in answers]
    return live.as_served(served, rendered, bos if isinstance(bos, str) else "", ids, clock=clock)


def _stopped(served: live.Served, answers: Sequence[Sequence[Rendered | Refused]]) -> str:
    """Why a conversation that the server was asked for has no text here, where it is not the template's own refusal."""
    asked = [dict(zip(probes.PROBES, texts, strict=True)) for texts in answers]
    found = (texts[name] for texts in asked for name in served.answers if name in texts)
    return next((each.reason for each in found if isinstance(each, Refused) and (each.bounded or each.world)), "")


def _requests(given: Setup, form: str) -> list[dict[str, Any]]:
    return [_served(each.request, given, form) for each in probes.PROBES.values()]


def _named(texts: Sequence[Rendered | Refused]) -> dict[str, str]:
    pairs = zip(probes.PROBES, texts, strict=True)
    return {name: each.text for name, each in pairs if isinstance(each, Rendered)}


class _Ids:
    """Token ids by the checkpoint's own tokenizer, each text once."""

    def __init__(self, tokenizer_json: str | None, given: Setup) -> None:
        self.path = tokenizer_json
        self._program = given.program
        self.brief = given.brief and given.served is not None and bool(given.served.answers)
        self.source = ""
        self._made: dict[str, tuple[int, ...]] = {}

    def __call__(self, texts: Sequence[str]) -> Sequence[tuple[int, ...]] | Unobserved:
        from lockllm.prompt.tokenizer import available, token_ids

        if self.path is None:
            return Unobserved(("prompt_probes",), "token ids need a tokenizer.json", "add the file to the checkpoint")
        new = [each for each in texts if each not in self._made]
        if new:
            counted = token_ids(self.path, new, program=None if available() else self._program)
            if isinstance(counted, Unobserved):
                return counted
            self.source = counted.source
            self._made.update(zip(new, counted.ids, strict=True))
        return [self._made[each] for each in texts]


def _served(request: Mapping[str, Any], given: Setup, content_format: str) -> dict[str, Any]:
    made = probes.as_served(request, given.engine, content_format)
    if given.arguments:
        made["chat_template_kwargs"] = {**given.arguments, **made.get("chat_template_kwargs", {})}
    return made


def reads_clock(analysis: Analysis, engine: str | None) -> bool:
    """Whether prompts of that engine change with the time."""
    return analysis.clock or any(
        name in analysis.arguments for name in engines.identity(engine).prompts.clock_arguments
    )


def _read_of(analysis: Analysis, given: Setup, source: str, by: By, *, by_chance: bool) -> Iterator[Reading]:
    clock = ("clock",) if reads_clock(analysis, given.engine) else ()
    chance = ("chance",) if by_chance else ()
    names = analysis.arguments if given.edition >= 2 else analysis.arguments_once
    yield seen("chat_template.context", (*clock, *chance, *names), f"syntax of {source}", by)
    if not given.content_format and engines.identity(given.engine).prompts.content_format:
        yield seen("chat_template.content_format", format_of(analysis, given.engine), f"syntax of {source}", By.RULE)


def _probed(texts: Sequence[Rendered | Refused], source: str, ids: _Ids, by: By) -> Iterator[Reading | Unobserved]:
    yield seen(("prompt_probes", "version"), probes.VERSION, "this release of lockllm", by)
    held: dict[str, str] = {}
    for name, answer in zip(probes.PROBES, texts, strict=True):
        if isinstance(answer, Rendered):
            held[name] = answer.text
            yield seen(("prompt_probes", name, "text"), answer.sha256, f"{source}, rendered", by)
        elif answer.bounded or answer.world:
            fix = _OUTSIDE if answer.world else "use a smaller template, or one that comes to an end"
            yield Unobserved(("prompt_probes", name), f"not rendered: {answer.reason}", fix)
        else:
            yield seen(("prompt_probes", name, "text"), None, f"{source} refuses it: {answer.reason}", by)
    if not held or ids.path is None:
        return
    if ids.brief:
        reason, fix = "the server's own token ids are looked at, and none are made here", "look without --quick"
        for name in held:
            for key in ("token_count", "token_ids"):
                yield Unobserved(("prompt_probes", name, key), reason, fix, due=Stage.ALL)
        return
    counted = ids(list(held.values()))
    if isinstance(counted, Unobserved):
        yield counted
        return
    for name, made in zip(held, counted, strict=True):
        yield seen(("prompt_probes", name, "token_count"), len(made), ids.source, by)
        yield seen(("prompt_probes", name, "token_ids"), probes.token_ids_sha256(made), ids.source, by)


def _clock(analysis: Analysis | Refused, source: str, given: Setup) -> Check:
    name = "check.template_reads_clock"
    if isinstance(analysis, Refused):
        return Check(name, CheckStatus.UNKNOWN, f"the template cannot be read: {analysis.reason}", source)
    if reads_clock(analysis, given.engine):
        detail = "the template reads the clock: prompts change at midnight in the server's time zone"
        return Check(name, CheckStatus.FAIL, detail, source, "serve a template with the date written out")
    return Check(name, CheckStatus.PASS, "the template does not read the clock", source)


def _is_silent(texts: Sequence[Rendered | Refused]) -> bool:
    """Whether every conversation gives one and the same text: nothing that anybody says reaches the model."""
    held = {each.text if isinstance(each, Rendered) else None for each in texts}
    return len(texts) > 1 and len(held) == 1 and None not in held


def _silent(source: str) -> Check:
    """What lies there is hardly a template: a chat would be lost in it."""
    detail = f"{source} prints the same text for every conversation"
    return Check(
        "check.template_renders", CheckStatus.FAIL, detail, source, "restore the template, or serve another one"
    )


def _renders(answer: Rendered | Refused, source: str) -> Check:
    name = "check.template_renders"
    if isinstance(answer, Rendered):
        return Check(name, CheckStatus.PASS, "the template renders a plain chat", source)
    status, fix = (CheckStatus.UNKNOWN, _OUTSIDE) if answer.world else (CheckStatus.FAIL, "serve another template")
    return Check(name, status, f"a plain chat is not rendered: {answer.reason}", source, fix)


def _bos(answer: Rendered | Refused, tokens: Mapping[str, Any], source: str) -> Check:
    """Only what the template alone shows: servers that render first add none when they tokenize, llama.cpp takes one off."""
    name = "check.bos_once"
    token = tokens.get("bos_token")
    if isinstance(answer, Refused):
        return Check(name, CheckStatus.UNKNOWN, f"a plain chat is not rendered: {answer.reason}", source)
    if isinstance(token, str) and token and answer.text.startswith(token * 2):
        detail = "the template prints the beginning token twice"
        return Check(name, CheckStatus.FAIL, detail, source, "serve a template that prints it once")
    return Check(name, CheckStatus.PASS, "the template prints at most one beginning token", source)


def _findings(resolution: Resolution) -> Iterator[Check]:
    if not resolution.candidates:
        return
    name = "check.one_template"
    winner = resolution.winner
    differ = resolution.differ if winner else resolution.candidates
    texts = {each.text for each in differ}
    listed = ", ".join(dict.fromkeys(each.source for each in differ))
    if winner is None and (len(texts) > 1 or resolution.unknown or resolution.problems):
        reason = resolution.unknown or "; ".join(resolution.problems) or "none of them is for a plain chat"
        yield Check(name, CheckStatus.FAIL, f"no template is surely in force: {reason}", listed, "leave one template")
    elif winner and winner.text is None and texts:
        detail = f"{winner.source} is in force: the engine does not use {listed}"
        yield Check(name, CheckStatus.FAIL, detail, winner.source, f"ignore {listed} on this engine, or remove it")
    elif winner and texts:
        detail = f"{winner.source} is in force, and another text stands in {listed}"
        yield Check(name, CheckStatus.FAIL, detail, winner.source, "remove the others, or make them equal")
    else:
        odd = "; ".join(resolution.problems)
        yield Check(
            name, CheckStatus.PASS, f"one text is in force{': ' + odd if odd else ''}", winner.source if winner else ""
        )
