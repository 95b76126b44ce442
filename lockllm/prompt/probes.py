"""The fixed conversations. Changing one, or adding one, makes a new version: locks name the version they hold."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from lockllm import engines
from lockllm.engines import Prompts

VERSION = 1
NOW = dt.datetime(2026, 1, 1, 12, 0, 0)  # noqa: DTZ001 - templates are told naive local time
"""The moment that every probe is rendered at: a Thursday."""

_WEATHER = {
    "type": "function",
    "function": {
        "name": "weather_at",
        "description": 'Weather at a place & time, in °C; "now" if no time is given.',
        "parameters": {
            "type": "object",
            "properties": {
                "place": {"type": "string", "description": "a town, e.g. 'São Paulo'"},
                "hours": {"type": "array", "items": {"type": "integer"}, "default": []},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
            },
            "required": ["place"],
        },
    },
}
_NOTE = {
    "type": "function",
    "function": {
        "name": "add_note",
        "description": "Keep a note.",
        "parameters": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    },
}
_CALL = {
    "id": "call00001",
    "type": "function",
    "function": {"name": "weather_at", "arguments": '{"place": "Zürich", "hours": [6, 18], "unit": "celsius"}'},
}


def _user(text: Any) -> dict[str, Any]:
    return {"role": "user", "content": text}


def _assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def _system(text: str) -> dict[str, Any]:
    return {"role": "system", "content": text}


class Probe(msgspec.Struct, frozen=True):
    """One conversation: the body of a chat completion as a client sends it, and what it is there to show."""

    request: Mapping[str, Any]
    shows: str


def _probe(shows: str, *messages: dict[str, Any], prompt: bool = True, **rest: Any) -> Probe:
    return Probe({"messages": list(messages), "add_generation_prompt": prompt, **rest}, shows)


_ROUND = (
    _user("How warm is it in Zürich at 6 and at 18?"),
    {"role": "assistant", "content": "", "tool_calls": [_CALL]},
    {"role": "tool", "tool_call_id": "call00001", "name": "weather_at", "content": '{"6": 3.5, "18": 11}'},
)
_TURNS = (
    _system("You are terse."), _user("Hello"), _assistant("Hello. What can I do?"), _user("Count to 3."),
    _assistant("1 2 3"), _user("And backwards?"),
)  # fmt: skip
_BLANKS = (_user("  a\tb  \n\n    c\r\nd\n \n"), _assistant("\n x \n"), _user(" "))
_SCRIPTS = (
    "Na\u00efve caf\u00e9, e\u0301, Stra\u00dfe, \u6771\u4eac, \u05e2\u05d1\u05e8\u05d9\u05ea, "
    "\u0639\u0631\u0628\u0649, \u0939\u093f\u0928\u094d\u0926\u0940, \U0001f469\u200d\U0001f469\u200d\U0001f467 "
    "\U0001f5fc, \u2460\u00bd, "
    "\u200b\u00a0\ufeff."
)
_CODE = "0123456789 1,000.50 -7e10\n```py\nif a<b and c>d: x = {'k': \"v\"} & y\n```\n<b>&amp;</b>"
_CONTROL = "<|im_start|>system\n<|im_end|></s>[INST] <s> <|eot_id|> {{ x }} {% y %}"
_REASONED = {**_assistant("4"), "reasoning": "Two and two make four.", "reasoning_content": "Two and two make four."}
_PARTS = [{"type": "text", "text": "First."}, {"type": "text", "text": "Second."}]
_OFF = {"enable_thinking": False, "thinking": False}

PROBES: Mapping[str, Probe] = {
    "user": _probe("one plain turn, and the default system text", _user("Name three primes.")),
    "system": _probe("a system text", _system("Answer in one word."), _user("Which is larger, 9.11 or 9.9?")),
    "turns": _probe("earlier turns", *_TURNS),
    "finished": _probe("no generation prompt", _user("Say yes."), _assistant("Yes."), prompt=False),
    "whitespace": _probe("blanks, tabs and line ends", *_BLANKS),
    "characters": _probe("accents, scripts, joined emoji", _user(_SCRIPTS)),
    "code": _probe("digits, code and HTML", _user(_CODE)),
    "control": _probe("text that looks like control tokens", _user(_CONTROL)),
    "tools": _probe("tool definitions", _system("Use tools."), _user("Weather in Paris?"), tools=[_WEATHER, _NOTE]),
    "tool_result": _probe("a call and its result", *_ROUND, tools=[_WEATHER]),
    "reasoning": _probe("past reasoning", _user("2+2?"), _REASONED, _user("3+3?")),
    "thinking_off": _probe("the switch for thinking", _user("2+2?"), chat_template_kwargs=_OFF),
    "parts": _probe("content in parts", _user(_PARTS)),
}
"""Name of a probe -> the conversation, in the order of the lock."""


def as_served(request: Mapping[str, Any], engine: str | None, content_format: str) -> dict[str, Any]:
    """The request as servers that render with transformers hand it to the template.

    Arguments of a call become an object. Content in parts becomes one text where the format is `string`, joined as the
    engine joins it; where it is `openai` some make a list of every content but a tool's, others keep what they got.
    """
    prompts = engines.identity(engine).prompts
    return {**request, "messages": [_message(each, prompts, content_format) for each in request["messages"]]}


def token_ids_sha256(ids: Sequence[int]) -> str:
    """The digest of a list of token ids: over the decimal numbers, joined by commas."""
    return hashlib.sha256(",".join(map(str, ids)).encode()).hexdigest()


def _message(message: Mapping[str, Any], prompts: Prompts, content_format: str) -> dict[str, Any]:
    made = dict(message)
    content = made.get("content")
    wrapped = prompts.wraps and content_format == "openai" and made.get("role") != "tool"
    if isinstance(content, str) and wrapped:
        made["content"] = [{"type": "text", "text": content}]
    elif isinstance(content, list) and content_format == "string":
        made["content"] = prompts.joint.join(_texts(content))
    calls = made.get("tool_calls")
    if isinstance(calls, list):
        made["tool_calls"] = [_call(each) for each in calls]
    return made


def _texts(parts: Iterable[Any]) -> list[str]:
    return [part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str)]


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = dict(call["function"])
    if isinstance(function.get("arguments"), str):
        function["arguments"] = json.loads(function["arguments"])
    return {**call, "function": function}
