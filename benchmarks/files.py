"""What a rank leaves in its cell's folder, by name. Read by the launcher without importing torch."""

MEASUREMENT_FILE = "measurement.json"
RESERVE_FILE = ".reserve"  # disk space that the launcher set aside, so that a full disk loses no measurement
