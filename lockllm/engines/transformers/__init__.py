"""`transformers serve`: what it is. Its command line and defaults are read from 5.6.0 to 5.24.0, its flags at 4.57.1 too."""

from __future__ import annotations

from lockllm.engines.protocol import Identity, Image, Prompts, Shape

_CLI = (Shape(("serve",)),)

IDENTITY = Identity(
    name="transformers",
    label="transformers serve",
    module=f"{__name__}.engine",
    programs={"transformers": _CLI, "transformers-cli": _CLI},
    modules={
        "transformers.commands.transformers_cli": _CLI,
        "transformers.cli.transformers": _CLI,
        "transformers": _CLI,
    },
    starts=("transformers", "serve"),
    port=8000,
    image=Image(own_machine_only=True),
    package_index="transformers",
    beside_others=True,
    no_sampling_seed=True,
    prompts=Prompts(rule="processor", newest=(5, 24), is_library=True),
)
