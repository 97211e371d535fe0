"""The arguments of `motleygp completion`."""

from motleygp_cli.parser.base import Command, Parser


def _add_arguments(completion: Parser) -> None:
    completion.add_argument(
        "shell", choices=("bash", "zsh", "fish"), help="the shell to complete in"
    )


COMPLETION = Command(
    "completion",
    "print a script that completes commands, flags and files in a shell",
    'bash; in ~/.bashrc: eval "$(motleygp completion bash)"',
    _add_arguments,
)
