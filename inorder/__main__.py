"""``python -m inorder`` is the same as the console script ``inorder``."""

from inorder.cli import main

if __name__ == "__main__":
    main()
