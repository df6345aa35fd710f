from __future__ import annotations

from pathlib import Path

import pytest

from threadline.config.check import ConfigFinding, check

SOUND = "[platforms.telegram]\n"


def _checked(file: Path, text: str, variables: dict[str, str] | None = None) -> list[tuple[str, str]]:
    file.write_text(text)
    return [(finding.severity, finding.text) for finding in check(file, variables or {})]


def test_a_sound_configuration_passes(file: Path) -> None:
    assert _checked(file, SOUND) == []


def test_what_can_not_be_loaded_is_a_problem_each(file: Path) -> None:
    found = _checked(file, "[web]\nport = -1\nhots = 1")
    assert [severity for severity, _ in found] == ["problem", "problem"]
    assert check(file / "none", {})[0].severity == "problem"


def test_a_secret_that_is_missing_is_a_problem(file: Path, tmp_path: Path) -> None:
    text = f"""
    [agents.main]
    api_key = "env:API_KEY"
    [platforms.telegram]
    token = "file:{tmp_path / "none"}"
    [platforms.telegram.proxy]
    passwords = ["env:PROXY"]
    [platforms.slack]
    enabled = false
    token = "env:SLACK"
    """
    found = check_texts(file, text, {})
    assert found[0].startswith("agents.main.api_key: the variable API_KEY is not set; ")
    assert "export API_KEY=" in found[0]
    assert found[1].startswith("platforms.telegram.token: ")
    assert found[2].startswith("platforms.telegram.proxy.passwords: the variable PROXY")
    assert len(found) == 3
    (tmp_path / "none").write_text("x")
    (tmp_path / "none").chmod(0o600)
    assert check_texts(file, text, {"API_KEY": "x", "PROXY": "y"}) == []


def check_texts(file: Path, text: str, variables: dict[str, str]) -> list[str]:
    return [text for _, text in _checked(file, text, variables)]


def test_no_command_is_run(file: Path, tmp_path: Path) -> None:
    assert _checked(file, f'[agents.main]\napi_key = "command:touch {tmp_path / "ran"}"') == []
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('db = "postgresql://me:s3cret@host/db"', "db: its password can be read"),
        ('[web]\nhost = "0.0.0.0"', "web.host: other machines can reach 0.0.0.0"),
        ('[web]\nhost = "example.org"', "web.host: other machines"),
        ('[access]\nanswer_groups = ["*"]', "access.answer_groups: "),
        ('[[bindings]]\nagent = "main"\nplatform = "slack"', "bindings#1: slack is no platform of yours"),
        ('[resets.platform.slack]\nmode = "idle"', "resets.platform.slack: slack is no platform of yours"),
        (
            '[platforms.slack]\nenabled = false\n[[chats]]\nplatform = "slack"\nchat = 1',
            "chats#1: slack is no platform",
        ),
    ],
)
def test_what_is_doubtful_is_a_warning(text: str, told: str, file: Path) -> None:
    ((severity, warning),) = _checked(file, text)
    assert severity == "warning"
    assert warning.startswith(told)
    assert "s3cret" not in warning


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1", "127.0.0.2"])
def test_this_machine_has_many_names(host: str, file: Path) -> None:
    assert _checked(file, f'[web]\nhost = "{host}"') == []


def test_a_platform_is_known_by_its_kind_and_by_its_name(file: Path) -> None:
    text = '[platforms.work]\nkind = "slack"\n'
    for platform in ("slack", "work", "local"):
        assert _checked(file, f'{text}[[bindings]]\nagent = "main"\nplatform = "{platform}"') == []


@pytest.mark.parametrize(
    ("folder", "fix"), [("threadline", "run: chmod 600 {file}"), ("elsewhere", "only you should be able to")]
)
def test_a_file_that_others_can_change_is_a_warning(
    folder: str, fix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    file = tmp_path / folder / "config.toml"
    file.parent.mkdir()
    file.write_text(SOUND)
    file.chmod(0o622)
    (finding,) = check(file, {})
    told = f"others can change {file}, and with it the commands that run as you; {fix.format(file=file)}"
    assert finding == ConfigFinding("warning", told)


def test_the_url_of_a_file_is_no_reference_to_a_secret(file: Path) -> None:
    assert _checked(file, '[platforms.telegram]\nbase_url = "file:///etc/passwd"') == []
    ((severity, problem),) = _checked(file, '[platforms.telegram]\ntoken = "file:///etc/passwd"')
    assert (severity, "file:/PATH" in problem) == ("problem", True)


def test_chmod_is_never_advised_for_a_file_of_the_system(file: Path) -> None:
    (problem,) = check_texts(file, '[platforms.telegram]\nbase_url = "file:/etc/passwd"', {})
    assert "chmod" not in problem


@pytest.mark.parametrize(
    ("kind", "hint"), [("modle", 'did you mean "model"?'), ("xyzzy", "use one of acp, echo, function, model")]
)
def test_an_agent_of_a_kind_that_nobody_brings_is_a_problem(kind: str, hint: str, file: Path) -> None:
    ((severity, problem),) = _checked(file, f'[agents.main]\nkind = "{kind}"')
    assert severity == "problem"
    assert problem.startswith(f'agents.main.kind: no agent of the kind "{kind}" is installed; {hint}')


def test_the_secrets_of_a_packages_agent_are_looked_for(file: Path) -> None:
    found = check_texts(file, '[agents.main]\nkind = "oracle"\ntoken = "env:DELPHI"', {})
    assert found[1].startswith("agents.main.token: the variable DELPHI is not set")
