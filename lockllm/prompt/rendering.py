"""Rendering as transformers' `apply_chat_template` does it, with jinja2 alone. Runs only inside the bounded child."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from lockllm.prompt.rules import Rules

if TYPE_CHECKING:
    from jinja2 import Environment, Template, nodes
    from jinja2.parser import Parser

_TAG = "CONTINUE_FINAL_MESSAGE_TAG "
_REASONING = ("reasoning_content", "thinking", "reasoning")
_CONSUMED = frozenset({
    "tokenize", "padding", "truncation", "max_length", "return_tensors", "return_dict", "return_assistant_tokens_mask",
    "tokenizer_kwargs", "sanitize_control_tokens",
})  # fmt: skip
"""Arguments that `apply_chat_template` keeps for itself: a template never sees them."""
_FIXED = ("conversation", "conversations", "messages", "tools", "documents", "chat_template", "add_generation_prompt",
          "continue_final_message", "self")  # fmt: skip


class Refusal(Exception):
    """The conversation cannot be rendered, in transformers' eyes, whatever the template says."""


class Clock:
    """The one time that templates of a run see. Set before each rendering."""

    now = dt.datetime(2000, 1, 1)  # noqa: DTZ001 - transformers hands templates naive local time


def environment(rules: Rules) -> Environment:
    """The environment that chat templates are compiled in: transformers 5.24.0 `utils/chat_template_utils.py`."""
    from jinja2 import nodes
    from jinja2.exceptions import TemplateError
    from jinja2.ext import Extension, LoopControlExtension
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """`{% generation %}` … `{% endgeneration %}`: the body, in the scope of a call block."""

        tags = {"generation"}  # noqa: RUF012 - as jinja2 declares it

        def parse(self, parser: Parser) -> nodes.Node:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return nodes.CallBlock(self.call_method("body"), [], [], body).set_lineno(line)

        def body(self, caller: Callable[[], str]) -> str:
            return caller()

    def raise_exception(message: Any) -> None:
        raise TemplateError(message)

    extensions = [Generation, LoopControlExtension] if rules.clock else [Generation]
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=extensions)
    env.filters["tojson"] = _tojson
    env.globals["raise_exception"] = raise_exception
    if rules.clock:
        env.globals["strftime_now"] = _strftime_now
    if rules.guarded:
        env.globals["dict"] = _Dict()
        env.globals["namespace"] = _guarded_namespace()
    return env


def render(template: Template, source: str, request: Mapping[str, Any], tokens: Mapping[str, Any], rules: Rules) -> str:
    """The text of one conversation. Raises Refusal, or whatever the template raises."""
    messages = _conversation(request.get("messages"), rules)
    variables = {**tokens, **_arguments(request.get("chat_template_kwargs"))}
    wanted = request.get("continue_final_message") or False
    final = ""
    if wanted and rules.clock:
        if request.get("add_generation_prompt"):
            raise Refusal("continue_final_message and add_generation_prompt exclude each other")
        final = _mark(messages, wanted, source, rules)
    text = template.render(
        messages=messages,
        tools=_entries(request.get("tools"), "tools"),
        documents=_entries(request.get("documents"), "documents"),
        add_generation_prompt=request.get("add_generation_prompt", False),
        **variables,
    )
    return _cut(text, final) if wanted and rules.clock else text


