"""Threadline as an agent in editors: the server's side of the Agent Client Protocol."""
