"""What the official SDKs make of a refusal: the right class, and no second attempt where none can succeed.

The customers are the demo's, one plan each, with empty chains. Other suites may have used them up already, so every test calls
until it is refused, and a call that is answered on the way there has to be a good one.
"""

import anthropic
import openai
import pytest

from conftest import CHAT_MODEL, CLAUDE_MODEL, DEAR_MODEL, DOLLARS, MESSAGES, QUOTA, TPM, kind_of, member, only_gateway

pytestmark = only_gateway

HELLO = [{"role": "user", "content": "Where is my order? [60 tokens]"}]
LONG = [{"role": "user", "content": "Where is my order, please? " * 1_000}]


def chat(client, **extra):
    return client.chat.completions.create(**{"model": CHAT_MODEL, "messages": HELLO, **extra})


def responses(client, **extra):
    messages = extra.pop("messages", HELLO)
    return client.responses.create(**{"model": CHAT_MODEL, "input": messages[0]["content"], **extra})


def messages(client, **extra):
    return client.messages.create(**{"model": CLAUDE_MODEL, "max_tokens": 200, "messages": HELLO, **extra})


ROUTES = {"chat": chat, "responses": responses, "messages": messages}


@pytest.fixture(params=list(ROUTES))
def route(request):
    return request.param


def client_of(api, route, customer, max_retries):
    make = api.anthropic if route == "messages" else api.openai
    return make(customer=customer, max_retries=max_retries)


def until_refused(api, route, customer, max_retries=0, attempts=8, **extra):
    """Calls until a refusal is raised; returns it with the number of HTTP calls the last call made."""
    client = client_of(api, route, customer, max_retries)
    for _ in range(attempts):
        before = api.calls
        try:
            reply = api.do(ROUTES[route](client, **extra))
            if extra.get("stream"):
                assert api.each(reply), "an admitted stream has events"
        except (openai.APIStatusError, anthropic.APIStatusError) as error:
            return error, api.calls - before
    pytest.fail(f"{customer} was never refused in {attempts} calls")


def sdk(route):
    return anthropic if route == "messages" else openai


def says_why(error, customer, waiting_helps):
    """What every refusal carries, in whichever format."""
    headers = error.response.headers
    limit = member(error.response, "limit")
    assert limit["plan"] == customer
    assert {"name", "scope", "limit", "used", "asked"} <= set(limit)
    assert member(error.response, "customer_id") == customer
    assert headers["x-tollgate-request-id"]
    assert (headers.get("x-should-retry") == "false") is not waiting_helps
    assert headers["content-type"].startswith("application/json")


@pytest.mark.parametrize("stream", [False, True])
def test_out_of_messages_is_a_rate_limit_with_an_exact_wait(api, route, stream):
    error, calls = until_refused(api, route, MESSAGES, stream=stream)
    assert type(error) is sdk(route).RateLimitError
    assert calls == 1, "a stream is refused before its first chunk"
    assert 1 <= int(error.response.headers["retry-after"]) <= 60
    says_why(error, MESSAGES, waiting_helps=True)
    if route == "messages":
        assert kind_of(error) == "rate_limit_error"
    else:
        assert (error.code, error.type) == ("rate_limit_exceeded", "requests")


def test_default_retries_wait_as_long_as_they_were_told(api, route, sleeps):
    until_refused(api, route, MESSAGES)
    error, calls = until_refused(api, route, MESSAGES, max_retries=2, attempts=1)
    assert type(error) is sdk(route).RateLimitError
    assert calls == 3, "this refusal passes, so the SDK tries again"
    told = int(error.response.headers["retry-after"])
    assert len(sleeps) == 2
    assert all(told - 1 <= wait <= 61 for wait in sleeps), (told, sleeps)


@pytest.mark.parametrize("stream", [False, True])
def test_out_of_money_is_402_and_tried_once(api, route, stream):
    model = CLAUDE_MODEL if route == "messages" else DEAR_MODEL
    error, calls = until_refused(api, route, DOLLARS, max_retries=2, model=model, stream=stream)
    assert error.status_code == 402
    assert calls == 1
    says_why(error, DOLLARS, waiting_helps=False)
    assert int(error.response.headers["retry-after"]) > 0, "until the day ends"
    if route == "messages":
        assert type(error) is getattr(anthropic, "PaymentRequiredError", anthropic.APIStatusError)
        assert kind_of(error) == "billing_error"
    else:
        assert type(error) is openai.APIStatusError
        assert error.code == "spend_cap_exceeded"


def test_out_of_quota_is_429_and_tried_once(api, route):
    error, calls = until_refused(api, route, QUOTA, max_retries=2)
    assert type(error) is sdk(route).RateLimitError
    assert calls == 1
    says_why(error, QUOTA, waiting_helps=False)
    if route != "messages":
        assert error.code == "insufficient_quota"


def test_input_above_the_limit_itself_is_413_and_tried_once(api, route):
    error, calls = until_refused(api, route, TPM, max_retries=2, attempts=1, messages=LONG)
    assert error.status_code == 413
    assert calls == 1
    says_why(error, TPM, waiting_helps=False)
    assert "retry-after" not in error.response.headers, "it can never pass"
    if route == "messages":
        assert kind_of(error) == "request_too_large"
    else:
        assert error.code == "request_exceeds_limit"


def test_out_of_tokens_is_a_rate_limit_of_tokens(api, route):
    words = [{"role": "user", "content": "Where is my order? " * 100}]
    error, calls = until_refused(api, route, TPM, messages=words)
    assert type(error) is sdk(route).RateLimitError
    assert calls == 1
    says_why(error, TPM, waiting_helps=True)
    if route != "messages":
        assert (error.code, error.type) == ("rate_limit_exceeded", "tokens")


def test_a_bad_customer_id_is_the_callers_mistake(api, route):
    error, calls = until_refused(api, route, "someone@example.com", max_retries=2, attempts=1)
    assert type(error) is sdk(route).BadRequestError
    assert calls == 1
    if route != "messages":
        assert error.code == "invalid_customer_id"


def test_background_responses_are_refused(api):
    error, calls = until_refused(api, "responses", None, max_retries=2, attempts=1, background=True)
    assert type(error) is openai.BadRequestError
    assert (error.code, calls) == ("background_not_supported", 1)


def test_routes_nobody_meters_do_not_exist(api):
    with pytest.raises(openai.NotFoundError):
        api.do(api.openai(max_retries=2).files.list())
    with pytest.raises(anthropic.NotFoundError):
        api.do(api.anthropic(max_retries=2).messages.batches.list())
    assert api.calls == 2


def test_answers_show_the_customers_limits_and_not_the_accounts(api):
    raw = api.do(api.openai().chat.completions.with_raw_response.create(model=CHAT_MODEL, messages=HELLO))
    assert int(raw.headers["x-ratelimit-limit-requests"]) < 10_000, "10000 is the stand-in account's own"
    for kept_back in ["openai-organization", "set-cookie", "cf-ray"]:
        assert kept_back not in raw.headers
    raw = api.do(api.anthropic().messages.with_raw_response.create(model=CLAUDE_MODEL, max_tokens=50, messages=HELLO))
    assert int(raw.headers["anthropic-ratelimit-requests-limit"]) < 10_000
    for kept_back in ["anthropic-organization-id", "set-cookie", "cf-ray"]:
        assert kept_back not in raw.headers
