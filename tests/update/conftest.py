"""Only the tests here and in tests/template render the template."""

from rendering import render, render_answers, template

__all__ = ["render", "render_answers", "template"]
