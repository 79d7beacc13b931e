"""The checks that untrusted XML has to pass before it is parsed."""

# A page of a thousand has about twenty tags per key for S3 and fifty per blob for Azure, and more with metadata. Parsed
# into a tree, a tag takes far more memory than as text.
MAX_TAGS = 200_000
_MAX_QUOTES = 2 * MAX_TAGS  # two per attribute


def plain_xml(body: bytes) -> str:
    """Return the text of a document without a byte order mark. Raises ValueError that says what is wrong.

    Declarations are refused, so a parser has nothing to expand or fetch. The encoding must be UTF-8, which is what
    stores send: a declaration could hide in another one.
    """
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError("it is not UTF-8") from error
    if "\0" in text:
        raise ValueError("it is not UTF-8")
    if "<!" in text.replace("<![CDATA[", ""):
        raise ValueError("it declares a document type or entities, or has comments, which are not supported")
    if text.count("<") > MAX_TAGS or text.count('"') + text.count("'") > _MAX_QUOTES:
        raise ValueError(f"it has more than {MAX_TAGS} tags or attributes")
    return text
