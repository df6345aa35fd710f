from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.config.conftest import Refused

from threadline.config.load import load_config
from threadline.errors import ConfigError

# --- No TOML --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "position", "expected"),
    [
        ("[web]\nport 8765", "2:6", "expected = and a value after the name of a setting"),
        ("[web]\nport = ", "2:8", "expected a value, but the file ends here"),
        ("[access]\nowners = [1,\n", "3:1", "expected a value, but the file ends here, perhaps inside of a list"),
        ("[web]\nhost = localhost", "2:8", "expected a value: text in quotes"),
        ("[web\nport = 1", "1:5", "expected ] after the name of a section"),
        ("[[bindings]\nagent = 1", "1:11", "expected ]] after the name of a section"),
        ("[access]\nowners = [1\n\n", "4:1", "expected ] at the end of a list"),
        ('db = "x\nlog_level = 1', "1:8", "expected a quote at the end of the text, on its line"),
        ("db = 'x", "1:8", "expected a quote at the end of the text"),
        ('db = """x', "1:10", "expected a quote at the end of the text"),
        ('db = "\\q"', "1:9", "expected another character after \\"),
        ('db = "\x01"', "1:7", "expected no control characters"),
        ("db = 1 2", "1:8", "expected nothing more on this line"),
        ("= 1", "1:1", "expected a setting such as port = 8765"),
        ("[ ]", "1:3", "expected a name"),
        ("[web]\n[web]", "2:5", "this stands twice"),
        ('db = "a"\ndb = "b"', "2:9", "this stands twice"),
        ("web = {port = 1", "1:16", "expected } at the end of a table"),
    ],
)
def test_what_is_no_toml_is_told_with_its_place(
    text: str, position: str, expected: str, refused: Refused, file: Path
) -> None:
    (line,) = refused(text)
    assert line.startswith(f"{file}:{position}: {expected}")


def test_a_file_in_another_encoding_is_told_with_its_line(file: Path) -> None:
    file.write_bytes(b'db = "x"\ntimezone = "\xff"')
    with pytest.raises(ConfigError, match=r"config\.toml:2: expected UTF-8 text"):
        load_config(file, {})


def test_values_without_an_end_are_told_of(refused: Refused) -> None:
    assert "expected values of a usual size" in refused(f"[web]\nport = {'9' * 5000}")[0]
    assert "expected values of a usual size" in refused(f"db = {'[' * 5000}")[0]


# --- Unknown settings -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        ("[web]\n\nprot = 1", 3, "web.prot: there is no such setting; did you mean web.port?"),
        ("[gatewa]\nwelcome = true", 1, "gatewa: there is no such setting; did you mean gateway?"),
        ("# a\nport = 1", 2, "port: there is no such setting; did you mean web.port?"),
        (
            '[agents.main]\nmodell = "x"',
            2,
            "agents.main.modell: there is no such setting; did you mean agents.main.model?",
        ),
        (
            '[[bindings]]\nagent = "main"\n[[bindings]]\nagent = "main"\nplatfrom = "x"',
            5,
            "bindings#2.platfrom: there is no such setting; did you mean bindings#2.platform?",
        ),
        ("web.prot = 1", 1, "web.prot: there is no such setting; did you mean web.port?"),
        ("[privacy]\nqqq = 1", 2, "privacy.qqq: there is no such setting; use one of redact_pii"),
    ],
)
def test_an_unknown_setting_is_told_with_its_line_and_the_nearest_name(
    text: str, line: int, told: str, refused: Refused, file: Path
) -> None:
    assert refused(text) == [f"{file}:{line}: {told}"]


