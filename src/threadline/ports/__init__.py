"""The seams of the gateway: protocols whose docstrings are the contract, and the values that cross them."""
