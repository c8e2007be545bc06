"""Measurements that anyone can repeat: one verb for each question, on whatever is there."""
