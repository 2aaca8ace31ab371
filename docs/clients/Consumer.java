// A worker on the feed mailer: each row of the table events arrives in the sink once. Argument: the worker's name.
import java.sql.*;

public class Consumer {
    public static synchronized void main(String[] arguments) throws InterruptedException {
        var stop = new Thread(() -> { synchronized (Consumer.class) { } }); // begun by a signal; waits for main()
        Runtime.getRuntime().addShutdownHook(stop);
        while (!stop.isAlive()) {
            try (var sink = DriverManager.getConnection(System.getenv("SINK"));
                    var source = DriverManager.getConnection(System.getenv("SOURCE"));
                    var take = source.prepareStatement("CALL take_batch(?)");
                    var store = sink.prepareStatement("SELECT store_batch(?, ?)");
                    var end = source.prepareStatement("SELECT end_batch(?, ?, ?)")) {
                sink.createStatement().execute("SELECT 1"); // while the sink is away, no batch is taken
                take.setString(1, arguments[0]);
                end.setString(3, null);
                while (!stop.isAlive()) {
                    var taken = take.executeQuery();
                    if (!taken.next() || taken.getObject("batch") == null) continue;
                    store.setLong(1, taken.getLong("batch"));
                    store.setString(2, taken.getString("rows"));
                    end.setLong(1, taken.getLong("batch"));
                    end.setLong(2, taken.getLong("token"));
                    try {
                        store.execute();
                    } catch (SQLException error) {
                        end.setString(3, error.toString());
                        end.execute();
                        throw error;
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
