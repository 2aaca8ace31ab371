"""The blocks in README and docs that test_examples.py does not run, each with the reason.

A block is identified by its page and its beginning. An empty beginning stands for all blocks of the page. Calls of the
tool in these blocks are still parsed. If a reason begins with the name of a test, that test runs the block.
"""

MINUTES = "takes minutes; the tests of the experiment run it in small"
INSTALLS = "installs packages, or asks for sudo"
PRISTINE = "installs packages: script/packages does it on pristine systems, not from the page"
CITUS = "needs Citus: script/citus"
SPARK = "needs Spark: script/engines"

NOT_RUN: dict[tuple[str, str], str] = {
    ("README.md", "git clone <this repository> && cd inorder"): INSTALLS,
    ("README.md", "pipx install '.[binary]'"): INSTALLS,
    ("README.md", "inorder lab run insert"): MINUTES,
    ("docs/advice.md", "inorder advise"): "test_advise",
    ("docs/lake.md", "CREATE VIEW customers AS"): "test_changes_tail",
    ("docs/lake.md", "CREATE TABLE customers"): "ClickHouse: test_changes_tail, where chdb is installed",
    ("docs/check.md", "inorder lab check"): MINUTES,
    ("docs/results/readers-18.md", "inorder lab check NAME"): MINUTES,
    ("docs/check-protocol.md", "def test_reader(lossless):"): "an outline: test_lab_check_outputs runs a whole one",
    ("docs/check-protocol.md", "pipx run --spec"): INSTALLS,
    ("docs/check.md", "[outbox]"): "test_lab_check",
    ("docs/citus.md", "CREATE TABLE events ("): CITUS,
    ("docs/citus.md", "inorder citus events"): CITUS,
    ("docs/citus.md", 'inorder tail events_102008 --position p --dsn "host=worker1 dbname=shop \\'): CITUS,
    (
        "docs/clients/README.md",
        "SOURCE='host=db1 dbname=shop' SINK='host=db2 dbname=mail' python3 consumer.py 'worker 1'",
    ): "test_clients",
    ("docs/clients/orm.md", ""): "test_orm",
    ("docs/clients/http/README.md", "psql -f stream.sql"): "test_streams",
    ("docs/clients/http/README.md", "let cursor"): "for a browser",
    ("docs/clients/http/README.md", "function show"): "for a browser; test_streams has the same in Python",
    ("docs/dlt.md", "pip install 'inorder[binary,dlt]'"): INSTALLS,
    ("docs/dlt.md", "import dlt"): "needs dlt: script/engines",
    ("docs/feed-operations.md", "feed"): "test_feeds",
    ("docs/feed-waiting.md", "while True:"): "a loop without end, of calls that other examples have",
    ("docs/feed-workers.md", "import psycopg"): "test_feed_batches",
    ("docs/uuid_v1.md", "inorder generate uuid-v1 --count 217M --until 2019-07-28 --out v1.txt"): MINUTES,
    ("docs/results/queues-18.md", "bench run"): "needs the harness of job queues, and an hour",
    ("docs/install.md", "pipx install '.[binary]'"): PRISTINE,
    ("docs/install.md", "inorder extension uninstall"): PRISTINE,
    ("docs/install.md", "inorder uninstall"): "removes it from the server; test_install does that",
    ("docs/install.md", "apt-get build-dep"): PRISTINE,
    ("docs/install.md", "pgxn install"): PRISTINE,
    ("docs/install.md", "apt-get install make"): INSTALLS,
    ("docs/install.md", "docker build"): "needs Docker; script/packages runs the instructions of the Dockerfile",
    ("docs/keys.md", "BEGIN;"): "needs the extension sequential_uuids",
    ("docs/lab.md", "inorder demo"): MINUTES,
    ("docs/like.md", "inorder lab run insert --like orders --source service=prod"): MINUTES,
    ("docs/recipes.md", ""): "test_recipes",
    ("docs/sets.md", "SELECT id, xact FROM events"): "test_lab_check",
    ("docs/sets.md", "SELECT ended()"): "test_lab_check",
    ("docs/sets.md", "WITH moved"): "test_lab_check",
    ("docs/spark.md", ""): SPARK,
    ("docs/tail.md", '{"batch": "5b1f60c0b0f9b0a7a4a1a3f3f4a1c9d2", "rows":'): "a line that test_tail_batches reads",
    ("docs/tail.md", "for line in sys.stdin.buffer:"): "test_tail_batches",
    ("docs/tail.md", "pip install '.[arrow,binary]'"): INSTALLS,
    ("docs/uuid_v1.md", "BEGIN;"): "needs the extension uuid_v1",
    ("docs/upgrading.md", "make && sudo make install"): INSTALLS,
}
