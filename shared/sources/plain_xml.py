"""What every XML of a stranger has to pass before a parser sees it."""

# A page of a thousand has some twenty for each key of S3, fifty for each blob of Azure, and more with its metadata. As
# a tree each takes far more memory than in the text.
MOST_TAGS = 200_000
_MOST_QUOTES = 2 * MOST_TAGS  # two for each attribute


def plain_xml(body: bytes) -> str:
    """Return a document's text, without a byte order mark. Raises ValueError, which says what is wrong with it.

    Nothing is declared in it, so no parser has anything to expand or to fetch. It is UTF-8, as what stores send: in
    another encoding a declaration could not be seen.
    """
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError("it is not UTF-8") from error
    if "\0" in text:
        raise ValueError("it is not UTF-8")
    if "<!" in text.replace("<![CDATA[", ""):
        raise ValueError("it declares a document type or entities, or has comments; none of these is read")
    if text.count("<") > MOST_TAGS or text.count('"') + text.count("'") > _MOST_QUOTES:
        raise ValueError(f"it has more than {MOST_TAGS} tags or attributes")
    return text