# --- Wrong values ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        ("[web]\nport = true", 2, "web.port: found true; use a whole number from 0 to 65535"),
        ("[web]\nport = 65536", 2, "web.port: found 65536; use a whole number from 0 to 65535"),
        ("[web]\nport = 1.5", 2, "web.port: found 1.5; use a whole number from 0 to 65535"),
        ('log_level = "loud"', 1, 'log_level: found "loud"; use one of debug, info, warning, error'),
        ("[gateway]\nwelcome = 1", 2, "gateway.welcome: found 1; use true or false"),
        ("[gateway]\nburst_seconds = nan", 2, "gateway.burst_seconds: found nan; use a number from 0 to 3600"),
        ("[gateway]\nburst_seconds = inf", 2, "gateway.burst_seconds: found inf; use a number from 0 to 3600"),
        ("db = 1979-05-27", 1, "db: found a date or time; use text"),
        ('db = ""', 1, "db: found nothing between the quotes; use text, or leave it out"),
        ("db = {}", 1, "db: found a table; use text"),
        ("web = 1", 1, "web: found 1; this is a section: write [web] and its settings below"),
        ("bindings = 1", 1, "bindings: found 1; write a section for each: [[bindings]]"),
        ("platforms = [1]", 1, "platforms: found a list; write a section for each: [platforms.NAME]"),
        (
            "[agents]\nmain = 1",
            2,
            "agents.main: found 1; this is a section: write [agents.main] and its settings below",
        ),
        (
            '[access]\nowners = "telegram:7"',
            2,
            'access.owners: found "telegram:7"; use a list: each a platform and the id of a person there, such as "telegram:7"',
        ),
        (
            '[access]\nguests = ["ann"]',
            2,
            'access.guests: found "ann"; use a platform and the id of a person there, such as "telegram:7"',
        ),
        (
            'timezone = "Europe/Berlun"',
            1,
            "timezone: 'Europe/Berlun' is no time zone: use an IANA name such as 'Europe/Berlin', or 'UTC'",
        ),
        (
            '[resets.type.dmm]\nmode = "idle"',
            1,
            'resets.type.dmm: found "dmm"; use one of dm, group, channel, thread',
        ),
        (
            "[platforms.Telegram]",
            1,
            'platforms.Telegram: found "Telegram"; use a name of lower-case letters, digits, - and _',
        ),
        (
            '[agents.main]\nbase_url = "https://me:pw@host"',
            2,
            (
                'agents.main.base_url: found "https://me:…@host"; use an address that begins with http:// or https:// '
                "and holds no password"
            ),
        ),
        ('[[home_channels]]\nplatform = "x"\nname = "y"', 1, "home_channels#1: chat_id is missing; it has no default"),
    ],
)
def test_a_wrong_value_is_told_with_what_was_found_and_what_is_allowed(
    text: str, line: int, told: str, refused: Refused, file: Path
) -> None:
    lines = refused(text)
    assert lines[0] == f"{file}:{line}: {told}"


def test_all_that_is_wrong_is_told_at_once_each_on_its_line(refused: Refused, file: Path) -> None:
    text = "[web]\nport = -1\nhots = 1\n[gateway]\nwhen_busy = 'x\\ny'\n"
    assert refused(text, {"THREADLINE_WEB__HOSST": "a", "THREADLINE_GATEWAY__WELCOME": "maybe"}) == [
        f"{file}:2: web.port: found -1; use a whole number from 0 to 65535",
        f"{file}:3: web.hots: there is no such setting; did you mean web.hosts?",
        f'{file}:5: gateway.when_busy: found "x\\\\ny"; use one of collect, queue, interrupt, steer',
        'THREADLINE_GATEWAY__WELCOME: gateway.welcome: found "maybe"; use true or false',
        "THREADLINE_WEB__HOSST: there is no such setting; did you mean THREADLINE_WEB__HOST?",
    ]


def test_a_found_value_stays_short_and_on_one_line(refused: Refused) -> None:
    (line,) = refused(f'log_level = """a\nb{"x" * 5000}"""')
    assert len(line) < 300


@pytest.mark.parametrize(
    "text",
    [
        '[agents.main]\napi_key = "sk-very-secret"',
        '[agents.main]\napi_key = ["sk-very-secret"]',
        '[agents.main]\napi_key = "env:sk-very-secret"',
        '[agents.main]\napi_key = "file:sk-very-secret"',
        '[platforms.telegram]\ntoken = "sk-very-secret"',
        '[platforms.telegram]\nbot_tokens = ["env:OK", "sk-very-secret"]',
        '[platforms.telegram.account2]\nAPI-Key = "sk-very-secret"',
        '[platforms.telegram]\npassword = "env:sk-very-secret"',
    ],
)
def test_a_secret_in_plain_text_is_refused_and_never_shown(text: str, refused: Refused, file: Path) -> None:
    (line,) = refused(text)
    assert line.startswith(f"{file}:2: ")
    assert "env:" in line or "file:" in line
    assert "sk-very-secret" not in line


