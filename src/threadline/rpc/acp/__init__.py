"""The Agent Client Protocol, version 1: its messages as values, for both sides.

Import it as a namespace, `from threadline.rpc import acp`, and write `acp.Diff`: the names are those of the protocol.
"""

from threadline.rpc.acp.agent_methods import *
from threadline.rpc.acp.client_methods import *
from threadline.rpc.acp.content import *
from threadline.rpc.acp.decode import *
