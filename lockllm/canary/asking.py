"""Asking a server: which form of each probe it answers, one run under one condition, and a baseline's worth of runs.

OpenAI's chat and text completions, with the fields that vLLM, SGLang, llama.cpp, Ollama, and TGI add to them.
"""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec

from lockllm.canary import probes
from lockllm.canary.answers import Answer, rounded
from lockllm.canary.baseline import Endpoint
from lockllm.canary.probes import Probe
from lockllm.canary.statistics import Run
from lockllm.errors import WorldError
from lockllm.observe.web import http_answer
from lockllm.observe.web.http import Address
from lockllm.observe.web.http_answer import Broken, Late, Raw

_TOP = 12  # tokens at the first position that a baseline keeps
_ASKED_TOP = (20, 5, 0)  # what is tried for chats: vLLM's and OpenAI's limit, TGI's limit, none
_ASKED_RAW = (20, 5, 0)
_MOST_WAIT = 30.0  # seconds for one Retry-After
_TRIES = 4
_MOST_UNANSWERED = 3  # of one run
_BUSY = (429, 500, 502, 503, 504)
_NO_REFUSAL = (401, 403, 408)  # they say nothing about the model
_CHAT, _TEXT = "/v1/chat/completions", "/v1/completions"


class Condition(msgspec.Struct, frozen=True, kw_only=True):
    """What goes on at the server while a run is asked."""

    name: str
    at_once: int = 1  # requests of the run in flight together
    neighbors: int = 0  # other conversations that generate meanwhile
    cold: bool = False  # leave the prefix cache out, where a request can


CONDITIONS = (
    Condition(name="alone, cold cache", cold=True),
    Condition(name="alone"),
    Condition(name="4 at once", at_once=4),
    Condition(name="8 at once", at_once=8),
    Condition(name="16 at once", at_once=16),
    Condition(name="1 neighbor", neighbors=1),
    Condition(name="3 neighbors", neighbors=3),
    Condition(name="after load"),
)
"""The conditions of a baseline, in turn: noise differs between them far more than within one."""

ROUND_CONDITIONS = (
    CONDITIONS[1],
    CONDITIONS[0],
    CONDITIONS[2],
    CONDITIONS[1],
)
"""Those of a check: it makes no load beyond its own requests."""


