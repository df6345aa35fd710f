"""`python -m threadline` is the `threadline` command."""

from threadline.cli import main

if __name__ == "__main__":
    main()
