"""A hand-off is an ordinary answer to the official SDKs: nothing raises, streams end, helpers put it together.

The demo's customer of this name can afford nothing, so a person takes over whatever it asks.
"""

import pytest

from conftest import CHAT_MODEL, CLAUDE_MODEL, DEAR_MODEL, only_gateway

pytestmark = only_gateway

CUSTOMER = "demo-handoff"
SENTENCE = "I am connecting you to one of our agents."
HELLO = [{"role": "user", "content": "Where is my order?"}]


def check_headers(headers):
    ticket = headers["x-tollgate-ticket"]
    assert ticket.startswith("tt_")
    assert headers["x-tollgate-ticket-url"] == f"/v1/triage/{ticket}"
    assert headers["x-tollgate-degraded"] == "handoff;cause=spend"
    assert headers["x-tollgate-model"] == "human-triage"


def test_chat_reads_it_as_an_answer(api):
    raw = api.do(api.openai(customer=CUSTOMER).chat.completions.with_raw_response.create(model=CHAT_MODEL, messages=HELLO))
    check_headers(raw.headers)
    reply = raw.parse()
    [choice] = reply.choices
    assert (reply.model, reply.object, choice.finish_reason) == ("human-triage", "chat.completion", "stop")
    assert (choice.message.role, choice.message.content, choice.message.tool_calls) == ("assistant", SENTENCE, None)
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens, reply.usage.total_tokens) == (0, 0, 0)
    assert api.calls == 1


@pytest.mark.parametrize("include_usage", [False, True])
def test_chat_streams_it(api, include_usage):
    extra = {"stream_options": {"include_usage": True}} if include_usage else {}
    client = api.openai(customer=CUSTOMER)
    chunks = api.each(api.do(client.chat.completions.create(model=CHAT_MODEL, messages=HELLO, stream=True, **extra)))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == SENTENCE
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
    usages = [chunk.usage for chunk in chunks if chunk.usage]
    assert [usage.total_tokens for usage in usages] == ([0] if include_usage else [])


def test_responses_read_it_as_an_answer(api):
    reply = api.do(api.openai(customer=CUSTOMER).responses.create(model=CHAT_MODEL, input="Where is my order?"))
    assert (reply.model, reply.status, reply.output_text) == ("human-triage", "completed", SENTENCE)
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (0, 0)


def test_responses_stream_it(api):
    client = api.openai(customer=CUSTOMER)
    events = api.each(api.do(client.responses.create(model=CHAT_MODEL, input="Where is my order?", stream=True)))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert [event.type for event in events][-1] == "response.completed"
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == SENTENCE
    assert events[-1].response.output_text == SENTENCE


def test_messages_read_it_as_an_answer(api):
    client = api.anthropic(customer=CUSTOMER)
    raw = api.do(client.messages.with_raw_response.create(model=CLAUDE_MODEL, max_tokens=50, messages=HELLO))
    check_headers(raw.headers)
    reply = api.do(raw.parse())
    assert (reply.model, reply.type, reply.role, reply.stop_reason) == ("human-triage", "message", "assistant", "end_turn")
    assert [block.text for block in reply.content] == [SENTENCE]
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (0, 0)


def test_messages_stream_it(api):
    client = api.anthropic(customer=CUSTOMER)
    manager = client.messages.stream(model=CLAUDE_MODEL, max_tokens=50, messages=HELLO)
    reply = api.within(manager, lambda stream: stream.get_final_message())
    assert (reply.content[0].text, reply.stop_reason, reply.usage.output_tokens) == (SENTENCE, "end_turn", 0)


def test_a_cheaper_model_answers_as_itself(api):
    client = api.openai(customer="demo-cheaper", headers={"X-Request-Class": "general"})
    ask = {"model": DEAR_MODEL, "messages": [{"role": "user", "content": "Where? [5 tokens]"}]}
    raw = api.do(client.chat.completions.with_raw_response.create(**ask))
    assert raw.headers["x-tollgate-degraded"] == "cheaper;cause=spend"
    assert raw.parse().model == raw.headers["x-tollgate-model"] == CHAT_MODEL