class Client:
    """A server, and how it is asked. Threads may share it."""

    def __init__(self, server: Address, headers: Mapping[str, str], *, seconds: float, model: str = "") -> None:
        self._server, self._headers, self._seconds = server, dict(headers), seconds
        self.endpoint = Endpoint(model=model)
        self.trouble = ""  # why the last request without an answer had none
        self._lock = threading.Lock()
        self._fingerprints: set[str] = set()

    # what the server can

    def measure(self) -> None:
        """Find out the model's name, the context length, and which fields the server takes. WorldError where it does not answer."""
        listed = self._get("/v1/models")
        first = next((each for each in _list(listed, "data") if isinstance(each, dict)), {})
        context = next(
            (n for n in (first.get("max_model_len"), self._slot_context()) if isinstance(n, int) and n > 0), 0
        )
        self.endpoint = Endpoint(model=self.endpoint.model or str(first.get("id") or "default"), context=context)
        chat = Probe(name="chat", group="chat", messages=(("user", "Hello"),))
        text = Probe(name="raw", group="raw", prompt="Hello")
        top = next((n for n in _ASKED_TOP if self._takes(chat, chat_logprobs=n)), None)
        if top is None:
            raise WorldError(
                f"{self._server.url}{_CHAT} takes no chat", where="--server", fix="name a server of OpenAI's interface"
            )
        self._learn(chat_logprobs=top)
        for prompt_logprobs, raw in ((True, 0), *((False, n) for n in _ASKED_RAW)):
            if self._takes(text, completions=True, prompt_logprobs=prompt_logprobs, raw_logprobs=raw):
                self._learn(completions=True, prompt_logprobs=prompt_logprobs, raw_logprobs=raw)
                break
        if context and self.endpoint.completions:
            eight = self.ask(Probe(name="long", group="long", prompt=probes.long_prompt(8)))
            if eight is not None and eight.prompt_tokens:
                self._learn(sentences=probes.fitting_sentences(context, eight.prompt_tokens))
        if self._takes(chat, cold=True):
            self._learn(cold=True)
        sampled = Probe(
            name="s", group="sampled", messages=(("user", "Tell me a very short story."),), max_tokens=8, seed=7
        )
        texts = [answer.text for answer in (self.ask(sampled), self.ask(sampled)) if answer is not None]
        self._learn(seeds=len(texts) == 2 and texts[0] == texts[1])

    def finished(self) -> Endpoint:
        """The endpoint with what its answers told meanwhile."""
        return msgspec.structs.replace(self.endpoint, fingerprints=tuple(sorted(self._fingerprints)))

    # asking

    def ask(self, probe: Probe, *, cold: bool = False) -> Answer | None:
        """The answer to one probe, with a few tries where the server is busy; None where none came."""
        return self._answer(probe, self.endpoint, cold=cold)

    def run(self, every: Sequence[Probe], condition: Condition, done: Callable[[], None] = lambda: None) -> Run:
        """One run: every probe once, in order, under a condition. After a few without an answer the rest is not asked."""
        cold = condition.cold and self.endpoint.cold
        unanswered = 0

        def one(probe: Probe) -> tuple[str, Answer | None]:
            nonlocal unanswered
            answer = self.ask(probe, cold=cold) if unanswered < _MOST_UNANSWERED else None
            unanswered += answer is None
            done()
            return probe.name, answer

        # a prompt that fills the context has no room beside others in a cache that all slots share (llama.cpp then answers 500)
        together = [probe for probe in every if probe.group != "long"]
        with self._neighbors(condition.neighbors), ThreadPoolExecutor(condition.at_once) as pool:
            answers = list(pool.map(one, together))
        answers += [one(probe) for probe in every if probe.group == "long"]
        return {name: answer for name, answer in answers if answer is not None}

    # below

    @contextlib.contextmanager
    def _neighbors(self, count: int) -> Iterator[None]:
        stop = threading.Event()
        busy = Probe(
            name="neighbor",
            group="chat",
            messages=(("user", "Write a long story about a journey."),),
            max_tokens=48,
            seed=1,
        )

        def chatter() -> None:
            while not stop.is_set():
                if self._answer(busy, Endpoint(model=self.endpoint.model)) is None:
                    stop.wait(0.2)

        threads = [threading.Thread(target=chatter, daemon=True) for _ in range(count)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            stop.set()
            for thread in threads:
                thread.join(self._seconds)

    def _takes(self, probe: Probe, **fields: Any) -> bool:
        endpoint = msgspec.structs.replace(self.endpoint, **fields)
        answer = self._answer(probe, endpoint, cold=bool(fields.get("cold")))
        if answer is None or answer.status:
            return False
        if fields.get("prompt_logprobs"):
            return bool(answer.prompt)
        return not (fields.get("chat_logprobs") or fields.get("raw_logprobs")) or bool(answer.first)

    def _learn(self, **fields: Any) -> None:
        self.endpoint = msgspec.structs.replace(self.endpoint, **fields)

    def _slot_context(self) -> int | None:
        """llama.cpp's context of one slot, of /props."""
        props = self._get("/props")
        settings = props.get("default_generation_settings") if isinstance(props, dict) else None
        found = settings.get("n_ctx") if isinstance(settings, dict) else None
        return found if isinstance(found, int) else None

    def _answer(self, probe: Probe, endpoint: Endpoint, *, cold: bool = False) -> Answer | None:
        body = request(probe, endpoint, cold=cold)
        path = _CHAT if probe.chat else _TEXT
        raw = self._exchange("POST", path, msgspec.json.encode(body))
        if raw is None:
            return None
        if raw.status != 200:
            if 400 <= raw.status < 500 and raw.status not in _NO_REFUSAL:
                return Answer(status=raw.status)
            self.trouble = f"{path} answers {raw.status}"
            return None
        try:
            decoded = msgspec.json.decode(raw.body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None
        if isinstance(decoded, dict) and isinstance(each := decoded.get("system_fingerprint"), str):
            with self._lock:
                if len(self._fingerprints) < 16:
                    self._fingerprints.add(each[:100])
        return parse(decoded, probe)

    def _get(self, path: str) -> Any:
        raw = self._exchange("GET", path, None, tries=1)
        if raw is None or raw.status != 200:
            return {}
        try:
            return msgspec.json.decode(raw.body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return {}

    def _exchange(self, method: str, path: str, body: bytes | None, *, tries: int = _TRIES) -> Raw | None:
        import http.client

        server = self._server
        headers = {"Accept": "application/json", "User-Agent": "lockllm", **self._headers}
        if body is not None:
            headers["Content-Type"] = "application/json"
        origin = (server.scheme, server.host, server.port)
        pause = 0.5
        for attempt in range(tries):
            try:
                raw = http_answer.exchange(
                    origin, method, server.root + path, body, headers, time.monotonic() + self._seconds
                )
            except (OSError, http.client.HTTPException, Broken, Late, UnicodeError) as error:
                raw = None
                self.trouble = f"{path}: {_why(error)}"
            if raw is not None:
                if raw.status not in _BUSY:
                    return raw
                self.trouble = f"{path} answers {raw.status}"
            if attempt + 1 < tries:
                time.sleep(min(_MOST_WAIT, _retry_after(raw) or pause))
                pause *= 2
        return None


def request(probe: Probe, endpoint: Endpoint, *, cold: bool = False) -> dict[str, Any]:
    """The body of a request for a probe. Sampling fields are sent only where the probe is not about the server's own."""
    body: dict[str, Any] = {"model": endpoint.model, "max_tokens": probe.max_tokens}
    if probe.group == "sampled":
        body["seed"] = probe.seed
    else:
        body["temperature"] = 0
    if probe.chat:
        body["messages"] = [{"role": role, "content": content} for role, content in probe.messages]
        if probe.group == "chat" and endpoint.chat_logprobs:
            body |= {"logprobs": True, "top_logprobs": endpoint.chat_logprobs}
    else:
        body["prompt"] = probe.prompt
        if endpoint.prompt_logprobs and probe.group == "raw":
            body["prompt_logprobs"] = 0
        elif endpoint.raw_logprobs:
            body["logprobs"] = endpoint.raw_logprobs
    if cold:
        body |= {"cache_prompt": False, "cache_salt": uuid.uuid4().hex}  # llama.cpp's field and vLLM's
    return body


def parse(body: Any, probe: Probe) -> Answer | None:
    """What an answer says; None where it is none."""
    choice = next((each for each in _list(body, "choices") if isinstance(each, dict)), None)
    if choice is None:
        return None
    message = choice.get("message")
    text = message.get("content") if isinstance(message, dict) else choice.get("text")
    usage = body.get("usage")
    tokens = usage.get("prompt_tokens") if isinstance(usage, dict) else None
    logits = probe.group in ("raw", "chat", "long")
    return Answer(
        prompt_tokens=tokens if isinstance(tokens, int) else None,
        text=str(text or "")[:200] if probe.group != "count" else "",
        finish=str(choice.get("finish_reason") or "")[:40] if probe.group == "sampled" else "",
        first=_first(choice.get("logprobs")) if logits else {},
        prompt=_prompt(choice.get("prompt_logprobs", body.get("prompt_logprobs"))) if probe.group == "raw" else (),
    )


def _first(logprobs: Any) -> dict[str, float]:
    """Token -> log probability at the first position, in either form of OpenAI's interface."""
    if not isinstance(logprobs, dict):
        return {}
    pairs: list[tuple[Any, Any]] = []
    if content := _list(logprobs, "content"):
        top = content[0].get("top_logprobs") if isinstance(content[0], dict) else None
        pairs = [(each.get("token"), each.get("logprob")) for each in top or () if isinstance(each, dict)]
    elif (older := _list(logprobs, "top_logprobs")) and isinstance(older[0], dict):
        pairs = list(older[0].items())
    found: dict[str, float] = {}
    for token, number in pairs:
        if isinstance(token, str) and isinstance(number, (int, float)) and number == number:
            found[token[:60]] = max(found.get(token[:60], -1e9), float(number))
    best = sorted(found, key=lambda token: (-found[token], token))[:_TOP]
    return {token: rounded(found[token]) for token in best}


def _prompt(positions: Any) -> tuple[float, ...]:
    """The log probability of each token of the prompt but the first, of vLLM's `prompt_logprobs`: the prompt's own token leads."""
    if not isinstance(positions, list):
        return ()
    numbers = []
    for position in positions[1:]:
        first = next(iter(position.values()), None) if isinstance(position, dict) else None
        number = first.get("logprob") if isinstance(first, dict) else None
        if not isinstance(number, (int, float)):
            return ()
        numbers.append(rounded(float(number)))
    return tuple(numbers)


def _why(error: Exception) -> str:
    if isinstance(error, (TimeoutError, Late)):
        return "no complete answer in time"
    if isinstance(error, ConnectionRefusedError):
        return "nothing listens on this address"
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__)[:200]


def _retry_after(raw: Raw | None) -> float | None:
    try:
        seconds = float((raw.headers if raw else {}).get("retry-after", ""))
    except ValueError:
        return None
    return seconds if seconds >= 0 else None


def _list(body: Any, key: str) -> list[Any]:
    found = body.get(key) if isinstance(body, dict) else None
    return found if isinstance(found, list) else []


def record(
    client: Client, runs: int, progress: Callable[[int, int], None] = lambda done, total: None
) -> list[tuple[str, Run]]:
    """As many runs, each under the next condition. WorldError where an answer is missing: a baseline is whole or none."""
    every = chosen(client.endpoint)
    total, done = runs * len(every), 0
    lock = threading.Lock()

    def step() -> None:
        nonlocal done
        with lock:
            done += 1
            progress(done, total)

    made = []
    for at in range(runs):
        condition = CONDITIONS[at % len(CONDITIONS)]
        run = client.run(every, condition, step)
        if len(run) < len(every):
            what = f"{len(every) - len(run)} of {len(every)} requests of run {at + 1} had no answer"
            fix = "see the server's log, or allow a longer --timeout; nothing was written"
            raise WorldError(f"{what} ({client.trouble})", where=condition.name, fix=fix)
        made.append((condition.name, run))
    return made


def chosen(endpoint: Endpoint, groups: Collection[str] = probes.GROUPS) -> tuple[Probe, ...]:
    """The probes that an endpoint can answer."""
    every = probes.of_groups(probes.probes(endpoint.sentences), groups)
    return tuple(probe for probe in every if probe.chat or endpoint.completions)
