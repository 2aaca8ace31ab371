"""The program: ``python -m inorder`` and the console script ``inorder``."""

import signal

# It takes up to a second to load the commands; before that there is nothing to clean up and nothing to say.
signal.signal(signal.SIGINT, signal.SIG_DFL)

from inorder.cli import main  # noqa: E402

if __name__ == "__main__":
    main()
