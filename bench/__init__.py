"""Workloads through the public interface, each measured beside its floor: `python -m bench --help`."""
