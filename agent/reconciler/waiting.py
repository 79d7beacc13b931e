"""Waits for an event or a timeout, whichever comes first."""

import asyncio


async def wait(event: asyncio.Event, longest_s: float) -> bool:
    """Wait up to `longest_s` seconds and return whether the event is set."""
    try:
        async with asyncio.timeout(longest_s):
            await event.wait()
    except TimeoutError:
        return event.is_set()
    return True
