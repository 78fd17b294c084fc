"""The openai SDK works through the gateway as it does against the provider itself."""

import json

import openai
import pytest
from pydantic import BaseModel

from conftest import CHAT_MODEL, EMBEDDING_MODEL, STAND_IN

HELLO = [{"role": "user", "content": "Where is my order? [40 tokens]"}]

WEATHER = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
CHAT_TOOL = {"type": "function", "function": {"name": "get_weather", "description": "The weather.", "parameters": WEATHER}}
RESPONSES_TOOL = {"type": "function", "name": "get_weather", "description": "The weather.", "parameters": WEATHER, "strict": True}

# Plain errors of the provider: background work is never handed over to a person, whatever the plan says.
PLAIN = {"X-Priority": "background"}


class Trip(BaseModel):
    city: str
    days: int


def test_chat_answers_with_usage(api):
    reply = api.do(api.openai().chat.completions.create(model=CHAT_MODEL, messages=HELLO))
    assert reply.object == "chat.completion"
    assert reply.choices[0].finish_reason == "stop"
    assert reply.choices[0].message.content.startswith("Thank you")
    assert reply.usage.completion_tokens == 40
    assert reply.usage.prompt_tokens > 5
    assert reply.usage.total_tokens == reply.usage.prompt_tokens + 40
    assert api.calls == 1


def test_chat_stops_at_the_callers_own_cap(api):
    reply = api.do(api.openai().chat.completions.create(model=CHAT_MODEL, messages=HELLO, max_tokens=17))
    assert reply.choices[0].finish_reason == "length"
    assert reply.usage.completion_tokens == 17


def test_chat_streams_without_chunks_nobody_asked_for(api):
    stream = api.do(api.openai().chat.completions.create(model=CHAT_MODEL, messages=HELLO, stream=True))
    chunks = api.each(stream)
    assert all(chunk.choices for chunk in chunks), "code that reads choices[0] must not break"
    assert all(chunk.usage is None for chunk in chunks)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert text.startswith("Thank you for writing in.")
    assert chunks[-1].choices[0].finish_reason == "stop"


def test_chat_streams_usage_to_whoever_asks(api):
    options = {"include_usage": True}
    stream = api.do(api.openai().chat.completions.create(model=CHAT_MODEL, messages=HELLO, stream=True, stream_options=options))
    chunks = api.each(stream)
    assert [chunk.usage.completion_tokens for chunk in chunks if chunk.usage] == [40]
    assert chunks[-1].choices == []


def test_chat_calls_tools(api):
    choice = {"type": "function", "function": {"name": "get_weather"}}
    ask = {"model": CHAT_MODEL, "messages": HELLO, "tools": [CHAT_TOOL], "tool_choice": choice}
    client = api.openai()
    reply = api.do(client.chat.completions.create(**ask))
    [call] = reply.choices[0].message.tool_calls
    assert reply.choices[0].finish_reason == "tool_calls"
    assert (call.function.name, json.loads(call.function.arguments)) == ("get_weather", {"city": "Lisbon", "days": 1})

    chunks = api.each(api.do(client.chat.completions.create(**ask, stream=True)))
    deltas = [delta for chunk in chunks for delta in chunk.choices[0].delta.tool_calls or []]
    assert deltas[0].function.name == "get_weather"
    assert json.loads("".join(delta.function.arguments for delta in deltas)) == {"city": "Lisbon", "days": 1}


def test_chat_takes_a_tools_result_back(api):
    messages = HELLO + [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
    ]
    reply = api.do(api.openai().chat.completions.create(model=CHAT_MODEL, messages=messages, tools=[CHAT_TOOL]))
    assert reply.choices[0].message.content


def test_chat_parses_a_json_schema(api):
    client = api.openai()
    reply = api.do(client.chat.completions.parse(model=CHAT_MODEL, messages=HELLO, response_format=Trip))
    assert reply.choices[0].message.parsed == Trip(city="Lisbon", days=1)

    manager = client.chat.completions.stream(model=CHAT_MODEL, messages=HELLO, response_format=Trip)
    final = api.within(manager, lambda stream: stream.get_final_completion())
    assert final.choices[0].message.parsed == Trip(city="Lisbon", days=1)


