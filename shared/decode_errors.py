"""The errors of msgspec for bytes from outside that it cannot decode."""

import msgspec

# Not JSON or of another shape, not UTF-8 (for which msgspec has no error of its own), or nested too deeply.
DECODE_ERRORS = (msgspec.MsgspecError, UnicodeError, RecursionError)
