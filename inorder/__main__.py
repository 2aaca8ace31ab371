"""The program: ``python -m inorder``, and the console script ``inorder``."""

import signal

# Loading the commands takes up to a second. An interrupt during that time needs no cleanup and no message.
signal.signal(signal.SIGINT, signal.SIG_DFL)

from inorder.cli import main  # noqa: E402

if __name__ == "__main__":
    main()
