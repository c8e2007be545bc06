"""raypd: checks, renders, runs and proves the ray-pd-llm chart."""
