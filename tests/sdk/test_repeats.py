"""What the SDKs make of idempotency keys: a call that is sent twice is made once, and a call that still runs is waited for.

The SDKs send no such key by themselves; applications give one with `extra_headers`.
"""

import threading
import uuid

import anthropic
import openai
import pytest

from conftest import CHAT_MODEL, CLAUDE_MODEL, only_gateway

pytestmark = only_gateway

HELLO = [{"role": "user", "content": "Where is my order? [20 tokens]"}]


@pytest.fixture(params=["openai", "anthropic"])
def kind(request):
    return request.param


def client_of(api, kind, **options):
    return (api.openai if kind == "openai" else api.anthropic)(**options)


def call(client, key, **extra):
    extra = {"extra_headers": {"Idempotency-Key": key}, "messages": HELLO, **extra}
    if isinstance(client, (openai.OpenAI, openai.AsyncOpenAI)):
        return client.chat.completions.with_raw_response.create(**{"model": CHAT_MODEL, **extra})
    return client.messages.with_raw_response.create(**{"model": CLAUDE_MODEL, "max_tokens": 100, **extra})


def stream_of(api, raw):
    """The stream of a raw answer: one of the asynchronous SDKs has it awaited, the other one not."""
    return api.do(api.do(raw).parse())


def test_a_call_sent_twice_gives_the_same_answer(api, kind):
    client, key = client_of(api, kind), str(uuid.uuid4())
    first, again = api.do(call(client, key)), api.do(call(client, key))
    assert first.headers.get("x-tollgate-replayed") is None
    assert again.headers["x-tollgate-replayed"] == "true"
    assert again.headers["x-tollgate-original-request-id"] == first.headers["x-tollgate-request-id"]
    assert again.http_response.content == first.http_response.content


def test_a_stream_sent_twice_gives_the_same_events(api, kind):
    client, key = client_of(api, kind), str(uuid.uuid4())

    def events():
        return [event.to_json() for event in api.each(stream_of(api, call(client, key, stream=True)))]

    first = events()
    assert len(first) > 20 and events() == first


def test_a_key_used_for_something_else_is_raised_at_once(api, kind):
    client, key = client_of(api, kind, max_retries=2), str(uuid.uuid4())
    api.do(call(client, key))
    before = api.calls
    with pytest.raises((openai.UnprocessableEntityError, anthropic.UnprocessableEntityError)) as raised:
        api.do(call(client, key, messages=[{"role": "user", "content": "Something else"}]))
    assert (raised.value.status_code, api.calls - before) == (422, 1)


def test_who_comes_while_the_first_call_runs_waits_and_gets_its_answer(api, kind):
    # The stand-in makes a piece of text of this model every fifth of a second.
    customer, key = f"sdk-{uuid.uuid4()}", str(uuid.uuid4())
    asks = {"model": "fault-slow", "stream": True, "messages": [{"role": "user", "content": "[6 tokens]"}]}
    began, first = threading.Event(), []

    def run():
        sdk = openai if kind == "openai" else anthropic
        other = type(api)(False)
        raw = call(client_of(other, kind, customer=customer), key, **asks)
        began.set()
        first.extend(event.to_json() for event in raw.parse())
        other.close()
        assert sdk

    thread = threading.Thread(target=run)
    thread.start()
    assert began.wait(20)
    client, before = client_of(api, kind, customer=customer, max_retries=5), api.calls
    raw = api.do(call(client, key, **asks))
    assert raw.headers["x-tollgate-replayed"] == "true"
    assert api.calls - before >= 2, "the SDK tried again by itself"
    events = [event.to_json() for event in api.each(api.do(raw.parse()))]
    thread.join(20)
    assert len(first) > 6 and events == first
