"""File names at the limits of what a file system allows."""

COMPOSED, DECOMPOSED = "caf\u00e9.json", "cafe\u0301.json"
LONGEST = "n" * 250 + ".json"  # 255 bytes
LONGEST_UNICODE = "\u00e9" * 127 + "x"  # also 255 bytes
FILES = {
    "Config.json": b"one", "config.json": b"two", "Dir/a": b"three", "dir/a": b"four",
    COMPOSED: b"five", DECOMPOSED: b"six", LONGEST: b"seven", LONGEST_UNICODE: b"eight",
    "d" * 255 + "/" + LONGEST: b"nine", "with space & quote'\n.json": b"ten",
}  # fmt: skip
