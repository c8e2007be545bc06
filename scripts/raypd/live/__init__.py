"""What raypd does with a release on a live cluster."""