def test_a_secret_in_a_variable_is_refused_and_never_shown(refused: Refused) -> None:
    (line,) = refused("", {"THREADLINE_AGENTS__MAIN__API_KEY": "sk-very-secret"})
    assert line.startswith("THREADLINE_AGENTS__MAIN__API_KEY: agents.main.api_key: a secret is never written here")
    assert "sk-very-secret" not in line


# --- Settings that contradict each other ----------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[agents.main]\nkind = "model"', '1: agents.main: model is missing; kind = "model" needs it'),
        (
            "[agents.main]\ntemprature = 1",
            "2: agents.main.temprature: there is no such setting; did you mean agents.main.temperature?",
        ),
        ('[agents.main]\nkind = "function"', '1: agents.main: call is missing; kind = "function" needs it'),
        (
            '[agents.main]\nmodel = "x:y"',
            '2: agents.main.model: this is never used with kind = "echo"; set kind = "model"',
        ),
        ('[gateway]\ndefault_agent = "x"', '2: gateway.default_agent: there is no agent "x", only main'),
        ('[[bindings]]\nagent = "x"', '2: bindings#1.agent: there is no agent "x", only main'),
        ('[[bindings]]\nagent = "main"\nchat = "1"', "3: bindings#1.chat: this needs a platform beside it"),
        (
            '[[bindings]]\nagent = "main"\n[[bindings]]\nagent = "main"',
            "3: bindings#2: bindings#1 is for the same place; keep one of them",
        ),
        (
            '[[chats]]\nplatform = "x"\nchat = 1\n[[chats]]\nplatform = "x"\nchat = "1"',
            "4: chats#2: chats#1 is the same chat; keep one of them",
        ),
        (
            '[platforms.local]\nkind = "telegram"',
            (
                "1: platforms.local: whoever writes under this name is taken for the owner at the terminal; "
                "name it [platforms.telegram]"
            ),
        ),
        (
            "[platforms.local]",
            "1: platforms.local: the terminal is no platform of a gateway; leave this out and use `threadline chat`",
        ),
        (
            '[platforms.desk]\nkind = "local"',
            "1: platforms.desk: the terminal is no platform of a gateway; leave this out and use `threadline chat`",
        ),
        (
            '[platforms.acp]\nkind = "telegram"',
            (
                "1: platforms.acp: whoever writes under this name is taken for the owner in an editor; "
                "name it [platforms.telegram]"
            ),
        ),
        (
            "[platforms.acp]",
            (
                "1: platforms.acp: editors are no platform of a gateway; "
                "leave this out and let the editor run `threadline acp`"
            ),
        ),
        (
            '[access]\nowners = ["x:1"]\nguests = ["x:1"]',
            '3: access.guests: "x:1" is in access.owners as well; keep one of them',
        ),
    ],
)
def test_settings_that_contradict_each_other_are_told_of(text: str, told: str, refused: Refused, file: Path) -> None:
    assert refused(text) == [f"{file}:{told}"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('trusted_proxies = ["nginx"]', "is no address"),
        ('trusted_proxies = ["10.0.0.0/33"]', "is no address"),
        ('trusted_proxies = "127.0.0.1"', "use a list"),
        ('public_url = "chat.example.org"', "https://chat.example.org"),
        ('public_url = "https://chat.example.org/threadline"', "nothing behind the name"),
        ('public_url = "https://ada:secret@chat.example.org"', "nothing behind the name"),
        ('hosts = ["https://chat.example.org"]', "a name, with a port or without"),
        ('hosts = ["*"]', "a name, with a port or without"),
    ],
)
def test_what_is_no_name_or_address_of_the_page_says_what_is(refused: Refused, line: str, said: str) -> None:
    (told,) = refused(f"[web]\n{line}\n")
    assert said in told
