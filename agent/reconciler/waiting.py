"""Waiting for an event or for time, whichever is first."""

import asyncio


async def wait(event: asyncio.Event, longest_s: float) -> bool:
    """Return whether the event was set, once it is, or after `longest_s` seconds."""
    try:
        async with asyncio.timeout(longest_s):
            await event.wait()
    except TimeoutError:
        return event.is_set()
    return True
