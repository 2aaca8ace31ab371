// A reader for inorder lab check. Replace the query with yours; docs/check-protocol.md describes the protocol.
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.sql.DriverManager;
import java.util.regex.Pattern;

public class Reader {
    /** The driver does not read the environment variables of libpq, and cannot connect to a Unix socket. */
    static String url() {
        String options = URLEncoder.encode(System.getenv("PGOPTIONS"), StandardCharsets.UTF_8);
        return "jdbc:postgresql://" + System.getenv("PGHOST") + ":" + System.getenv("PGPORT") + "/"
            + System.getenv("PGDATABASE") + "?user=" + System.getenv("PGUSER") + "&options=" + options;
    }

    public static void main(String[] arguments) throws Exception {
        var last = Pattern.compile("\"last\": *(\\d+)");
        try (var connection = DriverManager.getConnection(url());
             var query = connection.prepareStatement("SELECT id FROM events WHERE id > ? ORDER BY id")) {
            var lines = new BufferedReader(new InputStreamReader(System.in));
            for (String line; (line = lines.readLine()) != null;) {
                var match = last.matcher(line);
                long position = match.find() ? Long.parseLong(match.group(1)) : 0;
                query.setLong(1, position);
                for (var rows = query.executeQuery(); rows.next();)
                    System.out.println(position = rows.getLong(1));
                System.out.println("{\"last\": " + position + "}");
            }
        }
    }
}
