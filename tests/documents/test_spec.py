"""llm.toml: what a person may write, what each key becomes, and the one error that tells every problem."""

from __future__ import annotations

from typing import Any

import pytest

from lockllm import engines
from lockllm.documents import spec as specs
from lockllm.documents.spec import MOST_VARIANTS, Spec
from lockllm.errors import SpecError
from lockllm.facts import keys
from lockllm.facts.fact import Policy

BASE = '[checkpoint]\npath = "m"\n[engine]\nname = "vllm"\n'


def read(text: str = "", base: str = BASE) -> Spec:
    return specs.read(base + text, engines=engines)


def problems(text: str, base: str = BASE) -> list[tuple[str, str, str]]:
    """What is wrong, where and what to do, of every problem."""
    with pytest.raises(SpecError) as caught:
        read(text, base)
    first = caught.value
    return [(each.what, each.where, each.fix) for each in (first, *first.also)]


def value(spec: Spec, key: str) -> Any:
    return spec.values.get(keys.parse(key))


def test_a_repository_has_a_revision_and_a_path_has_none() -> None:
    made = read(
        base='[checkpoint]\nrepo = "org/model"\nrevision = "v1"\n[engine]\nname = "vllm"\nversion = ">=0.10,<0.11"\n'
    )
    assert (made.repo, made.revision, made.path) == ("org/model", "v1", None)
    assert (made.engine, made.engine_version) == ("vllm", ">=0.10,<0.11")
    assert ("engine", "version") in made.requires
    assert read().path == "m"
    named = '[checkpoint]\npath = "m"\nrevision = "v1"\n[engine]\nname = "vllm"\n'
    assert problems("", named) == [("a path has no revision", "llm.toml, line 3", "remove it, or name a repo")]
    both = '[checkpoint]\nrepo = "org/model"\npath = "m"\n[engine]\nname = "vllm"\n'
    assert problems("", both)[0][0] == "checkpoint names a repo and a path"
    odd = '[checkpoint]\nrepo = "org/model/more"\n[engine]\nname = "vllm"\n'
    assert problems("", odd) == [("'org/model/more' is not a repository", "llm.toml, line 2", 'write "OWNER/NAME"')]


@pytest.mark.parametrize(
    ("text", "key", "expected"),
    [
        ('[serve]\ndtype = "bf16"\n', "serve.dtype", "bfloat16"), ("[serve]\nmax_num_seqs = 8\n", "serve.max_num_seqs", 8),
        ('[serve.args]\nmax_logprobs = 5\n', "serve.args.max_logprobs", 5),
        ('[serve.args]\nhf_overrides.rope_theta = 10\n', "serve.args.hf_overrides.rope_theta", 10),
        ('[serve.chat_template_kwargs]\nenable_thinking = false\n', "serve.chat_template_kwargs.enable_thinking", False),
        ('[host]\ngpu = "L40S"\n', "host.gpu", "L40S"), ("[sampling]\ntop_p = 0.5\n", "sampling.top_p", 0.5),
        ('[env]\nNCCL_ALGO = "Ring"\n', "env.NCCL_ALGO", "Ring"), ('[packages]\ntorch = "2.8.0"\n', "packages.torch", "2.8.0"),
        ('[adapters.sql]\nscale = 0.5\n', "adapters.sql.scale", 0.5),
    ],
)  # fmt: skip
def test_a_fact_is_parsed_by_its_own_type(text: str, key: str, expected: Any) -> None:
    made = read(text)
    assert value(made, key) == expected
    assert list(made.values) == [keys.parse(key)]


def test_auto_is_left_to_the_engine_and_a_range_is_required() -> None:
    made = read('[serve]\ndtype = "auto"\n[host]\ndriver = ">=550, <560"\n[packages]\ntorch = ">=2.8"\n')
    assert made.auto == {("serve", "dtype")}
    assert made.requires == {("host", "driver"): ">=550, <560", ("packages", "torch"): ">=2.8"}
    assert made.values == {}


