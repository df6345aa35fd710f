"""The agent that sends a turn to a language model and yields the answer as events."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from decimal import Decimal
from typing import TYPE_CHECKING

from threadline.agents.cancellation import until_cancelled
from threadline.agents.model.models import ModelPool, OpenModel
from threadline.agents.registry import AgentSetup
from threadline.model.safe_text import quoted_label
from threadline.model.turn import Replay
from threadline.model.usage import micros_of
from threadline.ports.agent import AgentError, Event, Text, Thought, Turn, UsageOf

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import StreamedResponse
    from pydantic_ai.settings import ModelSettings

_RETRIES = 2
# The model sees at most so many characters of a quoted message.
_QUOTED_CHARS = 1_000


class ModelAgent:
    """Answers with the output of a model: text, thoughts and usage.

    `AgentSetup.model` is "provider:name". With a `base_url`, "openai:name" is any server that speaks chat-completions,
    and a key from the environment is not sent there: only a key in the settings is. The model gets the system prompt of the
    agent, the one of the chat, and the context block, in this order; then at most `history_limit` messages of the history.

    Requests that fail at the start are repeated `retries` times. A request that still fails raises an `AgentError` of one
    sentence, after the usage known by then. A cancelled turn drops its request at once.

    A session may have chosen another model, "provider:name" or a name at the agent's own provider. The key and the address of
    the agent are never used for another provider, which needs a key of its own in the environment.
    """

    def __init__(self, settings: AgentSetup, *, retries: int = _RETRIES) -> None:
        """Raise `AgentError` if the extra or a key is missing, `InvalidRequest` if the settings can't be used."""
        self._settings = settings
        self._request_settings = _request_settings(settings, retries)
        self._models = ModelPool(settings)

    @property
    def replay(self) -> Replay:
        return "safe"

    @property
    def history_limit(self) -> int | None:
        """Return one more than the model sees. The extra message shows that the history is cut, so it has to start at a user."""
        limit = self._settings.history_limit
        return None if limit is None else limit + 1

    async def run(self, turn: Turn) -> AsyncIterator[Event]:
        """Yield text and thoughts as they come; at the end, or after a failure, one `UsageOf`."""
        state = _RequestState()
        failure: AgentError | None = None
        try:
            async with aclosing(until_cancelled(self._answer(turn, state), turn.cancelled)) as events:
                async for event in events:
                    yield event
        except AgentError as error:
            failure = error
        if (usage := state.usage()) is not None:
            yield usage
        if failure is not None:
            raise failure

    async def check_model(self, name: str) -> str:
        """Return the full name of a model that a session can choose. `InvalidRequest` if it can't be used. Sends nothing."""
        return await self._models.check(name)

    async def close(self) -> None:
        """Close the connections kept for the next turn. The agent can be used again."""
        await self._models.aclose()

    async def _answer(self, turn: Turn, state: _RequestState) -> AsyncGenerator[Event, None]:
        from pydantic_ai.direct import model_request_stream

        messages = await self._messages(turn)
        async with (
            self._models.lease_model(turn.session.chosen_model) as model,
            _provider_errors(model, state),
            model_request_stream(await model.connected(), messages, model_settings=self._request_settings) as stream,
        ):
            state.stream = stream
            async for event in stream:
                if (output := _event_of(event)) is not None:
                    state.has_text |= isinstance(output, Text)
                    yield output
            state.require_end(model.provider_text)

    async def _messages(self, turn: Turn) -> list[ModelMessage]:
        from threadline.agents.model.messages import clean, file_parts, last_messages, to_model_messages

        files = await file_parts(turn)
        messages = to_model_messages(
            last_messages(turn.history, self._settings.history_limit), _prompt_text(turn), files
        )
        prompts = (self._settings.system_prompt, turn.system_prompt, turn.context_prompt)
        instructions = "\n\n".join(clean(text.strip()) for text in prompts if text and text.strip())
        if instructions and messages[-1].kind == "request":
            messages[-1].instructions = instructions
        return messages


