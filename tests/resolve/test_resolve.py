"""What a spec becomes, by a small world: which release, which commit, which files, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lockllm.documents import spec as specs
from lockllm.documents.lock import Lock
from lockllm.documents.spec import Spec
from lockllm.engines import Given, Installed
from lockllm.errors import ResolveError, SpecError
from lockllm.facts import keys
from lockllm.facts.observation import By, Check, CheckStatus, Observation, Unobserved
from lockllm.facts.registry import seen
from lockllm.resolve import Asked, Options, Place, resolve
from lockllm.resolve.completeness import findings
from lockllm.resolve.plan import planned
from lockllm.resolve.remote.releases import Release

FILE = {"size": 663, "sha256": "5" * 64}
FILES = {
    'checkpoint.files."config.json"': FILE,
    "checkpoint.dtype": "bfloat16",
    "checkpoint.architecture": "LlamaForCausalLM",
}
FIRST, SECOND = "a" * 40, "b" * 40


class World:
    """A machine on which everything that `resolve` asks is as a test says; `asked` notes what was asked of the Hub."""

    is_serving_host = False

    def __init__(self, *, installed: str | None = None, releases: tuple[str, ...] = (), commits: Mapping[str, str] = {},
                 files: Mapping[str, Any] = FILES, **seen_there: Any) -> None:  # fmt: skip
        self._installed, self._releases, self._commits, self._files = installed, releases, commits, files
        self._seen = seen_there
        self.asked: list[tuple[str, str | None]] = []
        self.given: Given | None = None

    def installed(self, engine: str) -> str | None:
        return self._installed

    def options(self, engine: str, version: str) -> Installed | None:
        return None

    def newest(self, engine: str, fits: Callable[[str], bool]) -> Release | None:
        found = next((each for each in self._releases if fits(each)), None)
        return Release(distribution=engine, version=found) if found is not None else None

    def requirements(self, release: Release) -> dict[str, str]:
        return {"torch": "2.8.0"}

    def place(self, spec: Spec, commit: str | None, version: str) -> Place:
        if spec.repo is None:
            return Place(path="/models/m")
        if commit is not None:
            return Place(path="/cache/m", commit=commit)
        found, via = self.commit(Asked(repo=spec.repo, revision=spec.revision, where="here"))
        return Place(path="/cache/m", commit=found, commit_via=via)

    def commit(self, asked: Asked) -> tuple[str, str]:
        self.asked.append((asked.repo, asked.revision))
        return self._commits[asked.repo], f"Hub: {asked.revision or 'main'}"

    def look(self, spec: Spec, place: Place, version: str, given: Given) -> Observation:
        self.given = given
        here = {"engine.version": self._installed} if self._installed else {}
        return Observation(
            readings=(
                *(seen(keys.parse(key), value, "config.json: key", By.FILE) for key, value in self._files.items()),
                *(seen(keys.parse(key), value, "vllm", By.PACKAGE) for key, value in here.items()),
            ),
            **self._seen,
        )


def spec(text: str = "", version: str = 'version = "0.10.2"', source: str = 'path = "m"') -> Spec:
    return specs.read(f'[checkpoint]\n{source}\n[engine]\nname = "vllm"\n{version}\n{text}')


def made(
    asked: Spec, world: World, old: Lock | None = None, observation: Observation | None = None, **options: Any
) -> Lock:
    return resolve(asked, old, world, Options(**options), observation).lock


def version(lock: Lock) -> tuple[str, str]:
    return lock.get("engine.version"), lock.via.get(("engine", "version"), "")


RANGE = 'version = ">=0.10,<0.11"'
HOST = Observation(
    readings=(seen("engine.name", "vllm", "", By.ENDPOINT), seen("engine.version", "0.10.1", "", By.ENDPOINT))
)


@pytest.mark.parametrize(
    ("asked", "old", "observation", "installed", "options", "expected"),
    [
        ('version = "0.10.2"', None, None, "0.10.1", {}, ("0.10.2", "llm.toml")),
        (RANGE, None, HOST, "0.10.2", {}, ("0.10.1", "observation")),
        (RANGE, "0.10.0", None, "0.10.2", {}, ("0.10.0", "kept")),
        (RANGE, "0.10.0", None, "0.10.2", {"upgrade": True}, ("0.10.2", "serving environment")),
        (RANGE, "0.10.0", None, "0.10.2", {"upgrade_facts": ("engine.version",)}, ("0.10.2", "serving environment")),
        (RANGE, "0.9.2", None, "0.10.2", {}, ("0.10.2", "serving environment")),
        (RANGE, None, None, "0.11.0", {}, ("0.10.1", "package index")), (RANGE, None, None, None, {}, ("0.10.1", "package index")),
        ("", None, None, None, {}, ("0.12.0", "package index")),
    ],
    ids=["spec", "host", "kept", "upgrade", "upgrade of the fact", "kept is outside", "installed is outside", "index", "any"],
)  # fmt: skip
def test_the_release_is_the_specs_the_hosts_the_kept_the_installed_or_the_newest(
    asked: str, old: str | None, observation: Any, installed: str | None, options: Any, expected: tuple[str, str]
) -> None:
    before = None
    if old is not None:
        held = {("engine", "name"): "vllm", ("engine", "version"): old}
        before = Lock(values=held, via={("engine", "version"): "kept"}, edition=2)
    world = World(installed=installed, releases=("0.12.0", "0.10.1", "0.10.0"))
    assert version(made(spec(version=asked), world, before, observation, **options)) == expected


def test_a_release_of_the_index_brings_what_its_wheel_requires() -> None:
    lock = made(spec(version=RANGE), World(releases=("0.10.1",)))
    assert lock.get("packages.torch") == "2.8.0"  # type: ignore[arg-type]
    installed = made(spec(version=RANGE), World(installed="0.10.1", releases=("0.10.1",)))
    assert ("packages", "torch") not in installed.values


def test_a_host_that_runs_another_release_than_the_spec_asks_for_is_refused() -> None:
    with pytest.raises(SpecError) as caught:
        made(spec(version='version = ">=0.11"'), World(), None, HOST)
    assert caught.value.what == "the host runs vllm 0.10.1, llm.toml asks for >=0.11"
    assert caught.value.where == "llm.toml, line 5"


def test_a_release_that_nobody_has_is_an_error_that_says_what_is_there() -> None:
    with pytest.raises(ResolveError) as caught:
        made(spec(version='version = ">=0.99"'), World(installed="0.10.2", releases=("0.10.2",)))
    assert caught.value.what == "no release of vllm in >=0.99; vllm 0.10.2 is installed"
    with pytest.raises(ResolveError, match="no release of vllm can be found"):
        made(spec(version=""), World())


REPO = 'repo = "org/model"\nrevision = "main"'


def test_a_commit_stays_until_the_spec_or_an_upgrade_asks_for_another() -> None:
    world = World(commits={"org/model": FIRST})
    first = made(spec(source=REPO), world)
    assert (first.get("checkpoint.commit"), first.via[("checkpoint", "commit")]) == (FIRST, "Hub: main")
    moved = World(commits={"org/model": SECOND})
    assert made(spec(source=REPO), moved, first).get("checkpoint.commit") == FIRST
    assert moved.asked == []
    for options in ({"upgrade": True}, {"upgrade_facts": ("checkpoint.commit",)}, {"upgrade_facts": ("checkpoint",)}):
        assert made(spec(source=REPO), moved, first, **options).get("checkpoint.commit") == SECOND
    for other in (REPO.replace("main", "v2"), REPO + '\ninclude = ["*.json"]', REPO + '\nexclude = ["x"]'):
        assert made(spec(source=other), moved, first).get("checkpoint.commit") == SECOND


def test_a_lock_of_another_engine_is_no_old_lock() -> None:
    world = World(commits={"org/model": FIRST})
    first = made(spec(source=REPO), world)
    other = msgspec.structs.replace(first, values={**first.values, ("engine", "name"): "sglang"})
    assert made(spec(source=REPO), World(commits={"org/model": SECOND}), other).get("checkpoint.commit") == SECOND


@pytest.mark.parametrize("base", ["tokenizer", "draft", "adapters.sql"])
def test_a_repository_beside_the_checkpoint_has_a_commit_of_its_own(base: str) -> None:
    world = World(commits={"org/other": FIRST})
    made(spec(f'[{base}]\nrepo = "org/other"\n'), world)
    assert world.given is not None
    models = [world.given.tokenizer, world.given.draft, *world.given.adapters.values()]
    assert [(each.text, each.revision) for each in models if each is not None and each.revision] == [
        ("org/other", FIRST)
    ]
    assert world.asked == [("org/other", None)]
    held = Lock(
        values={
            ("engine", "name"): "vllm",
            (*base.split("."), "repo"): "org/other",
            (*base.split("."), "commit"): SECOND,
        }
    )
    kept = World(commits={})
    made(spec(f'[{base}]\nrepo = "org/other"\n'), kept, held)
    assert kept.asked == []
    made(spec(f'[{base}]\nrepo = "org/other"\n'), world, held, upgrade_facts=(f"{base}.commit",))
    assert world.asked == [("org/other", None)] * 2


def test_the_revision_of_a_tokenizer_is_what_the_engines_option_says() -> None:
    world = World(commits={"org/other": FIRST})
    made(spec('[tokenizer]\nrepo = "org/other"\n[serve.args]\ntokenizer_revision = "v2"\n'), world)
    assert world.asked == [("org/other", "v2")]


def test_code_of_another_repository_is_pinned_to_its_commit() -> None:
    files = {**FILES, "checkpoint.code_repo": "org/code"}
    world = World(commits={"org/code": FIRST}, files=files)
    first = made(spec(), world)
    assert first.get("checkpoint.code_commit") == FIRST
    later = World(commits={"org/code": SECOND}, files=files)
    assert made(spec(), later, first).get("checkpoint.code_commit") == FIRST
    assert made(spec(), later, first, upgrade=True).get("checkpoint.code_commit") == SECOND


def test_a_model_beside_that_is_not_there_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SpecError) as caught:
        made(spec('[draft]\npath = "small"\n'), World())
    assert (caught.value.what, caught.value.where) == ("draft.path names small, which is not there", "llm.toml, line 7")
    (tmp_path / "small").mkdir()
    world = World()
    made(spec('[draft]\npath = "small"\n'), world)
    assert world.given is not None
    assert world.given.draft is not None
    assert world.given.draft.text.endswith("small")


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tgi", "lmdeploy", "transformers"])
def test_a_seed_that_only_a_request_may_send_is_refused(engine: str) -> None:
    text = f'[checkpoint]\npath = "m"\n[engine]\nname = "{engine}"\nversion = "1.0"\n[sampling]\nseed = 3\n'
    with pytest.raises(SpecError) as caught:
        made(specs.read(text), World())
    assert caught.value.what == f"{engine} cannot hold sampling.seed"
    assert caught.value.fix == "set serve.seed, and send `seed` with each request"


BROKEN = (
    "files_complete",
    "links_resolve",
    "no_pointer_files",
    "weights_readable",
    "regular_files",
    "files_stable",
    "files_listed",
)


@pytest.mark.parametrize("name", BROKEN)
def test_a_checkpoint_that_is_not_whole_is_refused(name: str) -> None:
    check = Check(f"check.{name}", CheckStatus.FAIL, "/models/m/x.bin is odd", "", "get it again")
    with pytest.raises(SpecError) as caught:
        made(spec(), World(checks=(check,)))
    assert (caught.value.what, caught.value.fix) == ("m is not a complete checkpoint: m/x.bin is odd", "get it again")
    passing = msgspec.structs.replace(check, status=CheckStatus.PASS)
    assert made(spec(), World(checks=(passing,))).get("checkpoint.dtype") == "bfloat16"


def test_another_finding_of_the_files_is_a_warning() -> None:
    check = Check("check.one_weight_set", CheckStatus.FAIL, "/models/m/x.bin and /models/m/y.bin")
    notes = resolve(spec(), None, World(checks=(check,)), Options()).notes
    assert "check.one_weight_set fails: x.bin and y.bin" in notes
    assert list(findings(Place(), Observation(checks=(check,)))) == [f"check.one_weight_set fails: {check.detail}"]


def test_a_place_without_a_checkpoint_is_refused_with_its_reason() -> None:
    with pytest.raises(SpecError, match="m holds no file of a checkpoint"):
        made(spec(), World(files={}))
    gap = Unobserved(("checkpoint",), "/models/m cannot be opened")
    with pytest.raises(SpecError) as caught:
        made(spec(), World(files={}, unobserved=(gap,)))
    assert (caught.value.what, caught.value.where) == ("m cannot be opened", "llm.toml, line 2")
    unread = Unobserved(("checkpoint", "files", "x.bin"), "cannot be read", "make it readable")
    with pytest.raises(SpecError) as caught:
        made(spec(), World(unobserved=(unread,)))
    assert (caught.value.what, caught.value.fix) == (
        "m is not a complete checkpoint: 'x.bin' cannot be read",
        "make it readable",
    )


@pytest.mark.parametrize(
    ("count", "words"), [(1, "1 file that was not read is"), (2, "2 files that were not read are")]
)
def test_digests_that_the_cache_claims_are_said_to_be_claims(count: int, words: str) -> None:
    class Claims(World):
        def look(self, spec: Spec, place: Place, version: str, given: Given) -> Observation:
            looked = super().look(spec, place, version, given)
            claims = tuple(
                seen(("checkpoint", "files", f"{number}.bin"), FILE, "cache", By.FILE, "claimed")
                for number in range(count)
            )
            return msgspec.structs.replace(looked, readings=(*looked.readings, *claims))

    notes = resolve(spec(), None, Claims(), Options()).notes
    assert f"the digest of {words} claimed by the cache: `lockllm verify` computes it" in notes


def test_the_plan_of_a_spec_is_what_an_engine_reads_of_a_command() -> None:
    text = '[serve]\ndtype = "float16"\nseed = "auto"\n[sampling]\ntop_p = 0.5\n[host]\ngpu_count = 2\n[draft]\nrepo = "org/small"\n'
    plan = planned(spec(text))
    assert {each.fact.key: each.value for each in plan.readings} == {
        "serve.dtype": "float16", "sampling.top_p": 0.5, "draft.repo": "org/small",
    }  # fmt: skip
    assert (plan.engine, plan.auto) == ("vllm", {("serve", "seed")})
    assert plan.draft is not None
    assert plan.draft.text == "org/small"
    taken = planned(
        spec(text), [seen("serve.dtype", "bfloat16", "", By.PROCESS), seen("sampling.top_p", None, "", By.PROCESS)]
    )
    assert {each.fact.key: each.value for each in taken.readings}["serve.dtype"] == "bfloat16"
    assert "sampling.top_p" not in {each.fact.key for each in taken.readings}
