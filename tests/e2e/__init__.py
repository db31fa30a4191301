"""End-to-end tests with the real client."""

import sys
from pathlib import Path

# The host lab is a package beside this one, and pytest's import mode puts no folder on the path.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
