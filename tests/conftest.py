"""For all tests: an on-disk store of their own, not the user's."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile

if "STRUCTGEN_CACHE_DIR" not in os.environ:
    _folder = tempfile.mkdtemp(prefix="structgen-tests-")
    os.environ["STRUCTGEN_CACHE_DIR"] = _folder
    atexit.register(shutil.rmtree, _folder, ignore_errors=True)
