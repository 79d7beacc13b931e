from agent.stock.book import Book
from agent.stock.retries import WHEN_SPACE_CHANGES_S
from tests.unit.agent.worlds import entry, model_node, setback

KEY = ("llama", "r1")


def short() -> Book:
    """A book with one entry that does not fit, and one that failed otherwise."""
    book = Book()
    other = entry("other")
    book.take_model_node(model_node([entry(), other], storage_limit=10), 0.0)
    book.setbacks = {KEY: setback(entry(), WHEN_SPACE_CHANGES_S), other.key: setback(other, 50.0)}
    return book


def test_what_does_not_fit_asks_again_when_the_limit_changes() -> None:
    book = short()
    book.take_model_node(model_node([entry(), entry("other")], storage_limit=10), 5.0)
    assert book.setbacks[KEY].due_s == WHEN_SPACE_CHANGES_S
    book.take_model_node(model_node([entry(), entry("other")], storage_limit=20), 6.0)
    assert book.setbacks[KEY].due_s == 6.0
    assert book.setbacks["other", "r1"].due_s == 50.0


def test_what_does_not_fit_asks_again_when_space_may_have_been_freed() -> None:
    book = short()
    book.retry_shortages(7.0)
    assert book.setbacks[KEY].due_s == 7.0


def test_what_no_entry_names_any_more_is_forgotten() -> None:
    book = short()
    book.skipped = {KEY}
    book.take_model_node(model_node([entry("other")]), 8.0)
    assert list(book.setbacks) == [("other", "r1")]
    assert book.skipped == set()


def test_nothing_is_forgotten_while_there_is_no_model_node() -> None:
    book = short()
    book.take_model_node(None, 8.0)
    assert len(book.setbacks) == 2
    assert book.storage_limit == 0
