"""What is said: text, pictures, sound, and files by name or in full."""

from __future__ import annotations

from typing import Literal, TypeAlias

from threadline.rpc.acp.shape import Shape

Role: TypeAlias = Literal["assistant", "user"]


class Annotations(Shape, frozen=True, kw_only=True):
    """For whom a block is meant, how much it matters, and how old it is."""

    audience: tuple[Role, ...] | None = None
    last_modified: str | None = None
    priority: float | None = None


class Block(Shape, frozen=True, kw_only=True, tag_field="type"):
    """What every block may carry."""

    annotations: Annotations | None = None


class TextContent(Block, frozen=True, kw_only=True, tag="text"):
    """Text, as Markdown."""

    text: str


class ImageContent(Block, frozen=True, kw_only=True, tag="image"):
    """A picture; `data` is base64."""

    data: str
    mime_type: str
    uri: str | None = None


class AudioContent(Block, frozen=True, kw_only=True, tag="audio"):
    """Sound; `data` is base64."""

    data: str
    mime_type: str


class ResourceLink(Block, frozen=True, kw_only=True, tag="resource_link"):
    """A file that the agent may fetch for itself."""

    name: str
    uri: str
    mime_type: str | None = None
    title: str | None = None
    description: str | None = None
    size: int | None = None


class Resource(Shape, frozen=True, kw_only=True):
    """A file in full: it has either `text` or, as base64, a `blob`."""

    uri: str
    text: str | None = None
    blob: str | None = None
    mime_type: str | None = None

    def __post_init__(self) -> None:
        if (self.text is None) == (self.blob is None):
            raise ValueError("A resource has either `text` or `blob`.")


class EmbeddedResource(Block, frozen=True, kw_only=True, tag="resource"):
    """A file that came along."""

    resource: Resource


ContentBlock: TypeAlias = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource
