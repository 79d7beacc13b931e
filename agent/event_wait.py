"""Waits for an event or a timeout, whichever comes first."""

import asyncio


async def wait_or_timeout(event: asyncio.Event, timeout_s: float) -> bool:
    """Wait up to `timeout_s` seconds and return whether the event is set."""
    try:
        async with asyncio.timeout(timeout_s):
            await event.wait()
    except TimeoutError:
        return event.is_set()
    return True
