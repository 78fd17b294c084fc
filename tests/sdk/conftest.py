"""What the SDK tests share: clients that count their HTTP calls, and one way to run a test sync and async.

TOLLGATE_URL names the gateway (`http://127.0.0.1:8080`). With TOLLGATE_STAND_IN=1 it may name the stand-in provider
instead (`cargo run --example provider`); the tests of refusals, which only a gateway can give, are then skipped.
TOLLGATE_KEYS_URL names a second gateway, with the configuration gateway.toml.
"""

import asyncio
import inspect
import os
import uuid

import anthropic
import openai
import pytest

URL = os.environ.get("TOLLGATE_URL", "http://127.0.0.1:8080").rstrip("/")
KEYS_URL = os.environ.get("TOLLGATE_KEYS_URL", "").rstrip("/")
STAND_IN = os.environ.get("TOLLGATE_STAND_IN") == "1"

CHAT_MODEL = os.environ.get("TOLLGATE_DEMO_CHAT_MODEL", "gpt-4o-mini")
DEAR_MODEL = os.environ.get("TOLLGATE_DEMO_DEAR_MODEL", "gpt-4o")
CLAUDE_MODEL = os.environ.get("TOLLGATE_DEMO_CLAUDE_MODEL", "claude-haiku-4-5")
EMBEDDING_MODEL = os.environ.get("TOLLGATE_DEMO_EMBEDDING_MODEL", "text-embedding-3-small")

# Customers of the demo, each on the plan of the same name.
MESSAGES = os.environ.get("TOLLGATE_DEMO_MESSAGES", "demo-messages")
DOLLARS = os.environ.get("TOLLGATE_DEMO_DOLLARS", "demo-dollars")
QUOTA = os.environ.get("TOLLGATE_DEMO_QUOTA", "demo-quota")
TPM = os.environ.get("TOLLGATE_DEMO_TPM", "demo-tpm")

# Keys of gateway.toml.
APP_KEY = os.environ.get("APP_KEY", "app-key")
NARROW_KEY = os.environ.get("NARROW_KEY", "narrow-key")
BROKE_KEY = os.environ.get("BROKE_KEY", "broke-key")

only_keys = pytest.mark.skipif(not KEYS_URL, reason="TOLLGATE_KEYS_URL names no gateway")
only_gateway = pytest.mark.skipif(STAND_IN, reason="only a gateway refuses")


class Api:
    """Makes clients and runs their calls; the same test code then serves the sync and the async SDK."""

    def __init__(self, is_async):
        self.is_async = is_async
        self.loop = asyncio.new_event_loop() if is_async else None
        self.calls = 0
        self._clients = []

    def _http(self, sdk):
        def count(_request):
            self.calls += 1

        async def count_async(_request):
            self.calls += 1

        if self.is_async:
            return sdk.DefaultAsyncHttpxClient(event_hooks={"request": [count_async]})
        return sdk.DefaultHttpxClient(event_hooks={"request": [count]})

    def _client(self, sdk, kind, base_url, customer, max_retries, key, headers):
        # A customer of its own for each client keeps the tests out of each other's buckets.
        sent = {"X-Customer-Id": f"sdk-{uuid.uuid4()}" if customer is None else customer}
        sent.update(headers or {})
        client = kind(
            api_key=key, base_url=base_url, max_retries=max_retries, default_headers=sent, http_client=self._http(sdk), timeout=30
        )
        self._clients.append(client)
        return client

    def openai(self, customer=None, max_retries=0, key="sk-demo", headers=None, url=URL):
        kind = openai.AsyncOpenAI if self.is_async else openai.OpenAI
        return self._client(openai, kind, f"{url}/v1", customer, max_retries, key, headers)

    def anthropic(self, customer=None, max_retries=0, key="sk-demo", headers=None, url=URL):
        """With the base URL as Anthropic's SDKs want it: without `/v1`."""
        kind = anthropic.AsyncAnthropic if self.is_async else anthropic.Anthropic
        return self._client(anthropic, kind, url, customer, max_retries, key, headers)

    def do(self, call):
        """The result of a call, awaited where it has to be."""
        return self.loop.run_until_complete(call) if inspect.isawaitable(call) else call

    def each(self, stream, into=None):
        """All items of a stream. `into` receives them one by one, so they survive an exception."""
        items = [] if into is None else into
        if self.is_async:

            async def read():
                async for item in stream:
                    items.append(item)

            self.loop.run_until_complete(read())
        else:
            for item in stream:
                items.append(item)
        return items

    def within(self, manager, use):
        """`use(stream)` inside the SDK's streaming context; `use` may return something to await."""
        if self.is_async:

            async def run():
                async with manager as stream:
                    result = use(stream)
                    return await result if inspect.isawaitable(result) else result

            return self.loop.run_until_complete(run())
        with manager as stream:
            return use(stream)

    def close(self):
        for client in self._clients:
            self.do(client.close())
        if self.loop:
            self.loop.close()


@pytest.fixture(params=["sync", "async"])
def api(request):
    api = Api(request.param == "async")
    yield api
    api.close()


@pytest.fixture
def sleeps(monkeypatch):
    """The waits an SDK wanted to make between attempts; none of them is made."""
    import time

    import anyio

    wanted = []

    async def async_sleep(seconds):
        wanted.append(seconds)

    monkeypatch.setattr(time, "sleep", wanted.append)
    monkeypatch.setattr(anyio, "sleep", async_sleep)
    return wanted


def kind_of(error):
    """`error.type` of Anthropic's format; the older SDKs do not read it out."""
    return error.body["error"]["type"]


def member(response, name):
    """A member a refusal adds to the provider's error format: in the error object or beside it."""
    body = response.json()
    return body["error"].get(name, body.get(name))