def _tojson(
    value: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, sort_keys: bool = False
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _strftime_now(format: str) -> str:  # noqa: A002 - the name is part of what templates may write
    return Clock.now.strftime(format)


class _Dict:
    """What a template finds under `dict`: callable, and nothing to reach for."""

    def __call__(self, *args: Any, **kwargs: Any) -> dict[Any, Any]:
        return dict(*args, **kwargs)

    def fromkeys(self, *args: Any, **kwargs: Any) -> dict[Any, Any]:
        return dict.fromkeys(*args, **kwargs)


def _guarded_namespace() -> type:
    from jinja2.exceptions import SecurityError
    from jinja2.utils import Namespace

    def check(name: Any) -> None:
        if isinstance(name, str) and name.startswith("_"):
            raise SecurityError(f"a namespace cannot hold {name!r}: the name begins with an underscore")

    class Guarded(Namespace):
        """A namespace that takes no name with a leading underscore."""

        def __init__(*args: Any, **kwargs: Any) -> None:
            self, *rest = args
            held = dict(*rest, **kwargs)
            for name in held:
                check(name)
            Namespace.__init__(self, held)

        def __setitem__(self, name: str, value: Any) -> None:
            check(name)
            super().__setitem__(name, value)

    return Guarded


def _kind(value: Any) -> str:
    number = "a number"
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false", int: number, float: number}
    return names.get(type(value), "null")


def _conversation(messages: Any, rules: Rules) -> list[dict[str, Any]]:
    if not isinstance(messages, list):
        raise Refusal(f"messages must be a list of objects, found {_kind(messages)}")
    if not messages:
        raise Refusal("the conversation is empty")
    made = []
    for number, message in enumerate(messages):
        if not isinstance(message, dict):
            raise Refusal(f"messages[{number}] must be an object, found {_kind(message)}")
        kept = {key: value for key, value in message.items() if value is not None or not rules.without_nulls}
        past = next((kept[name] for name in _REASONING if kept.get(name) is not None), None)
        made.append(
            kept if past is None or not rules.reasoning else {"thinking": past, **kept, "reasoning_content": past}
        )
    return made


def _arguments(given: Any) -> dict[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise Refusal(f"chat_template_kwargs must be an object, found {_kind(given)}")
    for name in _FIXED:
        if name in given:
            raise Refusal(f"chat_template_kwargs cannot hold {name}: it is no argument of the template")
    return {name: value for name, value in given.items() if name not in _CONSUMED}


def _entries(given: Any, what: str) -> list[Any] | None:
    if given is None:
        return None
    if not isinstance(given, list):
        raise Refusal(f"{what} must be a list of objects, found {_kind(given)}")
    for number, each in enumerate(given):
        if not isinstance(each, dict):
            raise Refusal(f"{what}[{number}] must be an object, found {_kind(each)}")
    return given


def _mark(messages: list[dict[str, Any]], wanted: Any, source: str, rules: Rules) -> str:
    """Tag the end of the last message, and give the text that ends there."""
    last = messages[-1]
    field = wanted if isinstance(wanted, str) and rules.any_field else "content"
    final = last.get(field)
    if final is None:
        raise Refusal(f"the last message has no {field} to continue")
    fields = [field]
    if rules.reasoning and field in _REASONING:
        fields = [name for name in _REASONING if last.get(name) == final]
    if rules.any_field and not any(name in source for name in fields):
        raise Refusal(f"the template does not read {field}, so the last message cannot be continued")
    if isinstance(final, list):
        return _mark_part(messages, field, final)
    if not isinstance(final, str):
        raise Refusal(f"the {field} of the last message must be a text to be continued, found {_kind(final)}")
    messages[-1] = {**last, **dict.fromkeys(fields, final + _TAG)}
    return final


def _mark_part(messages: list[dict[str, Any]], field: str, parts: list[Any]) -> str:
    for number in range(len(parts) - 1, -1, -1):
        part = parts[number]
        if isinstance(part, dict) and isinstance(part.get("text"), str):
            marked = [*parts[:number], {**part, "text": part["text"] + _TAG}, *parts[number + 1 :]]
            messages[-1] = {**messages[-1], field: marked}
            return str(part["text"])
    raise Refusal(f"the {field} of the last message holds no text to continue")


def _cut(text: str, final: str) -> str:
    bare = _TAG.strip()
    if final.strip() not in text or bare not in text:
        raise Refusal("the template leaves out or changes the last message, so it cannot be continued")
    at = text.rindex(bare)
    return text[:at] if text.startswith(_TAG, at) else text[:at].rstrip()
