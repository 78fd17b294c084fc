"""The gateway and the SDK both try again: their attempts must not multiply. Witness is the gateway's own count of calls to the provider."""

import re
import time
import urllib.request

import anthropic
import openai
import pytest

from conftest import CLAUDE_MODEL, URL, only_gateway

pytestmark = only_gateway

HELLO = [{"role": "user", "content": "Where is my order? [40 tokens]"}]
PLAIN = {"X-Priority": "background"}


def provider_calls():
    """Calls to the provider so far, by result."""
    with urllib.request.urlopen(f"{URL}/metrics") as reply:
        text = reply.read().decode()
    calls = {}
    for labels, number in re.findall(r"^tollgate_upstream_calls_total\{(.*)\} (\d+)$", text, re.MULTILINE):
        result = re.search(r'result="(\w+)"', labels)[1]
        calls[result] = calls.get(result, 0) + int(number)
    return calls


def calls_since(before):
    return {result: number - before.get(result, 0) for result, number in provider_calls().items() if number != before.get(result, 0)}


def ask(api, kind, model, stream):
    if kind == "openai":
        client = api.openai(max_retries=2, headers=PLAIN)
        return api.do(client.chat.completions.create(model=model, messages=HELLO, stream=stream))
    client = api.anthropic(max_retries=2, headers=PLAIN)
    return api.do(client.messages.create(model=model, max_tokens=64, messages=HELLO, stream=stream))


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("model", "result", "status"),
    [("fault-503", "server_error", 503), ("fault-529", "server_error", 529), ("fault-close", "broken", 502)],
)
def test_three_attempts_are_three_and_not_nine(api, sleeps, kind, stream, model, result, status):
    before = provider_calls()
    with pytest.raises((openai.InternalServerError, anthropic.InternalServerError, anthropic.APIStatusError)) as raised:
        ask(api, kind, model, stream)
    assert raised.value.status_code == status
    assert raised.value.response.headers["x-should-retry"] == "false"
    assert (api.calls, calls_since(before), sleeps) == (1, {result: 3}, [])


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_a_wait_that_is_too_long_for_the_gateway_is_left_to_the_sdk(api, sleeps, kind):
    before = provider_calls()
    with pytest.raises((openai.RateLimitError, anthropic.RateLimitError)) as raised:
        ask(api, kind, "fault-429-retry-7", False)
    assert "x-should-retry" not in raised.value.response.headers
    assert (api.calls, calls_since(before)) == (3, {"rate_limited": 3}), "one each"
    assert all(wait >= 7 for wait in sleeps[-2:]), sleeps


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_a_used_up_account_is_asked_once(api, sleeps, kind):
    before = provider_calls()
    with pytest.raises((openai.RateLimitError, anthropic.RateLimitError)):
        ask(api, kind, "fault-429-quota", False)
    assert (api.calls, calls_since(before)) == (1, {"rate_limited": 1})
    assert not sleeps


def test_an_answer_is_asked_for_once(api):
    before, began = provider_calls(), time.monotonic()
    assert ask(api, "anthropic", CLAUDE_MODEL, False).stop_reason
    assert (api.calls, calls_since(before)) == (1, {"ok": 1})
    assert time.monotonic() - began < 5, "nothing is waited for"
