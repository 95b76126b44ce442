"""What a llama-server's command line gets wrong: options a build refuses, settings that do not take effect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lockllm.engines.kernel.variables import is_common
from lockllm.engines.llamacpp.options import BY_VARIABLE, FAMILIES, NOISE, TEMPLATES, VARIABLES
from lockllm.engines.llamacpp.sources import Settings, named, truth
from lockllm.facts.env import is_secret
from lockllm.facts.observation import Check, CheckStatus

JINJA_ON, JINJA_OFF = 7400, 7200
"""Jinja is on by default from a build between these two (ramalama's images of b7200 and b7400)."""
FLASH_VALUE, FLASH_SWITCH = 7079, 6000
"""`-fa` needs a value from a build between these two; b7079 resolves `auto`."""
GONE_AFTER = 9873
"""Up to this build the spellings of `options.GONE` are taken; b10809 loads with `load_mode` in their place."""
ONE_IS_AUTO, ONE_MAY_BE_AUTO = range(7079, 7300), range(7300, 7827)
"""Builds that took `-np 1` for the default and started 4 slots with one buffer (issue 17300, fixed by 17997)."""
READ = 11434
"""The oldest build whose whole option table was read: what it lacks, a build from here on refuses."""


def builtin(text: str) -> bool:
    """Whether a template's text is the name of a built-in one."""
    return text in TEMPLATES


def jinja(settings: Settings, build: int | None) -> bool | None:
    """Whether the template is rendered by jinja; None where the build is not known."""
    if (given := named(settings, "jinja")) is not None:
        return bool(given.value)
    if build is None or JINJA_OFF < build < JINJA_ON:
        return None
    return build >= JINJA_ON


def of_command(settings: Settings, build: int | None, version: str | None, env: Mapping[str, str]) -> Iterator[Check]:
    """Findings on a command line, its variables and config files: one of a name, the worst word on it."""
    told = (
        *_accepted(settings, build, version),
        *_template_name(settings, build),
        *_one_slot(settings, build),
        *_variables(settings, env),
    )
    for name in dict.fromkeys(check.name for check in told):
        same = [check for check in told if check.name == name]
        worst = min((check.status for check in same), key=_WORST.index)
        kept = [check for check in same if check.status is worst]
        joined = (
            "; ".join(dict.fromkeys(part)) for part in zip(*((c.detail, c.source, c.fix) for c in kept), strict=True)
        )
        yield Check(name, worst, *joined)


_WORST = (CheckStatus.FAIL, CheckStatus.UNKNOWN, CheckStatus.PASS)


def _variables(settings: Settings, env: Mapping[str, str]) -> Iterator[Check]:
    """Variables that no option reads, and those of llama.cpp's prefixes that this release does not know: names alone."""
    name, where = "check.variables_known", "environment"
    if dead := sorted(set(settings.dead) - NOISE):
        detail = f"{', '.join(dead[:8])}: set, but no option of llama-server reads it"
        yield Check(name, CheckStatus.FAIL, detail, where, "name the variable as `llama-server --help` does")
    known = (*VARIABLES, *NOISE, *BY_VARIABLE)
    strange = sorted(
        each for each in env
        if each.startswith(("GGML_", "LLAMA_")) and not each.startswith(("LLAMA_ARG_", *FAMILIES))
        and each not in known and not is_common(each) and not is_secret(each)
    )  # fmt: skip
    if strange:
        detail = f"{', '.join(strange[:8])}: set, but not classified by this release"
        yield Check(name, CheckStatus.UNKNOWN, detail, where, "see what the variable does in this build")


def warnings(settings: Settings) -> Iterator[str]:
    """What a person should know although nothing is wrong."""
    if named(settings, "model") is None and (repo := named(settings, "hf_repo")) is not None:
        yield f"{repo.source} loads what main holds at each start: download a commit and serve it with -m"
    if named(settings, "models_dir") is not None or named(settings, "models_preset") is not None:
        yield "this is a router without a model of its own: the servers that it starts carry the facts"


def _accepted(settings: Settings, build: int | None, version: str | None) -> Iterator[Check]:
    told = [problem for problem in settings.problems if not problem.text.endswith("config.ini")]
    sure = [problem for problem in told if problem.sure or (build is not None and _refuses(problem.what, build))]
    maybe = [
        problem for problem in told if problem not in sure and not (build is not None and _takes(problem.what, build))
    ]
    if clash := _flash_clash(settings):
        yield Check(
            "check.flags_accepted",
            CheckStatus.FAIL,
            clash,
            "command line",
            "start with -fa on, or without a quantized V cache",
        )
    elif sure:
        detail = "; ".join(problem.what for problem in sure[:6])
        yield Check(
            "check.flags_accepted",
            CheckStatus.FAIL,
            detail,
            "command line",
            "spell the options as `llama-server --help` does",
        )
    elif maybe:
        detail = "; ".join(problem.what for problem in maybe[:6])
        fix = "name the build with --engine-version" if version is None else "see `llama-server --help` of this build"
        yield Check("check.flags_accepted", CheckStatus.UNKNOWN, detail, "command line", fix)
    for problem in settings.problems:
        if problem.text.endswith("config.ini"):
            yield Check(
                "check.settings_take_effect",
                CheckStatus.FAIL,
                problem.what,
                problem.text,
                "give the settings as options",
            )


def _refuses(what: str, build: int) -> bool:
    if "without a value" in what:
        return build >= FLASH_VALUE
    return build >= READ


def _takes(what: str, build: int) -> bool:
    if "without a value" in what:
        return build <= FLASH_SWITCH
    return "is gone from newer builds" in what and build <= GONE_AFTER


def _flash_clash(settings: Settings) -> str:
    """A quantized V cache needs flash attention: `-fa off -ctv q8_0` ends at start (run, 2026-10)."""
    flash, value = named(settings, "flash_attn"), named(settings, "cache_type_v")
    if flash is None or value is None or truth(flash.value) is not False:
        return ""
    kind = str(value.value).lower()
    return (
        f"{value.source} {kind} needs flash attention, and {flash.source} switches it off"
        if kind.startswith(("q", "iq"))
        else ""
    )


def _one_slot(settings: Settings, build: int | None) -> Iterator[Check]:
    slots = named(settings, "parallel")
    if (
        slots is None
        or slots.value != 1
        or build is None
        or build not in range(ONE_IS_AUTO.start, ONE_MAY_BE_AUTO.stop)
    ):
        return
    status = CheckStatus.FAIL if build in ONE_IS_AUTO else CheckStatus.UNKNOWN
    detail = f"{slots.source} 1: b{build} takes 1 for its default, and starts 4 slots with one KV buffer"
    fix = "use a newer build, or see total_slots of GET /props"
    yield Check("check.settings_take_effect", status, detail, slots.source, fix)


def _template_name(settings: Settings, build: int | None) -> Iterator[Check]:
    """With jinja on, the name of a built-in template is the template's text: every prompt is that word (run)."""
    template = named(settings, "chat_template")
    if template is None or not builtin(str(template.value)) or template.value == "chatml":
        return
    on = jinja(settings, build)
    name = str(template.value)
    fix = f"add --no-jinja, or give {name}'s template with --chat-template-file"
    if on:
        detail = f"{template.source}: with jinja on, the name is the template's text, and every prompt is {name}"
        yield Check("check.settings_take_effect", CheckStatus.FAIL, detail, template.source, fix)
    elif on is None:
        detail = f"{template.source} {name}: builds from b{JINJA_ON} on take the name as the template's text"
        yield Check("check.settings_take_effect", CheckStatus.UNKNOWN, detail, template.source, fix)
    else:
        yield Check(
            "check.settings_take_effect",
            CheckStatus.PASS,
            f"{name} is a built-in template, and jinja is off",
            template.source,
        )
