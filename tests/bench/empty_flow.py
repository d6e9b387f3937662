"""A flow that does nothing: what Prefect itself costs."""

from prefect import flow


@flow
def empty() -> None:
    """Does nothing."""


if __name__ == "__main__":
    empty()