def test_chat_answers_n_times(api):
    reply = api.do(api.openai().chat.completions.create(model=CHAT_MODEL, messages=HELLO, n=2))
    assert [choice.index for choice in reply.choices] == [0, 1]
    assert reply.usage.completion_tokens == 80


def test_responses_answers_and_streams(api):
    client = api.openai()
    reply = api.do(client.responses.create(model=CHAT_MODEL, input="Where is my order? [40 tokens]"))
    assert reply.status == "completed"
    assert reply.output_text.startswith("Thank you")
    assert (reply.usage.output_tokens, reply.usage.total_tokens) == (40, reply.usage.input_tokens + 40)

    events = api.each(api.do(client.responses.create(model=CHAT_MODEL, input="Where? [40 tokens]", stream=True)))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert (events[0].type, events[-1].type) == ("response.created", "response.completed")
    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert "".join(deltas) == events[-1].response.output_text
    assert events[-1].response.usage.output_tokens == 40


def test_responses_says_when_the_cap_cut_it(api):
    reply = api.do(api.openai().responses.create(model=CHAT_MODEL, input="Where? [40 tokens]", max_output_tokens=16))
    assert (reply.status, reply.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    assert reply.usage.output_tokens == 16


def test_responses_calls_tools_and_parses(api):
    client = api.openai()
    ask = {"model": CHAT_MODEL, "input": "Weather?", "tools": [RESPONSES_TOOL], "tool_choice": "required"}
    [call] = api.do(client.responses.create(**ask)).output
    assert (call.type, call.name, json.loads(call.arguments)) == ("function_call", "get_weather", {"city": "Lisbon", "days": 1})

    events = api.each(api.do(client.responses.create(**ask, stream=True)))
    [done] = [event for event in events if event.type == "response.function_call_arguments.done"]
    assert json.loads(done.arguments) == {"city": "Lisbon", "days": 1}

    parsed = api.do(client.responses.parse(model=CHAT_MODEL, input="Where to?", text_format=Trip))
    assert parsed.output_parsed == Trip(city="Lisbon", days=1)


def test_completions_answer_and_stream(api):
    client = api.openai()
    reply = api.do(client.completions.create(model=CHAT_MODEL, prompt="Once [40 tokens]"))
    assert reply.usage.completion_tokens == 16, "the API's own default cap"
    assert reply.choices[0].finish_reason == "length"
    chunks = api.each(api.do(client.completions.create(model=CHAT_MODEL, prompt="Once [40 tokens]", max_tokens=50, stream=True)))
    assert all(chunk.choices for chunk in chunks)
    assert "".join(chunk.choices[0].text for chunk in chunks).startswith("Thank you")


@pytest.mark.parametrize("encoding", [None, "float"])
def test_embeddings(api, encoding):
    extra = {"encoding_format": encoding} if encoding else {}
    reply = api.do(api.openai().embeddings.create(model=EMBEDDING_MODEL, input=["one", "two"], dimensions=256, **extra))
    assert [len(item.embedding) for item in reply.data] == [256, 256]
    assert reply.data[0].embedding != reply.data[1].embedding
    assert reply.usage.prompt_tokens == reply.usage.total_tokens > 0


def test_models_are_listed(api):
    client = api.openai()
    models = api.do(client.models.list())
    listed = [model.id for model in models.data]
    assert CHAT_MODEL in listed
    assert api.do(client.models.retrieve(CHAT_MODEL)).id == CHAT_MODEL
    with pytest.raises(openai.NotFoundError):
        api.do(client.models.retrieve("no-such-model"))


def test_the_providers_request_id_reaches_the_caller(api):
    reply = api.do(api.openai().chat.completions.create(model=CHAT_MODEL, messages=HELLO))
    assert reply._request_id.startswith("req_")


def test_a_wrong_key_is_the_providers_to_refuse(api):
    with pytest.raises(openai.AuthenticationError):
        api.do(api.openai(key="sk-invalid", headers=PLAIN).chat.completions.create(model=CHAT_MODEL, messages=HELLO))


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("model", "error", "code"),
    [
        ("fault-400", openai.BadRequestError, None),
        ("fault-404", openai.NotFoundError, "model_not_found"),
        ("fault-429-retry-7", openai.RateLimitError, "rate_limit_exceeded"),
        ("fault-429-quota", openai.RateLimitError, "insufficient_quota"),
        ("fault-500", openai.InternalServerError, None),
    ],
)
def test_the_providers_errors_keep_their_class(api, model, error, code, stream):
    client = api.openai(headers=PLAIN)
    with pytest.raises(error) as raised:
        api.do(client.chat.completions.create(model=model, messages=HELLO, stream=stream))
    assert type(raised.value) is error
    assert raised.value.code == code
    assert api.calls == 1


