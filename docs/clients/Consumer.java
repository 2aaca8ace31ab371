// A worker on the feed mailer: each row of the table events arrives in the sink once. Argument: the worker's name.
import java.sql.*;

public class Consumer {
    public static synchronized void main(String[] arguments) throws InterruptedException {
        // SIGINT and SIGTERM start this thread. The process ends with it, and so not before main() has returned.
        var stop = new Thread(() -> { synchronized (Consumer.class) { } });
        Runtime.getRuntime().addShutdownHook(stop);
        while (!stop.isAlive()) {
            try (var sink = DriverManager.getConnection(System.getenv("SINK"));
                    var source = DriverManager.getConnection(System.getenv("SOURCE"));
                    var ping = sink.prepareStatement("SELECT 1");
                    var take = source.prepareStatement("CALL take_batch(?)");
                    var store = sink.prepareStatement("SELECT store_batch(?, ?)");
                    var end = source.prepareStatement("SELECT end_batch(?, ?, ?)")) {
                take.setString(1, arguments[0]);
                while (!stop.isAlive()) {
                    ping.execute(); // while the sink is away, no batch is taken
                    var taken = take.executeQuery();
                    if (!taken.next() || taken.getObject("batch") == null) continue;
                    store.setLong(1, taken.getLong("batch"));
                    store.setString(2, taken.getString("rows"));
                    end.setLong(1, taken.getLong("batch"));
                    end.setLong(2, taken.getLong("token"));
                    end.setString(3, null);
                    try {
                        store.execute();
                    } catch (SQLException error) {
                        end.setString(3, error.toString());
                    }
                    end.execute();
                }
            } catch (SQLException error) {
                System.err.println("trying again: " + error);
                Thread.sleep(1000);
            }
        }
    }
}
