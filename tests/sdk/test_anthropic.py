"""The anthropic SDK works through the gateway as it does against the provider itself."""

import anthropic
import pytest
from pydantic import BaseModel

from conftest import CLAUDE_MODEL, STAND_IN, kind_of

ASK = {"model": CLAUDE_MODEL, "max_tokens": 100, "messages": [{"role": "user", "content": "Where is my order? [40 tokens]"}]}

TOOL = {
    "name": "get_weather",
    "description": "The weather.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}},
}

# Plain errors of the provider: background work is never handed over to a person, whatever the plan says.
PLAIN = {"X-Priority": "background"}


# Of the older SDKs, the sync one raises a class that is not exported, and the async one InternalServerError.
OVERLOADED = getattr(anthropic, "OverloadedError", anthropic.APIStatusError)


class Trip(BaseModel):
    city: str
    days: int


def test_messages_answer_with_usage(api):
    reply = api.do(api.anthropic().messages.create(**ASK))
    assert (reply.type, reply.role, reply.stop_reason) == ("message", "assistant", "end_turn")
    assert reply.content[0].text.startswith("Thank you")
    assert reply.usage.output_tokens == 40
    assert reply.usage.input_tokens > 5
    assert api.calls == 1


def test_messages_stop_at_the_cap(api):
    reply = api.do(api.anthropic().messages.create(**{**ASK, "max_tokens": 17}))
    assert (reply.stop_reason, reply.usage.output_tokens) == ("max_tokens", 17)


def test_messages_stream_every_event(api):
    events = api.each(api.do(api.anthropic().messages.create(**ASK, stream=True)))
    kinds = [event.type for event in events if event.type != "ping"]
    assert kinds[:3] == ["message_start", "content_block_start", "content_block_delta"]
    assert kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    assert kinds.count("content_block_delta") == 40
    [delta] = [event for event in events if event.type == "message_delta"]
    assert delta.usage.output_tokens == 40


def test_the_stream_helper_puts_the_message_together(api):
    manager = api.anthropic().messages.stream(**ASK)
    message = api.within(manager, lambda stream: stream.get_final_message())
    assert message.content[0].text.startswith("Thank you for writing in.")
    assert (message.stop_reason, message.usage.output_tokens) == ("end_turn", 40)


def test_messages_use_tools(api):
    client = api.anthropic()
    ask = {**ASK, "tools": [TOOL], "tool_choice": {"type": "tool", "name": "get_weather"}}
    reply = api.do(client.messages.create(**ask))
    [block] = reply.content
    assert reply.stop_reason == "tool_use"
    assert (block.type, block.name, block.input) == ("tool_use", "get_weather", {"city": "Lisbon", "days": 1})

    streamed = api.within(client.messages.stream(**ask), lambda stream: stream.get_final_message())
    assert streamed.content[0].input == {"city": "Lisbon", "days": 1}

    messages = ASK["messages"] + [
        {"role": "assistant", "content": [{"type": "tool_use", "id": block.id, "name": block.name, "input": block.input}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": block.id, "content": "sunny"}]},
    ]
    answer = api.do(client.messages.create(**{**ASK, "messages": messages, "tools": [TOOL]}))
    assert answer.content[0].type == "text"


@pytest.mark.skipif(not hasattr(anthropic.resources.Messages, "parse"), reason="an older SDK")
def test_messages_parse_a_json_schema(api):
    reply = api.do(api.anthropic().messages.parse(**ASK, output_format=Trip))
    assert reply.parsed_output == Trip(city="Lisbon", days=1)


def test_tokens_are_counted_without_an_answer(api):
    counted = api.do(api.anthropic().messages.count_tokens(model=CLAUDE_MODEL, messages=ASK["messages"]))
    assert counted.input_tokens > 5


def test_models_are_listed(api):
    client = api.anthropic()
    models = api.do(client.models.list())
    assert CLAUDE_MODEL in [model.id for model in models.data]
    assert api.do(client.models.retrieve(CLAUDE_MODEL)).id == CLAUDE_MODEL


def test_a_wrong_key_is_the_providers_to_refuse(api):
    with pytest.raises(anthropic.AuthenticationError):
        api.do(api.anthropic(key="sk-invalid", headers=PLAIN).messages.create(**ASK))


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("model", "error", "kind"),
    [
        ("fault-400", anthropic.BadRequestError, "invalid_request_error"),
        ("fault-404", anthropic.NotFoundError, "not_found_error"),
        ("fault-429-retry-7", anthropic.RateLimitError, "rate_limit_error"),
        ("fault-500", anthropic.InternalServerError, "api_error"),
        ("fault-529", OVERLOADED, "overloaded_error"),
    ],
)
def test_the_providers_errors_keep_their_class(api, model, error, kind, stream):
    with pytest.raises(error) as raised:
        api.do(api.anthropic(headers=PLAIN).messages.create(**{**ASK, "model": model}, stream=stream))
    assert type(raised.value) is error or error is OVERLOADED
    assert kind_of(raised.value) == kind
    assert api.calls == 1


def test_an_error_in_the_middle_of_a_stream_is_raised_after_the_text(api):
    client = api.anthropic(max_retries=2, headers=PLAIN)
    events = []
    stream = api.do(client.messages.create(**{**ASK, "model": "fault-error-event"}, stream=True))
    with pytest.raises(anthropic.APIStatusError) as raised:
        api.each(stream, into=events)
    assert kind_of(raised.value) == "overloaded_error"
    text = "".join(event.delta.text for event in events if event.type == "content_block_delta")
    assert text == "Thank you for"
    assert api.calls == 1


@pytest.mark.parametrize("model", ["fault-cut", "fault-reset"])
def test_a_cut_stream_is_an_error_and_not_a_finished_one(api, model):
    events = []
    stream = api.do(api.anthropic(max_retries=2, headers=PLAIN).messages.create(**{**ASK, "model": model}, stream=True))
    with pytest.raises(anthropic.APIStatusError) as raised:
        api.each(stream, into=events)
    assert kind_of(raised.value) == "api_error"
    assert raised.value.body["error"]["details"]["error_code"] == "upstream_broke"
    assert [event.type for event in events].count("content_block_delta") == 3
    assert "message_stop" not in [event.type for event in events]
    assert api.calls == 1


def test_an_answer_that_is_cut_is_no_answer(api):
    client = api.anthropic(headers=PLAIN)
    with pytest.raises(anthropic.APIConnectionError if STAND_IN else anthropic.InternalServerError):
        api.do(client.messages.create(**{**ASK, "model": "fault-cut"}))
    assert api.calls == 1
