"""Configuration: Hydra composes it; every key and target is checked before anything slow is imported."""

COMMANDS = [
    (
        "config",
        "the composed settings (--origin: which file set each)",
        "show:config_command",
    ),
    (
        "completion",
        "completes commands, trials and keys in your shell: bash, zsh, fish",
        "completion:completion_command",
    ),
]
