"""Whoever has a database has run the migrations that were there. So those never change."""

from __future__ import annotations

from hashlib import sha256

import pytest
from tests.architecture.sources import ROOT

FOLDER = ROOT / "src" / "threadline" / "store" / "sql" / "migrations"
# A new migration adds its line; no other line is ever touched.
LANDED = {
    "0001.postgres.sql": "9410b4d4ffdfdb7ec9050f7a519628eed506952840af36ef9b68c2908f144018",
    "0001.sqlite.sql": "6421eeda06bf0d4dea8ff09592d582a9224ba6833f5b51bde115ca2f864df99c",
    "0002.postgres.sql": "9dc6dfb113998bd85605699d8ffa6fecdc04f02daeb3a789f69d2ea35f01c013",
    "0002.sqlite.sql": "6c6f5fa53f125659bdf22db356fced26731713fc6a95731dc507c9486b4f7c72",
    "0003.postgres.sql": "d9f29c118686cc006b2c8db35c6a48548c4d754ae0af333668507c7d05d76d33",
    "0003.sqlite.sql": "797e886639fee416a3f64a5eb4cc43e77ba388d083c4fb3ad45b2caacba28ddd",
    "0004.postgres.sql": "e19967198d6cc0553b6cfd45c1020aa0bf81e0b1c99f55cef9278cfb50d3a01b",
    "0004.sqlite.sql": "6431ec974da44227a19102db329b6b340804fb979b934b333ca5fe574e06db44",
    "0005.postgres.sql": "ca57ce31b13f02ef3044dafe7a66fa43a8a28a5d4e0420365153ddda7f4cc5f4",
    "0005.sqlite.sql": "3e15f711056d51a1ab0dda9b6c7629fc36aba0fd128107c42d04bfce950da573",
    "0006.postgres.sql": "0e9e46ac7306f01cb49b69810607a6775630d5850246907928e248bd3ce28745",
    "0006.sqlite.sql": "0e9e46ac7306f01cb49b69810607a6775630d5850246907928e248bd3ce28745",
    "0007.postgres.sql": "0473f7a2cea03bad15aa304514ffe999517d1cffbe16bda070ba3c8a862d9fab",
    "0007.sqlite.sql": "373964cdb87785653d08da5ac316cfeae2169db8c559fa4e4a0ab211111a86a8",
    "0008.postgres.sql": "40d902dce5c1df68a54852bc1502d04d1aef7007ed6ff4588e9ec76fd9b61c33",
    "0008.sqlite.sql": "ccf15fc6520f350d84eabe9f9eb836fcf2db790c4c3007f288f7e3cbfe3f79cb",
    "0009.postgres.sql": "b7837a757d36559258f17c6ebe22c9e78e97add00204704eae8a2655281a2498",
    "0009.sqlite.sql": "0b1753103db842d70c954b5a90e7d1e3baac2ab2a82bf3c0682c8960596dd3a6",
}


def test_every_migration_is_known() -> None:
    assert sorted(path.name for path in FOLDER.iterdir()) == sorted(LANDED)


@pytest.mark.parametrize("name", LANDED)
def test_a_landed_migration_never_changes(name: str) -> None:
    assert sha256((FOLDER / name).read_bytes()).hexdigest() == LANDED[name], "write a new migration instead"
