"""The Hugging Face Space: the same chat as `python -m ui`, on the address and port that the Space sets."""

from ui.chat import run

if __name__ == "__main__":
    run()