@pytest.mark.parametrize(
    ("model", "calls", "least"),
    [("fault-429-quota", 1, None), ("fault-400", 1, None), ("fault-429-retry-7", 3, 7), ("fault-503", 3 if STAND_IN else 1, 0)],
)
def test_what_the_provider_refuses_is_retried_where_that_can_help(api, sleeps, model, calls, least):
    client = api.openai(max_retries=2, headers=PLAIN)
    with pytest.raises(openai.APIStatusError):
        api.do(client.chat.completions.create(model=model, messages=HELLO))
    assert api.calls == calls
    assert len(sleeps) == calls - 1 and all(wait >= least for wait in sleeps), sleeps


def test_an_error_in_the_middle_of_a_stream_is_raised_after_the_text(api):
    client = api.openai(max_retries=2, headers=PLAIN)
    chunks = []
    stream = api.do(client.chat.completions.create(model="fault-error-event", messages=HELLO, stream=True))
    with pytest.raises(openai.APIError) as raised:
        api.each(stream, into=chunks)
    assert raised.value.type == "server_error"
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "Thank you for"
    assert api.calls == 1


def test_an_error_in_the_middle_of_a_response_is_seen(api):
    client = api.openai(max_retries=2, headers=PLAIN)
    events = []
    stream = api.do(client.responses.create(model="fault-error-event", input="Where?", stream=True))
    api.each(stream, into=events)
    assert events[-1].type == "error"
    assert [event.delta for event in events if event.type == "response.output_text.delta"] == ["Thank", " you", " for"]
    assert api.calls == 1


@pytest.mark.parametrize("model", ["fault-cut", "fault-reset"])
def test_a_cut_stream_is_an_error_and_not_a_finished_one(api, model):
    client = api.openai(max_retries=2, headers=PLAIN)
    chunks = []
    stream = api.do(client.chat.completions.create(model=model, messages=HELLO, stream=True))
    with pytest.raises(openai.APIError) as raised:
        api.each(stream, into=chunks)
    assert (raised.value.code, raised.value.type) == ("upstream_broke", "server_error")
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "Thank you for"
    assert api.calls == 1


def test_a_cut_response_is_an_error_and_not_a_finished_one(api):
    client = api.openai(max_retries=2, headers=PLAIN)
    events = []
    stream = api.do(client.responses.create(model="fault-cut", input="Where?", stream=True))
    # The SDK hands this API's error events out like any other. That the connection is cut all the same shows as an exception of its own
    # or, in older versions, of the HTTP library below it.
    with pytest.raises(Exception, match="Connection error|incomplete chunked read"):
        api.each(stream, into=events)
    assert (events[-1].type, events[-1].code) == ("error", "upstream_broke")
    assert [event.delta for event in events if event.type == "response.output_text.delta"] == ["Thank", " you", " for"]
    assert api.calls == 1


def test_an_answer_that_is_cut_is_no_answer(api):
    client = api.openai(headers=PLAIN)
    with pytest.raises(openai.APIConnectionError if STAND_IN else openai.InternalServerError):
        api.do(client.chat.completions.create(model="fault-cut", messages=HELLO))
    assert api.calls == 1
