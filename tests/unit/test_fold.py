"""What a turn's events come to, whatever order they come in."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from threadline.gateway.fold import fold, sent_files, shown_text
from threadline.model.files import attachments_of
from threadline.model.inbound import Attachment
from threadline.model.usage import Usage
from threadline.ports.agent import Event, File, Plan, PlanStep, Text, Thought, ToolCall, ToolResult, UsageOf

CALL, RESULT = ToolCall("c1", "look", '{"at": "sky"}'), ToolResult("c1", "blue")


def brief(events: list[Event]) -> list[tuple[str, object]]:
    return [(str(message["role"]), message["content"]) for message in fold(events, unfinished="?").messages]


def test_words_are_joined_as_they_are_and_thoughts_kept_apart() -> None:
    folded = fold([Thought("h"), Text("It "), Thought("m"), Text("is.")], unfinished="?")
    assert folded.messages == ({"role": "assistant", "content": "It is.", "reasoning": "hm"},)


def test_thoughts_and_a_plan_are_kept_where_nothing_was_said() -> None:
    thought: list[Event] = [CALL, RESULT, Thought("hm")]
    assert fold(thought, unfinished="?").messages[2:] == ({"role": "assistant", "content": None, "reasoning": "hm"},)
    plan = {"role": "assistant", "content": None, "plan": ({"text": "look"},)}
    assert fold([Plan((PlanStep("look"),))], unfinished="?").messages == (plan,)


def test_a_call_and_its_result_stand_between_what_was_said_before_and_after() -> None:
    events: list[Event] = [Text("I look."), CALL, RESULT, Text("It is blue.")]
    folded = fold(events, unfinished="?")
    assert brief(events) == [("assistant", "I look."), ("tool", "blue"), ("assistant", "It is blue.")]
    assert folded.messages[0]["tool_calls"][0]["function"] == {"name": "look", "arguments": '{"at": "sky"}'}
    assert folded.messages[1]["tool_call_id"] == "c1"
    assert shown_text(events) == "I look.\n\nIt is blue."


def test_a_call_without_a_result_has_one_all_the_same() -> None:
    assert brief([CALL]) == [("assistant", None), ("tool", "?")]


def test_calls_of_the_same_id_have_each_their_own_result() -> None:
    events: list[Event] = [CALL, RESULT, Text("And now? "), CALL, ToolResult("c1", "grey"), Text("Hm. "), CALL]
    assert [content for role, content in brief(events) if role == "tool"] == ["blue", "grey", "?"]
    # One that is told again while it runs is the same.
    assert [content for role, content in brief([CALL, CALL, RESULT]) if role == "tool"] == ["blue", "blue"]


def test_a_result_that_nobody_asked_for_is_left_out() -> None:
    assert brief([Text("So."), RESULT]) == [("assistant", "So.")]


def test_a_file_stands_with_what_was_said_in_its_step_and_is_no_word() -> None:
    one, two = Attachment(handle="file:1", name="one"), Attachment(handle="file:2", name="two")
    events: list[Event] = [File(one), CALL, RESULT, Text("It is "), File(two), Text("blue.")]
    folded = fold(events, unfinished="?")
    assert brief(events) == [("assistant", None), ("tool", "blue"), ("assistant", "It is blue.")]
    assert [attachments_of(message) for message in folded.messages] == [(one,), (), (two,)]
    assert shown_text(events) == "It is blue."
    assert sent_files(events) == [one, two]


def test_costs_are_added_up_and_the_last_prompt_counts() -> None:
    events = [UsageOf(input_tokens=1, output_tokens=2, prompt_tokens=9), UsageOf(input_tokens=3, prompt_tokens=7)]
    usage = fold(events, unfinished="?").usage
    assert usage == Usage(input_tokens=4, output_tokens=2, last_prompt_tokens=7)
    assert fold([Text("free")], unfinished="?").usage is None


ids = st.sampled_from(["c1", "c2", "c3"])
events_drawn = st.lists(
    st.one_of(
        st.builds(Text, st.sampled_from(["a", " b", "\n", ""])),
        st.builds(Thought, st.sampled_from(["t", ""])),
        st.builds(ToolResult, ids, st.just("r")),
    ),
    max_size=12,
)


@given(events_drawn, st.lists(st.integers(0, 12), max_size=3, unique=True))
def test_no_call_is_ever_torn_from_its_result_and_no_word_is_lost(drawn: list[Event], places: list[int]) -> None:
    events: list[Event] = list(drawn)
    for number, place in enumerate(sorted(places, reverse=True)):
        events.insert(min(place, len(events)), ToolCall(f"c{number + 1}", "look"))
    folded = fold(events, unfinished="?")
    waiting: list[str] = []
    for message in folded.messages:
        if message["role"] == "tool":
            assert waiting.pop(0) == message["tool_call_id"]
        else:
            assert waiting == []
            waiting = [call["id"] for call in message.get("tool_calls", [])]
    assert waiting == []
    said = "".join(event.text for event in events if isinstance(event, Text))
    kept = "".join(message["content"] or "" for message in folded.messages if message["role"] == "assistant")
    assert kept == said
    assert "".join(shown_text(events).split()) == "".join(said.split())
