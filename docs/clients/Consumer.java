// A worker on the feed mailer: each row of the table events arrives in the sink once. Argument: the worker's name.
import java.sql.*;
import java.util.*;

public class Consumer {
    static Connection connect(String name) throws SQLException {
        var how = new Properties(); // what notices a server that is gone without a word; the URL may say otherwise
        how.putAll(Map.of("tcpKeepAlive", "true", "connectTimeout", "20", "socketTimeout", "25"));
        return DriverManager.getConnection(System.getenv(name), how);
    }

    public static synchronized void main(String[] arguments) throws InterruptedException {
        var stop = new Thread(() -> { synchronized (Consumer.class) { } }); // begun by a signal; waits for main()
        Runtime.getRuntime().addShutdownHook(stop);
        while (!stop.isAlive()) {
            try (var sink = connect("SINK"); var source = connect("SOURCE");
                    var take = source.prepareStatement("CALL take_batch(?)");
                    var store = sink.prepareStatement("SELECT store_batch(?, ?, ?)");
                    var end = source.prepareStatement("SELECT end_batch(?, ?, ?)")) {
                sink.createStatement().execute("SELECT 1"); // while the sink is away, no batch is taken
                take.setString(1, arguments[0]);
                while (!stop.isAlive()) {
                    var taken = take.executeQuery();
                    if (!taken.next() || taken.getObject("number") == null) continue;
                    store.setLong(1, taken.getLong("number"));
                    store.setString(2, taken.getString("rows"));
                    store.setInt(3, taken.getInt("tries"));
                    end.setLong(1, taken.getLong("number"));
                    end.setLong(2, taken.getLong("token"));
                    String failure = null;
                    try {
                        store.execute();
                    } catch (SQLException error) {
                        failure = error.getMessage().lines().findFirst().get(); // without the CONTEXT
                    }
                    end.setString(3, failure);
                    var ended = end.executeQuery();
                    ended.next();
                    System.out.println(taken.getString("label") + ": " + ended.getString(1) + ", error: " + failure);
                    if (failure != null) throw new SQLException(failure);
                }
            } catch (SQLException error) {
                System.err.println("trying again: " + error);
                Thread.sleep(1000);
            }
        }
    }
}
