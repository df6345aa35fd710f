"""The version of this program, for modules that must not import all public names."""

__version__ = "0.1.0"
