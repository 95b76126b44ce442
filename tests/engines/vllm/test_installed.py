"""vLLM of a release that no table has: its options are those of its own source."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lockllm.engines import Context, Form, Given, Installed
from lockllm.engines.kernel.argparse import Take
from lockllm.engines.kernel.values import Kind
from lockllm.engines.vllm import engine, installed_options, options
from lockllm.facts.observation import By, CheckStatus, Reading, Unobserved
from tests.engines.future import VERSION, VLLM


def read(files: Mapping[str, str] = VLLM) -> Installed:
    told = engine.installed(VERSION, files)
    assert isinstance(told, Installed)
    return told


def given(*words: str, files: Mapping[str, str] = VLLM) -> Given:
    form = Form(engine="vllm", args=("org/m", *words), program=("vllm", "serve"))
    return engine.given(form, {}, {}, VERSION, False, read(files))


def values(told: Given) -> dict[str, Any]:
    return {reading.fact.key: reading.value for reading in told.readings}


def check(told: Given) -> tuple[CheckStatus, str]:
    found = next(each for each in told.checks if each.name == "check.flags_accepted")
    return found.status, found.detail


class Nothing(dict[str, str]):
    """Files that nobody may ask for."""

    def get(self, *_: Any) -> Any:
        raise AssertionError("a release of the tables needs no source")


@pytest.mark.parametrize("version", ["0.10.2", "0.33.0", "0.8.5.post1", "0.33.0rc1"])
def test_a_release_of_the_tables_reads_no_source(version: str) -> None:
    assert engine.installed(version, Nothing()) is None


@pytest.mark.parametrize("version", ["0.34.0", "0.15.1", "0.5.5", "0.33.0.dev12", "0.33.1rc1"])
def test_any_other_version_is_read_from_its_source(version: str) -> None:
    told = engine.installed(version, VLLM)
    assert told is not None
    assert told.version == version


def test_every_option_has_the_shape_that_its_source_gives_it() -> None:
    told = read()
    table = {option.name: option for option in told.table.options} if told.table else {}
    shapes = {name: (option.take, option.kind) for name, option in table.items()}
    assert (told.doubts, told.problem, told.source) == ((), "", "vllm/entrypoints/cli/serve.py")
    assert shapes == {
        "headless": (Take.SWITCH, Kind.TEXT), "config": (Take.ONE, Kind.TEXT), "chat_template": (Take.ONE, Kind.TEXT),
        "middleware": (Take.APPEND, Kind.TEXT), "api_key": (Take.MANY, Kind.TEXT), "host": (Take.ONE, Kind.TEXT),
        "port": (Take.ONE, Kind.INT), "model": (Take.ONE, Kind.TEXT), "dtype": (Take.ONE, Kind.TEXT),
        "seed": (Take.ONE, Kind.INT), "max_model_len": (Take.ONE, Kind.HUMAN_AUTO),
        "trust_remote_code": (Take.BOTH, Kind.TEXT), "enforce_eager": (Take.BOTH, Kind.TEXT),
        "generation_config": (Take.ONE, Kind.TEXT), "hf_overrides": (Take.ONE, Kind.JSON),
        "load_format": (Take.ONE, Kind.TEXT), "tensor_parallel_size": (Take.ONE, Kind.INT),
        "pipeline_parallel_size": (Take.ONE, Kind.INT), "weave_order": (Take.ONE, Kind.TEXT),
        "weave_ranks": (Take.MANY, Kind.INT), "gpu_memory_utilization": (Take.ONE, Kind.NUMBER),
        "kv_cache_dtype": (Take.ONE, Kind.TEXT), "enable_prefix_caching": (Take.BOTH, Kind.TEXT),
        "max_num_batched_tokens": (Take.ONE, Kind.HUMAN), "max_num_seqs": (Take.ONE, Kind.INT),
        "tail_words": (Take.ONE, Kind.JSON), "braid_config": (Take.ONE, Kind.JSON), "plain_note": (Take.ONE, Kind.TEXT),
    }  # fmt: skip
    assert table["weave_order"].flags == ("--weave-order", "-wo")
    assert table["enable_prefix_caching"].off == ("--no-enable-prefix-caching", "--disable-prefix-caching")
    assert told.choices["dtype"] == {"auto", "bfloat16", "float16", "float4"}
    assert told.choices["kv_cache_dtype"] == {"auto", "fp8", "fp4"}


def test_constant_defaults_name_the_file_that_states_them() -> None:
    told = {name: (default.value, default.source) for name, default in read().defaults.items()}
    assert told["gpu_memory_utilization"] == (0.87, "vllm/config/cache.py: gpu_memory_utilization")
    assert told["load_format"] == ("auto", "vllm/config/model.py: load_format")
    assert told["plain_note"] == ("calm", "vllm/engine/arg_utils.py: --plain-note")
    assert told["enable_prefix_caching"][0] is None
    assert not {"hf_overrides", "middleware", "tail_words"} & set(told)


def test_a_new_option_parses_by_the_grammar_of_the_engine() -> None:
    told = given(
        "--weave_order=over", "--weave-ranks", "2", "3", "--braid-config.width", "4", "-tp", "2", "--disable-prefix-caching",
        "--max-model-len", "32k", "--tail-w", '["a"]',
    )  # fmt: skip
    assert check(told) == (CheckStatus.PASS, f"vLLM {VERSION} takes every option")
    assert {key: value for key, value in values(told).items() if key != "engine.name"} == {
        "serve.args.weave_order": "over", "serve.args.weave_ranks": (2, 3), "serve.args.braid_config.width": 4,
        "serve.tensor_parallel_size": 2, "serve.enable_prefix_caching": False, "serve.max_model_len": 32000,
        "serve.args.tail_words": ("a",),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "detail"),
    [
        (("--swap-space", "4"), "--swap-space: no such option in this release"),
        (("--weave-order", "sideways"), "--weave-order: 'sideways' is none of over, under"),
        (("--weave", "over"), "--weave: it may be --weave-order, --weave-ranks"),
        (("--weave-ranks", "two"), "--weave-ranks: its value is not a whole number"),
    ],
)
def test_what_its_own_parser_has_not_is_refused_for_sure(words: tuple[str, ...], detail: str) -> None:
    status, said = check(given(*words))
    assert status is CheckStatus.FAIL
    assert detail in said


def effective(told: Given | None, installed: Installed | None, **more: Any) -> dict[str, Reading | Unobserved]:
    context = Context(version=VERSION, installed=installed, **more)
    return {
        ".".join(each.path if isinstance(each, Unobserved) else each.fact.path): each
        for each in engine.effective(told, context)
    }


def test_a_constant_default_is_told_and_what_a_rule_makes_is_not() -> None:
    found = effective(given("--seed", "7"), read())
    told = {key: (each.value, each.by, each.source) for key, each in found.items() if isinstance(each, Reading)}
    assert told == {
        "serve.tensor_parallel_size": (1, By.DEFAULT, "vllm/config/parallel.py: tensor_parallel_size"),
        "serve.pipeline_parallel_size": (1, By.DEFAULT, "vllm/config/parallel.py: pipeline_parallel_size"),
        "serve.load_format": ("auto", By.DEFAULT, "vllm/config/model.py: load_format"),
        "serve.trust_remote_code": (False, By.DEFAULT, "vllm/config/model.py: trust_remote_code"),
        "serve.enforce_eager": (False, By.DEFAULT, "vllm/config/model.py: enforce_eager"),
        "serve.gpu_memory_share": (0.87, By.DEFAULT, "vllm/config/cache.py: gpu_memory_utilization"),
        "serve.generation_config": ("auto", By.DEFAULT, "vllm/config/model.py: generation_config"),
    }
    for key in ("serve.dtype", "serve.max_num_seqs", "serve.enable_prefix_caching", "serve.kv_cache_dtype", "sampling"):
        gap = found[key]
        assert isinstance(gap, Unobserved)
        assert "newest whose rules were read" in gap.reason
    gone = found["serve.data_parallel_size"]
    assert isinstance(gone, Unobserved)
    assert gone.reason == f"vLLM {VERSION} has no --data-parallel-size, and its rules were not read"


def test_a_default_that_is_resolved_at_start_is_not_told() -> None:
    model = VLLM["vllm/config/model.py"].replace("seed: int = 0", "seed: int | None = None")
    gap = effective(None, read({**VLLM, "vllm/config/model.py": model}))["serve.seed"]
    assert isinstance(gap, Unobserved)
    assert gap.reason == f"vllm/config/model.py: seed is None: what comes of it only a rule of vLLM {VERSION} tells"


@pytest.mark.parametrize("value", ["'two'", "True", "1.5"])
def test_a_default_that_is_no_value_of_its_fact_is_not_told(value: str) -> None:
    path, before = "vllm/config/parallel.py", "tensor_parallel_size: int = 1"
    changed = VLLM[path].replace(before, f"tensor_parallel_size: int = {value}")
    gap = effective(None, read({**VLLM, path: changed}))["serve.tensor_parallel_size"]
    assert isinstance(gap, Unobserved)
    assert gap.reason == f"{path}: tensor_parallel_size is {value}: no value of serve.tensor_parallel_size"


def test_without_the_source_a_newer_release_tells_nothing() -> None:
    assert all(isinstance(each, Unobserved) for each in effective(None, None).values())


BROKEN = {
    "no text": {},
    "no Python": {**VLLM, "vllm/entrypoints/cli/serve.py": "def (", "vllm/entrypoints/common/cli_args.py": "class"},
    "another shape": {**VLLM, "vllm/entrypoints/common/cli_args.py": "from rust import make_arg_parser\n"},
    "a loop of imports": {
        **VLLM,
        "vllm/entrypoints/common/cli_args.py": "from vllm.entrypoints.cli.serve import make_arg_parser\n",
    },
    "a call without end": {
        **VLLM,
        "vllm/entrypoints/common/cli_args.py": "def make_arg_parser(parser):\n    return make_arg_parser(parser)\n",
    },
    "too deep to parse": {**VLLM, "vllm/entrypoints/common/cli_args.py": "(" * 5000},
    "too much to follow": {
        **VLLM,
        "vllm/entrypoints/common/cli_args.py": "def make_arg_parser(parser):\n"
        + "".join(f"{'    ' * at}for x{at} in [{'1, ' * 90}]:\n" for at in range(1, 5))
        + "                    parser.x()\n",
    },
    "a long function asked again and again": {
        **VLLM,
        "vllm/engine/arg_utils.py": VLLM["vllm/engine/arg_utils.py"]
        .replace("    found = {}\n", "    found = {}\n" + "    f\n" * 20_000)
        .replace("        load = get", "        get_kwargs(LoadConfig)\n" * 500 + "        load = get"),
    },
    "a list that doubles": {
        **VLLM,
        "vllm/entrypoints/common/cli_args.py": "def make_arg_parser(parser):\n    x = [1]\n"
        "    for _ in [" + "1, " * 90 + "]:\n        x = [*x, *x]\n        x.extend(x)\n",
    },
}


@pytest.mark.parametrize("files", BROKEN.values(), ids=list(BROKEN))
def test_a_source_of_no_known_shape_leaves_the_newest_table(files: Mapping[str, str]) -> None:
    told = read(files)
    assert told.table is None
    assert VERSION in told.problem
    said = given("--swap-space", "4", files=files)
    assert check(said)[0] is CheckStatus.UNKNOWN
    assert f"{told.problem}; its command line is read by the options of vLLM 0.33.0" in said.warnings


OPEN = {
    "a loop over what only a run tells": "    for name in plugins():\n        parser.add_argument(name)\n",
    "a name that is made at start": "    parser.add_argument(make_name())\n",
    "a call that fills it elsewhere": "    parser = fill_more(parser)\n",
    "a type that cannot be read": "    parser.add_argument('--odd', **unknown())\n",
}


@pytest.mark.parametrize("more", OPEN.values(), ids=list(OPEN))
def test_where_more_options_may_be_nothing_is_refused_for_sure(more: str) -> None:
    text = VLLM["vllm/entrypoints/common/cli_args.py"]
    head, rest = text.split("    parser = Frontend.add_cli_args(parser)\n")
    files = {
        **VLLM,
        "vllm/entrypoints/common/cli_args.py": f"{head}    parser = Frontend.add_cli_args(parser)\n{more}{rest}",
    }
    told = read(files)
    assert told.table is not None
    assert len(told.doubts) == 1
    found = next(each for each in given("--swap-space", "4", files=files).checks if each.name == "check.flags_accepted")
    assert found.source == f"vLLM {VERSION}: vllm/entrypoints/cli/serve.py ({told.doubts[0]})"
    assert check(given("--swap-space", "4", files=files))[0] is CheckStatus.UNKNOWN
    assert values(given("--weave-order", "over", files=files))["serve.args.weave_order"] == "over"


def added(*options: str) -> Installed:
    """Vllm with more options of its own."""
    path = "vllm/entrypoints/common/cli_args.py"
    head = '    parser.add_argument("--headless"'
    more = "".join(f"    parser.add_argument({each})\n" for each in options)
    return read({**VLLM, path: VLLM[path].replace(head, more + head)})


@pytest.mark.parametrize("dest", ["a\\n::error::b", "\\x1b[31m", "\\ud800", "", "a" * 200])
def test_an_option_that_sets_no_plain_name_goes_by_its_flag(dest: str) -> None:
    told = added(f'"--odd-one", dest="{dest}"')
    assert told.table is not None
    assert told.table.flags["--odd-one"][0].name == "odd_one"


@pytest.mark.parametrize(
    "value", ["1e999", "2**63", "b'x'", "'a\\x1b'", "'\\ud800'", "'\\u202e'", "'a' 'b\\n'", "f()", "[1]"]
)
def test_what_cannot_stand_in_a_lock_is_no_default_and_no_choice(value: str) -> None:
    told = added(f'"--odd", default={value}', f'"--few", choices=[{value}, "a"]')
    assert "odd" not in told.defaults
    assert "few" not in told.choices
    assert told.doubts == ()


def test_an_option_that_unsets_what_another_sets_stays_apart() -> None:
    told = added('"--odd", action="store_true"', '"--un-odd", dest="odd", action="store_false"')
    assert told.table is not None
    assert [told.table.flags[flag][0].bare for flag in ("--odd", "--un-odd")] == [True, False]
    assert told.defaults["odd"].value is False


def test_a_name_that_no_option_has_is_no_option() -> None:
    told = added('"--odd\\n::error::x"', '"--" + "x" * 1', '"---"')
    assert told.doubts == ("an option of vllm/entrypoints/common/cli_args.py has a name that cannot be told",)


@pytest.mark.parametrize(
    "more",
    [
        "if f():\n        parser.add_argument('--maybe')",
        "parser.add_argument('--maybe') if f() else None",
        "f() and parser.add_argument('--maybe')",
    ],
)
def test_an_option_under_a_condition_may_be_none(more: str) -> None:
    path, head = "vllm/entrypoints/common/cli_args.py", "def make_arg_parser(parser):\n"
    told = read({**VLLM, path: VLLM[path].replace(head, f"{head}    {more}\n")})
    assert told.doubts == ("--maybe is added under a condition",)


def test_an_option_that_no_run_adds_is_none() -> None:
    path, head = "vllm/entrypoints/common/cli_args.py", "def make_arg_parser(parser):\n"
    told = read({**VLLM, path: VLLM[path].replace(head, f"{head}    '' and parser.add_argument('--never')\n")})
    assert told.table is not None
    assert "--never" not in told.table.flags


REAL = """
import json
from vllm.entrypoints.cli.serve import ServeSubcommand
from vllm.utils.argparse_utils import FlexibleArgumentParser
parser = ServeSubcommand().subparser_init(FlexibleArgumentParser().add_subparsers())
told = [
    {
        "flags": action.option_strings, "nargs": action.nargs, "default": action.default,
        "choices": [each for each in action.choices or () if each is not None],
    }
    for action in parser._actions
    if action.option_strings and action.dest != "help"
]
print("@@" + json.dumps(told, default=lambda value: {"object": str(value)}))
"""
"""What the real parser holds, as it says it itself."""
NARGS = {Take.SWITCH: 0, Take.BOTH: 0, Take.MAYBE: "?", Take.MANY: "+", Take.ANY: "*"}


@pytest.mark.vllm
def test_the_options_of_a_real_release_are_those_of_its_parser(vllm_venv: Path) -> None:
    site = next(vllm_venv.glob("lib/python3*/site-packages"))
    version = next(site.glob("vllm*.dist-info")).name.split("-")[1]

    class Files(dict[str, str]):
        def get(self, name: str, default: Any = None) -> Any:
            path = site / name
            return path.read_text() if path.is_file() else default

    told = installed_options.read(version, Files())
    assert (told.problem, told.doubts) == ("", ())
    assert told.table is not None
    done = subprocess.run(
        [vllm_venv / "bin" / "python", "-c", REAL], capture_output=True, text=True, check=True, timeout=300
    )
    real = {flag: each for each in json.loads(done.stdout.rpartition("@@")[2]) for flag in each["flags"]}
    assert set(told.table.flags) == set(real)
    mine = {option.name: (real[option.flags[0]], option) for option in told.table.options}
    assert {name for name, (each, option) in mine.items() if each["nargs"] != NARGS.get(option.take)} == set()
    lists = {name: (set(mine[name][0]["choices"]), few) for name, few in told.choices.items()}
    assert {name for name, (theirs, few) in lists.items() if theirs != few} == set()
    defaults = {name: (mine[name][0]["default"], each.value) for name, each in told.defaults.items()}
    plain = {name: pair for name, pair in defaults.items() if not isinstance(pair[0], dict)}
    assert {name: pair for name, pair in plain.items() if pair[0] != pair[1]} == {}
    assert len(plain) > 250


@pytest.mark.vllm
def test_the_options_of_a_real_release_are_those_of_the_table(vllm_venv: Path) -> None:
    site = next(vllm_venv.glob("lib/python3*/site-packages"))
    version = next(site.glob("vllm*.dist-info")).name.split("-")[1]
    texts = {str(path.relative_to(site)): path.read_text() for path in site.glob("vllm/**/*.py")}
    told = installed_options.read(version, texts)
    known = options.options(version)
    assert told.table is not None
    assert {flag: (each.name, each.take, each.kind) for flag, (each, _) in told.table.flags.items()} == {
        flag: (each.name, each.take, each.kind) for flag, (each, _) in known.flags.items()
    }
