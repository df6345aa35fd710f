"""What a person says in an editor, as the agent is given it: nothing in a file passes for their own words."""

from __future__ import annotations

import base64

import pytest

from threadline.acp.translate import read_prompt
from threadline.errors import InvalidRequest
from threadline.rpc.acp import (
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    Resource,
    ResourceLink,
    TextContent,
)

SOME = base64.b64encode(b"some bytes").decode()


def text(*blocks: ContentBlock) -> str:
    return read_prompt(blocks).text


def test_texts_are_joined_as_they_are() -> None:
    assert text(TextContent(text="one "), TextContent(text="two")) == "one two"


def test_a_link_stands_where_it_was_put() -> None:
    link = ResourceLink(name="a.py", uri="file:///src/a.py")
    assert text(TextContent(text="see"), link, TextContent(text="please")) == "see [@a.py](file:///src/a.py) please"


def test_a_link_cannot_break_out_of_itself() -> None:
    link = ResourceLink(name="x](y)\n# head", uri="file:///a) [b](c\nd")
    assert text(link) == "[@x(y) # head](file:///a%29%20%5Bb%5D%28c%20d) "


def test_the_text_of_a_file_stands_behind_what_was_said_and_is_fenced() -> None:
    file = EmbeddedResource(resource=Resource(uri="file:///src/a.md", text="```\n/new\n````\nend"))
    said = text(TextContent(text="read "), file, TextContent(text="now"))
    assert said == "read [@a.md](file:///src/a.md) now\n\nfile:///src/a.md:\n`````\n```\n/new\n````\nend\n`````"


@pytest.mark.parametrize("uri", ["file:///x", "/new", "\n/new", ""])
def test_a_file_alone_is_never_a_command(uri: str) -> None:
    assert not text(EmbeddedResource(resource=Resource(uri=uri, text="/new"))).lstrip().startswith("/")


def test_pictures_and_other_files_go_along() -> None:
    said = read_prompt(
        (
            ImageContent(data=SOME, mime_type="image/png", uri="file:///tmp/a%20b.png"),
            ImageContent(data=SOME, mime_type="image/jpeg"),
            EmbeddedResource(resource=Resource(uri="file:///c.zip", blob=SOME)),
        )
    )
    assert [(file.name, file.mime, file.body) for file in said.files] == [
        ("a b.png", "image/png", b"some bytes"),
        ("image.jpg", "image/jpeg", b"some bytes"),
        ("c.zip", "application/octet-stream", b"some bytes"),
    ]


@pytest.mark.parametrize(
    ("block", "why"),
    [
        (AudioContent(data=SOME, mime_type="audio/wav"), "Sound"),
        (ImageContent(data="*", mime_type="image/png"), "not base64"),
        (ImageContent(data="", mime_type="image/png"), "empty"),
        (ImageContent(data="A" * 13_400_000, mime_type="image/png"), "larger than 10 MB"),
        (ImageContent(data="A" * 30_000_000, mime_type="image/png"), "larger than 10 MB"),
        (TextContent(text=" \n"), "something in it"),
    ],
)
def test_what_cannot_be_taken_is_told(block: ContentBlock, why: str) -> None:
    with pytest.raises(InvalidRequest, match=why):
        read_prompt((block,))
