"""``python -m structgen``."""

import sys

from structgen.cli import main

if __name__ == "__main__":
    sys.exit(main())
