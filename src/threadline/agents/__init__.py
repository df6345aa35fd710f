"""The agents that come with Threadline, and the door through which others come."""
