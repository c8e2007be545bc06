"""Proof of what a release does: counters, logs and adapters read, and what they leave no doubt about."""
