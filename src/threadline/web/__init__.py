"""The web: the only place that knows a web framework."""