@pytest.mark.parametrize("base", ["tokenizer", "draft", "adapters.sql"])
def test_a_model_beside_the_checkpoint_is_a_repository_or_a_path(base: str) -> None:
    assert read(f'[{base}]\npath = "there"\n').paths == {tuple(base.split(".")): "there"}
    assert value(read(f'[{base}]\nrepo = "org/other"\n'), f"{base}.repo") == "org/other"
    ((what, where, fix),) = problems(f'[{base}]\nrepo = "org/other"\npath = "there"\n')
    assert (what, where, fix) == (f"{base} names a repo and a path", "llm.toml, line 7", "keep one of them")
    assert problems(f"[{base}]\npath = 3\n")[0][0] == f"{base}.path must be a text, found 3"


def test_settings_globs_policies_and_waivers_are_read() -> None:
    made = read(
        '[policy]\n"host.driver" = "report"\n"packages.*" = "compatible"\n"check.bos_once" = "ignore"\n'
        '[[waive]]\nfact = "host.gpu"\nfound = "Tesla T4"\nreason = "spare"\nuntil = 2027-01-31\n',
        'env_open = ["NCCL_*"]\n[checkpoint]\npath = "m"\ninclude = ["*.json"]\nexclude = ["old/"]\n[engine]\nname = "vllm"\n',
    )
    assert made.policy == {
        "host.driver": Policy.REPORT,
        "packages.*": Policy.COMPATIBLE,
        "check.bos_once": Policy.IGNORE,
    }
    assert [(each.fact, each.found, each.until) for each in made.waive] == [("host.gpu", "Tesla T4", "2027-01-31")]
    assert (made.env_open, made.include, made.exclude) == (("NCCL_*",), ("*.json",), ("old/",))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[serv]\nx = 1\n", ("there is no table serv", "llm.toml, line 5", "did you mean [serve]?")),
        ("[zzzzzz]\nx = 1\n", ("there is no table zzzzzz", "llm.toml, line 5", "remove it")),
        ("[serve]\nmax_num_seq = 8\n", (
            "there is no fact serve.max_num_seq", "llm.toml, line 6",
            "did you mean serve.max_num_seqs? An option of the engine without a neutral name goes under [serve.args]",
        )),
        ("[host]\ngpus = 1\n", ("there is no fact host.gpus", "llm.toml, line 6", "did you mean host.gpu?")),
        ('[chat_template]\nsha256 = "a"\n', (
            "chat_template.sha256 is determined by lockllm, not set", "llm.toml, line 6", "remove it; `lockllm lock` fills it",
        )),
        ('[serve]\nmax_num_seqs = "two"\n', (
            'serve.max_num_seqs must be a whole number, found "two"', "llm.toml, line 6",
            "write it without quotes: max_num_seqs = 2",
        )),
        ('[serve]\nenforce_eager = "true"\n', (
            'serve.enforce_eager must be true or false, found "true"', "llm.toml, line 6", "write it without quotes: enforce_eager = true",
        )),
        ("[serve]\ntensor_parallel_size = 0\n", (
            "serve.tensor_parallel_size is 0, which cannot be", "llm.toml, line 6", "write a number from 1 to 1,000,000,000",
        )),
        ("[sampling]\ntop_p = 1.5\n", ("sampling.top_p is 1.5, which cannot be", "llm.toml, line 6", "write a number from 0 to 1")),
        ('[host]\ngpu = "A100"\n', None), ('[host]\ndriver = ">=new"\n', (
            "host.driver is not a range: '>=new'", "llm.toml, line 6", 'write one such as ">=550.54.14"',
        )),
        ('[policy]\n"host.drivr" = "report"\n', ("policy host.drivr names no fact", "llm.toml, line 6", "did you mean host.driver?")),
        ('[policy]\n"serve.dtype" = "compatible"\n', (
            "policy compatible is not defined for serve.dtype: dtype", "llm.toml, line 6", "write exact, report or ignore",
        )),
        ('[policy]\n"check.bos_twice" = "report"\n', (
            "there is no check check.bos_twice", "llm.toml, line 6", "did you mean check.bos_once?",
        )),
        ('[policy]\n"check.bos_once" = "compatible"\n', (
            "policy compatible is not defined for check.bos_once: a finding", "llm.toml, line 6", "write exact, report or ignore",
        )),
        ('[policy]\n"host.driver" = "maybe"\n', (
            "policy host.driver is 'maybe'", "llm.toml, line 6", "write one of exact, compatible, report, ignore",
        )),
        ('[[waive]]\nfact = "host.gup"\nfound = 1\nreason = "x"\n', None),
        ("serve = 3\n", None), ('[variant."a b".host]\ngpu_count = 2\n', None),
    ],
)  # fmt: skip
def test_each_problem_has_its_place_and_a_fix(text: str, problem: tuple[str, str, str] | None) -> None:
    found = problems(text)
    assert len(found) == 1
    assert problem is None or found == [problem]
    assert all(found[0])