class _RequestState:
    """The state of one request to the model."""

    def __init__(self) -> None:
        self.stream: StreamedResponse | None = None
        self.has_text = False

    def usage(self) -> UsageOf | None:
        """Return the usage so far, or None if the provider reported none."""
        if self.stream is None:
            return None
        response = self.stream.get()
        return usage_of(response) if response.usage.has_values() else None

    def require_end(self, provider: str) -> None:
        """Raise an `AgentError` if the stream has ended and the answer is incomplete."""
        from threadline.agents.model.failures import refused_by_provider, stream_broken, token_limit_reached

        if self.stream is None:
            return
        response = self.stream.get()
        if response.finish_reason == "content_filter":
            raise refused_by_provider()
        if response.state == "incomplete" or response.finish_reason == "error":
            raise stream_broken(provider)
        if response.finish_reason == "length" and not self.has_text:
            raise token_limit_reached()


def _prompt_text(turn: Turn) -> str:
    """Return the text of the turn, each message after the message that it answers. Untrusted: quoted, and on one line."""
    if not any(spoken.quoted for spoken in turn.messages):
        return turn.text
    return "\n\n".join(
        f"[in answer to: {quoted_label(spoken.quoted, _QUOTED_CHARS)}]\n{spoken.text}" if spoken.quoted else spoken.text
        for spoken in turn.messages
    )


@asynccontextmanager
async def _provider_errors(model: OpenModel, state: _RequestState) -> AsyncIterator[None]:
    from threadline.agents.model.failures import FAILURES, agent_error_of

    try:
        yield
    except FAILURES as cause:
        has_begun = state.stream is not None
        raise agent_error_of(
            cause, model.provider_text, model.name, has_begun=has_begun, is_chosen=model.is_chosen
        ) from cause


def usage_of(response: ModelResponse) -> UsageOf:
    """Return the usage of a request, with the listed price of the model; without a listed price the cost is unknown."""
    used = response.usage
    dollars = _price(response)
    return UsageOf(
        input_tokens=max(0, used.input_tokens - used.cache_read_tokens - used.cache_write_tokens),
        output_tokens=used.output_tokens,
        cache_read_tokens=used.cache_read_tokens,
        cache_write_tokens=used.cache_write_tokens,
        reasoning_tokens=used.output_reasoning_tokens or used.details.get("reasoning_tokens", 0),
        prompt_tokens=used.input_tokens,
        cost_micros=micros_of(dollars),
        cost_status="unknown" if dollars is None else "estimated",
        model=response.model_name,
    )


def _price(response: ModelResponse) -> Decimal | None:
    try:
        return response.cost().total_price
    except (LookupError, ValueError, AssertionError):
        return None


def _event_of(event: object) -> Event | None:
    from pydantic_ai.messages import (
        PartDeltaEvent,
        PartStartEvent,
        TextPart,
        TextPartDelta,
        ThinkingPart,
        ThinkingPartDelta,
    )

    match event:
        case PartStartEvent(part=TextPart(content=text)) | PartDeltaEvent(delta=TextPartDelta(content_delta=text)):
            return Text(text) if text else None
        case (
            PartStartEvent(part=ThinkingPart(content=thought))
            | PartDeltaEvent(delta=ThinkingPartDelta(content_delta=thought))
        ):
            return Thought(thought) if thought else None
        case _:
            return None


def _request_settings(settings: AgentSetup, retries: int) -> ModelSettings:
    # Prompts are the same bytes from turn to turn; a provider that caches them charges a tenth for them.
    chosen: ModelSettings = {"max_retries": retries, "cache": True}
    if settings.temperature is not None:
        chosen["temperature"] = settings.temperature
    if settings.max_tokens is not None:
        chosen["max_tokens"] = settings.max_tokens
    return chosen
