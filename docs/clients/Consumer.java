// A worker on the feed mailer: each row of the table events arrives in the sink once. Argument: the worker's name.
import java.sql.*;

public class Consumer {
    static final String TAKE = "SELECT batch, token FROM feed_take_batch('mailer', ?, max_rows => 100, lease => '1 minute')";
    static final String ROWS = "SELECT json_agg(row)::text FROM feed_batch_rows('mailer', ?, null::events) AS row";
    static final String FAIL = "SELECT feed_fail_batch('mailer', ?, ?, ?, retry_after => '1 second')";
    static final String FINISH = "SELECT feed_finish_batch('mailer', ?, token => ?)";
    static volatile boolean stopping = false;

    static Object[] one(Connection connection, String text, Object... parameters) throws SQLException {
        try (var statement = connection.prepareStatement(text)) {
            for (int i = 0; i < parameters.length; i++) statement.setObject(i + 1, parameters[i]);
            var row = statement.executeQuery();
            row.next();
            return new Object[] {row.getObject(1), row.getMetaData().getColumnCount() > 1 ? row.getObject(2) : null};
        }
    }

    static void work(String worker, Connection source, Connection sink) throws SQLException {
        var taken = one(source, TAKE, worker);
        Object batch = taken[0], token = taken[1];
        if (batch == null) {
            one(source, "SELECT feed_wait('mailer')"); // at most a second
            return;
        }
        try {
            one(sink, "SELECT store_batch(?, ?)", batch, one(source, ROWS, batch)[0]);
        } catch (SQLException error) {
            one(source, FAIL, batch, token, error.getMessage());
            throw error;
        }
        one(source, FINISH, batch, token);
    }

    public static void main(String[] arguments) throws InterruptedException {
        var main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            stopping = true;
            try { main.join(); } catch (InterruptedException ignored) { }
        }));
        while (!stopping) {
            try (var sink = DriverManager.getConnection(System.getenv("SINK"));
                    var source = DriverManager.getConnection(System.getenv("SOURCE"))) {
                while (!stopping) work(arguments[0], source, sink);
            } catch (SQLException error) {
                System.err.println("trying again: " + error.getMessage());
                Thread.sleep(1000);
            }
        }
    }
}