def test_every_problem_is_told_at_once_in_the_order_of_lines() -> None:
    text = '[serve]\nmax_num_seqs = "two"\nenforce_eager = 3\n[host]\nnothing = 1\n[policy]\n"x.y" = "report"\n'
    assert [where for _, where, _ in problems(text)] == [f"llm.toml, line {line}" for line in (6, 7, 9, 11)]


@pytest.mark.parametrize(
    ("text", "what", "fix"),
    [
        ("", "the file is empty", "write one with `lockllm init PATH`"),
        ('[engine]\nname = "vllm"\n', "the spec names no checkpoint",
         'write [checkpoint] and repo = "OWNER/NAME" or path = "DIR"'),
        ('[checkpoint]\npath = "m"\n', "the spec names no engine", None),
        ('[checkpoint]\npath = "m"\n[engine]\nname = "vlm"\n', "there is no engine 'vlm'", "did you mean vllm?"),
        ('[checkpoint]\npath = "m"\n[engine]\nname = "vllm"\nversion = "newest"\n', "engine.version is 'newest'",
         'write a range such as ">=0.10,<0.11" or one version'),
    ],
)  # fmt: skip
def test_a_spec_names_a_checkpoint_and_an_engine(text: str, what: str, fix: str | None) -> None:
    ((found, _, told),) = problems("", text)
    assert found == what
    assert told == fix or (fix is None and all(name in told for name in engines.available()))


def test_without_a_list_of_engines_any_name_is_taken() -> None:
    assert specs.read(BASE.replace("vllm", "made-up")).engine == "made-up"


def test_a_variant_is_the_spec_with_its_own_tables_over_it() -> None:
    made = read(
        '[serve]\nmax_num_seqs = 8\ndtype = "float16"\n[variant.small.serve]\nmax_num_seqs = 2\n[variant.big.host]\ngpu_count = 4\n'
    )
    assert {name: value(each, "serve.max_num_seqs") for name, each in made.variants.items()} == {"small": 2, "big": 8}
    assert {name: value(each, "host.gpu_count") for name, each in made.variants.items()} == {"small": None, "big": 4}
    assert all(value(each, "serve.dtype") == "float16" and each.path == "m" for each in made.variants.values())
    ((what, where, _),) = problems("[variant.small.serve]\nmax_num_seqs = -1\n")
    assert (what.split(":")[0], where) == ("variant small", "llm.toml, line 6")
    many = "".join(f"[variant.v{number}]\n" for number in range(MOST_VARIANTS + 1))
    assert problems(many)[0][0] == f"there are {MOST_VARIANTS + 1} variants, at most {MOST_VARIANTS} are read"


def test_a_spec_may_stand_in_a_table_of_another_file() -> None:
    tables = {"project": 'name = "x"', "tool.lockllm.checkpoint": 'path = "m"', "tool.lockllm.engine": 'name = "vllm"',
              "tool.lockllm.serve": "seed = 3"}  # fmt: skip
    text = "".join(f"[{name}]\n{line}\n" for name, line in tables.items())
    made = specs.read(text, "pyproject.toml", table=("tool", "lockllm"))
    assert (made.path, made.engine, value(made, "serve.seed")) == ("m", "vllm", 3)
    assert made.where("serve.seed") == "pyproject.toml, line 8"
    assert made.where("serve.dtype") == "pyproject.toml"
    with pytest.raises(SpecError, match=r"there is no \[tool.lockllm\]"):
        specs.read("[project]\n", "pyproject.toml", table=("tool", "lockllm"))
