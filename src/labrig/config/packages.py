"""Packages that the options of a configuration need, and that not every environment has."""

from __future__ import annotations

from omegaconf import DictConfig

from ..errors import require_package


def check_packages(config: DictConfig) -> None:
    """Makes sure that the packages of the chosen loggers are installed. It imports none of them."""
    for package in config.logger:
        require_package(package, f"logger={package}")
