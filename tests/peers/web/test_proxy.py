"""The page behind nginx, configured as its how-to says."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
from tests.peers.web.world import ARGUMENTS, CHROMIUM, CONFIG, ROOT, Site, free_port, visiting

pytestmark = pytest.mark.peers

_HOWTO = ROOT / "docs" / "howto" / "web.md"
_FOLDERS = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
_NAME = "chat.example.org"


class ProxiedSite(Site):
    """A site that people reach by the proxy's name alone."""

    @property
    def address(self) -> str:
        """Where the page is, for its people."""
        return f"https://{_NAME}/"


def _block(language: str, beginning: str) -> str:
    """The how-to's block in that language which begins so."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", _HOWTO.read_text(), re.MULTILINE | re.DOTALL)
    (found,) = [block for block in blocks if block.startswith(beginning)]
    return str(found)


def _configured(folder: Path, port: int, page: int) -> Path:
    """The how-to's server at another port, with a certificate of its own and nothing outside of this folder."""
    made = ["-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", "privkey.pem", "-out", "fullchain.pem"]
    subprocess.run(
        ["openssl", "req", "-x509", *made, "-subj", f"/CN={_NAME}"],
        cwd=folder,
        check=True,
        capture_output=True,
    )
    server = _block("nginx", "server {").replace(f"/etc/letsencrypt/live/{_NAME}", str(folder))
    server = server.replace("listen 443 ssl", f"listen 127.0.0.1:{port} ssl").replace(
        "127.0.0.1:8765", f"127.0.0.1:{page}"
    )
    places = "\n".join(f"{name}_temp_path {folder}/{name};" for name in _FOLDERS)
    config = folder / "nginx.conf"
    config.write_text(f"events {{}}\npid {folder}/pid;\nhttp {{\naccess_log off;\n{places}\n{server}\n}}\n")
    return config


@contextmanager
def _nginx(folder: Path, port: int, page: int) -> Iterator[None]:
    command = shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")
    assert command, "nginx is missing: install Debian's package nginx-light"
    config = _configured(folder, port, page)
    arguments = [command, "-p", str(folder), "-e", str(folder / "log"), "-c", str(config), "-g", "daemon off;"]
    process = subprocess.Popen(arguments)
    try:
        _wait_for(port)
        yield
    finally:
        process.terminate()
        process.wait(15)


def _wait_for(port: int) -> None:
    for _ in range(200):
        with socket.socket() as trying:
            if trying.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise AssertionError("nginx does not answer")


@pytest.fixture
def elsewhere(browser: Browser, tmp_path: Path) -> Iterator[tuple[ProxiedSite, Browser]]:
    """A site behind the proxy, and a browser to which the proxy is the machine of that name."""
    port = free_port()
    site = ProxiedSite(tmp_path, CONFIG + _block("toml", "[web]\npublic_url"))
    rules = f"--host-resolver-rules=MAP {_NAME}:443 127.0.0.1:{port}"
    site.start()
    try:
        with _nginx(tmp_path, port, site.port):
            other = browser.browser_type.launch(executable_path=CHROMIUM, args=[*ARGUMENTS, rules])
            yield site, other
            other.close()
    finally:
        site.kill()


def test_an_answer_comes_through_as_it_is_written(elsewhere: tuple[ProxiedSite, Browser], tmp_path: Path) -> None:
    site, browser = elsewhere
    gate = tmp_path / "gate"
    assert site.link.startswith(site.address)
    with visiting(site, browser, ignore_https_errors=True) as visit:
        tab = visit.enter(site.link)
        tab.write(f"hold {gate} Basil likes the sun and dislikes the wind.")
        expect(tab.answers.first).to_contain_text("Basil likes")
        expect(tab.answers.first).not_to_contain_text("the wind")
        gate.touch()
        expect(tab.answers.first).to_contain_text("dislikes the wind.")
        tab.expect_quiet()
        (cookie,) = visit.context.cookies()
        assert (cookie["secure"], cookie["httpOnly"], cookie["sameSite"]) == (True, True, "Strict")
