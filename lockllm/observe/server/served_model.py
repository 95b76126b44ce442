"""Compares the model that a server says it serves with the one that its command names and whose files lockllm reads."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

from lockllm import engines
from lockllm.checkpoint import Look, stamps
from lockllm.engines import Given, Model
from lockllm.engines.shown import served
from lockllm.engines.shown.served import DEFAULT_VERSION, Named, Served
from lockllm.facts.observation import By, Check, CheckStatus
from lockllm.facts.registry import seen
from lockllm.observe.collector import Collector
from lockllm.observe.process import proc
from lockllm.observe.request import Request
from lockllm.observe.server.endpoints import Replies
from lockllm.observe.server.locate import Target

NAME = "check.served_model"
_VERSION = ("checkpoint", "weight_version")
_LOADED = "at run time"
_RESTART = "restart the server, so that it serves what its command names"
_OF_MODEL = ("checkpoint", "quantization")
_FROM_FILES = (*_OF_MODEL, "tokenizer", "chat_template", "prompt_probes", "sampling")
_SLACK = 0.02
"""Seconds: the start of a process is counted in hundredths of one."""
_SNAPSHOT = re.compile(r"(?:^|/)models--([\w.-]+?--[\w.-]+?)/snapshots/")


def look(collector: Collector, request: Request, target: Target, replies: Replies | None) -> None:
    """Add what the server says otherwise: a failed check, adapters that no command names, another version of weights.

    Where another model is served than the command names, the files that were looked at are not the served ones.
    """
    if replies is None or replies.engine is None:
        return
    told = served.read(replies.engine, replies.answers)
    given = target.plan.given if target.plan is not None and target.server is not None else None
    if given is None:
        _from_afar(collector, request, told)
        return
    _adapters(collector, target, given, told)
    _version(collector, request, target, told)
    problems = [*_models(target, given, told), *_names(target, given, told), *_versions(target, told)]
    if problems:
        collector.hide_files(_OF_MODEL, "the server says it serves other weights than these files", _RESTART)
    problems += _unloaded(given, told)
    if problems:
        where = proc.owned(target.server.process) if target.server is not None else replies.address.url
        collector.checks.append(Check(NAME, CheckStatus.FAIL, "; ".join(problems), where, _RESTART))


def branch(collector: Collector, target: Target, main: Look | None) -> None:
    """A branch of the Hub's cache that moved since the server started: it serves what the branch named then.

    Engines resolve the branch once, when they start. A server that is online may have moved the branch itself, with the
    snapshot that it downloaded.
    """
    given = target.plan.given if target.plan is not None else None
    if given is None or given.model is None or main is None or main.layout.kind != "snapshot":
        return
    ref = given.model.revision or "main"
    snapshots, commit = os.path.split(main.layout.root)
    if main.layout.repo != given.model.text or (len(ref) > 6 and commit.startswith(ref.lower())):
        return
    what = "the server" if target.server is not None else "the command"
    collector.warnings.append(
        f"{what} follows {ref} of {given.model.text}: a restart may serve another commit; name the commit in it: {commit}"
    )
    if target.server is None:
        return
    process = target.server.process
    began = proc.started_at(process, proc.program_tick(process))
    try:
        moved = os.stat(os.path.join(os.path.dirname(snapshots), "refs", ref)).st_ctime
        others = sorted(set(os.listdir(snapshots)) - {commit})
    except OSError:
        return
    born = stamps.born_ns(main.layout.root)
    own = target.env.get("HF_HUB_OFFLINE", "0") in ("", "0") and began is not None and (born or 0) / 1e9 > began
    if began is None or moved <= began + _SLACK or not others or own:
        return
    reason = f"{ref} of {given.model.text} moved to commit {commit[:12]} after the server started, which serves the earlier one"
    collector.hide_files(_FROM_FILES, reason, _RESTART)
    fix = f"restart the server with --revision {commit[:12]}..., or with the commit that is locked"
    where = proc.owned(process)
    collector.checks.append(
        Check("check.server_current", CheckStatus.FAIL, f"{reason}, and a restart would serve the new one", where, fix)
    )


def _from_afar(collector: Collector, request: Request, told: Served) -> None:
    """What is known where no command shows: the version of the weights, and adapters that the lock does not name."""
    for each in _odd(told.versions, DEFAULT_VERSION):
        collector.readings.append(seen(_VERSION, each.text, each.source, By.ENDPOINT))
    for name, each in told.adapters.items():
        if name not in request.adapters:
            _loaded(collector, name, each)


def _version(collector: Collector, request: Request, target: Target, told: Served) -> None:
    """The weight version, where the lock has one or where it is no longer the version of the start."""
    typed = _typed_version(target)
    for each in told.versions:
        if request.weight_version or each.text != typed:
            collector.readings.append(seen(_VERSION, each.text, each.source, By.ENDPOINT))


def _adapters(collector: Collector, target: Target, given: Given, told: Served) -> None:
    for name, each in told.adapters.items():
        model = given.adapters.get(name)
        if model is None or (each.text and not _same(target, model, each.text)):
            _loaded(collector, name, each)

    if told.lists_all and not any(_names(target, given, told)):
        for each in told.ids:
            if each.text not in given.adapters and not _names_model(target, given, told, each.text):
                _loaded(collector, each.text, each)


def _names_model(target: Target, given: Given, told: Served, text: str) -> bool:
    """Whether a name that requests use is that of the model which the command names."""
    if given.called or given.model is None:
        return given.model is None or text in given.called
    model = given.model
    if text in (f"{model.text}@{model.revision}", f"{model.text}:{model.file}", model.file):
        return True
    return _same(target, model, text) or (told.shortened and text == os.path.basename(model.text.rstrip("/")))


def _names(target: Target, given: Given, told: Served) -> Iterator[str]:
    """The model must be among the names that the server lists."""
    if told.ids and not any(_names_model(target, given, told, each.text) for each in told.ids):
        called = given.called[0] if given.called else given.model.text if given.model is not None else ""
        yield f"the server lists {told.ids[0].text} ({told.ids[0].source}), but its command names {called}"


def _loaded(collector: Collector, name: str, each: Named) -> None:
    where = f"{each.source} {each.text}" if each.text else each.source
    collector.readings.append(seen(("adapters", name, "loaded"), _LOADED, where, By.ENDPOINT))


def _models(target: Target, given: Given, told: Served) -> Iterator[str]:
    if given.model is None:
        return
    odd = [each for each in told.models if not _same(target, given.model, each.text)]
    if odd:
        yield f"the server says it serves {odd[0].text} ({odd[0].source}), but its command names {given.model.text}"


def _versions(target: Target, told: Served) -> Iterator[str]:
    typed = _typed_version(target)
    for each in _odd(told.versions, typed)[:1]:
        yield f"its weights were replaced since it started: weight_version is {each.text} now, and was {typed} ({each.source})"


def _unloaded(given: Given, told: Served) -> Iterator[str]:
    if told.lists_all:
        gone = sorted(given.adapters.keys() - told.adapters.keys() - {each.text for each in told.ids})
        if gone:
            yield f"the server lists no adapter {', '.join(gone)}, which its command loads"


def _odd(versions: Sequence[Named], usual: str) -> list[Named]:
    return [each for each in versions if each.text != usual]


def _typed_version(target: Target) -> str:
    """The version that the command line gives the weights: a label, and no setting."""
    words = target.plan.form.args if target.plan is not None and target.plan.form is not None else ()
    found = DEFAULT_VERSION
    for at, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name.replace("_", "-") == "--weight-version":
            found = value if equals else words[at + 1] if at + 1 < len(words) else found
    return found


def _same(target: Target, model: Model, text: str) -> bool:
    """Whether two texts name one model: alike as typed, one folder, or a repository and its folder in a cache.

    An address of a store (`s3://...`) is loaded through a folder that only the server knows.
    """
    typed = model.text
    if text.rstrip("/") == typed.rstrip("/") or "://" in typed:
        return True
    if model.file is not None and (text == f"{typed}:{model.file}" or text.endswith("/" + model.file)):
        return True
    if (snapshot := _SNAPSHOT.search(text)) is not None and typed.count("/") == 1 and typed[0] not in "./~":
        if not os.path.exists(target.path(typed)):
            return snapshot[1].replace("--", "/", 1).lower() == typed.lower()
    elif engines.identity(target.engine_name).shows_download and not os.path.exists(target.path(typed)):
        return True  # an address, or a repository in its own cache: it shows the place of the download
    if not typed.startswith(("/", ".", "~")) and text.rstrip("/").endswith("/" + typed):
        return not os.path.exists(target.path(typed)) or _one(target, typed, text)
    return _one(target, typed, text)


def _one(target: Target, typed: str, text: str) -> bool:
    one, other = (target.place(each) for each in (typed, text))
    try:
        return one is not None and other is not None and os.path.samefile(one, other)
    except OSError:
        return False
