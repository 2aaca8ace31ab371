// A worker on the feed mailer: each row of the table events arrives in the sink once. Argument: the worker's name.
import java.sql.*;
import java.util.*;

public class Consumer {
    static Connection connect(String name) throws SQLException {
        var settings = new Properties(); // these notice an unresponsive server; the URL may override them
        settings.putAll(Map.of("tcpKeepAlive", "true", "connectTimeout", "20", "socketTimeout", "25"));
        return DriverManager.getConnection(System.getenv(name), settings);
    }

    public static synchronized void main(String[] arguments) throws InterruptedException {
        var stop = new Thread(() -> { synchronized (Consumer.class) { } }); // started by a signal; waits for main()
        Runtime.getRuntime().addShutdownHook(stop);
        while (!stop.isAlive()) {
            try (var sink = connect("SINK"); var source = connect("SOURCE");
                    var take = source.prepareStatement("CALL take_batch(?)");
                    var store = sink.prepareStatement("SELECT store_batch(?, ?, ?)");
                    var end = source.prepareStatement("SELECT end_batch(?, ?, ?)")) {
                sink.createStatement().execute("SELECT 1"); // no batch is taken while the sink is unavailable
                take.setString(1, arguments[0]);
                while (!stop.isAlive()) {
                    var batch = take.executeQuery();
                    if (!batch.next() || batch.getObject("number") == null) continue;
                    store.setLong(1, batch.getLong("number"));
                    store.setString(2, batch.getString("rows"));
                    store.setInt(3, batch.getInt("tries"));
                    end.setLong(1, batch.getLong("number"));
                    end.setLong(2, batch.getLong("token"));
                    String failure = null;
                    try {
                        store.execute();
                    } catch (SQLException error) {
                        failure = error.getMessage().lines().findFirst().get(); // without the CONTEXT
                    }
                    end.setString(3, failure);
                    var result = end.executeQuery();
                    result.next();
                    System.out.println(batch.getString("label") + ": " + result.getString(1) + ", error: " + failure);
                    if (failure != null) throw new SQLException(failure);
                }
            } catch (SQLException error) {
                System.err.println("trying again: " + error);
                Thread.sleep(1000);
            }
        }
    }
}
