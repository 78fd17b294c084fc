"""What the SDKs make of a gateway in keys mode: its keys, and the refusals that take more than a small plan to see.

TOLLGATE_KEYS_URL names a gateway with the configuration gateway.toml. Every client is a customer of its own.
"""

import anthropic
import openai
import pytest

from conftest import APP_KEY, BROKE_KEY, CHAT_MODEL, CLAUDE_MODEL, KEYS_URL, NARROW_KEY, only_keys

pytestmark = only_keys

HELLO = [{"role": "user", "content": "Where is my order? [20 tokens]"}]
SDKS = {"openai": openai, "anthropic": anthropic}


@pytest.fixture(params=list(SDKS))
def kind(request):
    return request.param


@pytest.fixture
def client(api, kind):
    """Makes a client of the SDK at hand: of the key `app`, on a plan it names, with the SDK's own default of two retries."""

    def make(key=APP_KEY, plan=None, customer=None, **headers):
        if plan:
            headers["X-Customer-Plan"] = plan
        make = api.openai if kind == "openai" else api.anthropic
        return make(customer=customer, max_retries=2, key=key, headers=headers, url=KEYS_URL)

    return make


def call(client, model=None, **extra):
    if isinstance(client, (openai.OpenAI, openai.AsyncOpenAI)):
        return client.chat.completions.create(**{"model": model or CHAT_MODEL, "messages": HELLO, **extra})
    return client.messages.create(**{"model": model or CLAUDE_MODEL, "max_tokens": 600, "messages": HELLO, **extra})


def refusal(api, client, **extra):
    """The refusal that a call raises, and the HTTP calls it took."""
    before = api.calls
    with pytest.raises((openai.APIStatusError, anthropic.APIStatusError)) as raised:
        api.do(call(client, **extra))
    return raised.value, api.calls - before


def code(error):
    inner = error.response.json()["error"]
    return inner["code"] if "code" in inner else inner["details"]["error_code"]


def test_a_gateway_key_takes_the_place_of_the_providers(api, client):
    reply = api.do(call(client()))
    assert reply.model.startswith(("gpt-4o-mini", "claude-haiku-4-5"))
    events = api.each(api.do(call(client(), stream=True)))
    assert len(events) > 20


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("makes", "asks", "status", "right"),
    [
        ({"key": "no-such-key"}, {}, 401, "invalid_api_key"),
        ({"customer": ""}, {}, 400, "missing_customer_id"),
        ({"customer": "a b"}, {}, 400, "invalid_customer_id"),
        ({"key": NARROW_KEY}, {"model": "full-gpt"}, 403, "model_not_allowed"),
        ({"key": NARROW_KEY, "plan": "open"}, {}, 403, "plan_not_allowed"),
        ({}, {"model": "no-such-model"}, 400, "model_not_priced"),
        ({}, {"service_tier": "no-such-tier"}, 400, "service_tier_not_priced"),
        ({}, {"extra_body": {"stream": "yes"}}, 400, None),
        ({"X-Priority": "urgent"}, {}, 400, "invalid_header"),
        ({"key": BROKE_KEY}, {}, 402, "spend_cap_exceeded"),
    ],
)
def test_what_waiting_cannot_cure_is_raised_at_once(api, client, kind, makes, asks, status, right, stream):
    error, calls = refusal(api, client(**makes), **{"stream": stream, **asks})
    sdk = SDKS[kind]
    classes = {
        400: sdk.BadRequestError,
        401: sdk.AuthenticationError,
        402: getattr(sdk, "PaymentRequiredError", sdk.APIStatusError),
        403: sdk.PermissionDeniedError,
    }
    assert (error.status_code, type(error)) == (status, classes[status])
    if right:
        assert code(error) == right
    assert calls == 1
    assert error.response.headers["x-tollgate-refused-by"] == "tollgate"
    assert error.request_id == error.response.headers["x-tollgate-request-id"]


def test_another_ones_numbers_are_not_told(api, client):
    error, _ = refusal(api, client(key=BROKE_KEY))
    limit = error.response.json()["error"].get("limit") or error.response.json()["limit"]
    assert (limit["name"], limit["scope"]) == ("spend_day", "app")
    assert not {"limit", "used", "asked", "plan"} & set(limit)


def test_whoever_waits_as_long_as_told_gets_in(api, client):
    client = client(plan="brisk")
    took = []
    while 2 not in took and len(took) < 20:  # a slow machine may need no wait between the first calls
        before = api.calls
        assert api.do(call(client)).id
        took.append(api.calls - before)
    assert set(took) <= {1, 2} and 2 in took, f"one wait, made by the SDK, and one retry are enough: {took}"


@pytest.mark.parametrize(
    ("plan", "right", "type_"),
    [("one-at-once", "rate_limit_exceeded", "concurrent_requests"), ("tight", "budget_in_flight", "rate_limit_error")],
)
def test_who_has_too_much_in_flight_may_try_again_soon(api, client, kind, sleeps, plan, right, type_):
    client = client(plan=plan)
    held = api.do(call(client, model="fault-stall", stream=True))
    error, calls = refusal(api, client, model="fault-stall", stream=True)
    assert (type(error), code(error), calls) == (SDKS[kind].RateLimitError, right, 3)
    if kind == "openai":
        assert error.type == type_
    assert all(0 < wait <= 10 for wait in sleeps[-2:]), sleeps
    api.do(held.close())
    assert api.do(call(client)).id, "its place is free again"


@pytest.mark.parametrize("stream", [False, True])
def test_a_full_account_is_503_without_anybodys_numbers(api, client, kind, sleeps, stream):
    client = client()
    model = "full-gpt" if kind == "openai" else "full-claude"
    for _ in range(3):
        before = api.calls
        try:
            reply = api.do(call(client, model=model, stream=stream))
            assert not stream or api.each(reply)
        except (openai.InternalServerError, anthropic.InternalServerError) as error:
            assert (error.status_code, code(error), api.calls - before) == (503, "overloaded", 3)
            assert 1 <= int(error.response.headers["retry-after"]) <= 31
            assert "limit" not in error.response.text.replace("ratelimit", ""), "neither whose nor how much"
            return
    pytest.fail("two requests a minute, and three passed")


def test_a_provider_that_is_gone_is_502_and_costs_nothing(api, client, kind, sleeps):
    client = client()
    error, calls = refusal(api, client, model="gone-gpt" if kind == "openai" else "gone-claude")
    assert isinstance(error, SDKS[kind].InternalServerError)
    assert (error.status_code, code(error), calls) == (502, "upstream_unreachable", 1), "the gateway has tried three times"
