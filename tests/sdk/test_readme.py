"""The Python of the documents runs as it stands, against the gateway under test."""

import contextlib
import io
import pathlib
import re

import pytest

from conftest import URL

ROOT = pathlib.Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SNIPPETS = [
    pytest.param(text, id=f"{path.name}-{number}")
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    for number, text in enumerate(BLOCK.findall(path.read_text()), start=1)
]


def test_the_readme_shows_both_sdks():
    sdks = {sdk for snippet in SNIPPETS for sdk in ("openai", "anthropic") if f"from {sdk} import" in snippet.values[0]}
    assert sdks == {"openai", "anthropic"}


@pytest.mark.parametrize("snippet", SNIPPETS)
def test_every_python_snippet_prints_an_answer(snippet):
    assert "http://127.0.0.1:8080" in snippet
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(snippet.replace("http://127.0.0.1:8080", URL), "README.md", "exec"), {"__name__": "__main__"})
    assert "order" in printed.getvalue()
