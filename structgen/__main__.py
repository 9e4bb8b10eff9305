"""``python -m structgen``."""

import sys

try:
    from structgen.cli import main
except KeyboardInterrupt:  # Ctrl-C in the first moments
    raise SystemExit(130) from None

if __name__ == "__main__":
    sys.exit(main())
