// A worker on the feed mailer: each row of the table events arrives in the sink once. Argument: the worker's name.
using System.Runtime.InteropServices;
using Npgsql;

var stopping = false;
using var interrupted = PosixSignalRegistration.Create(PosixSignal.SIGINT, signal => signal.Cancel = stopping = true);
using var terminated = PosixSignalRegistration.Create(PosixSignal.SIGTERM, signal => signal.Cancel = stopping = true);

// These settings notice an unresponsive server; the connection string may override them.
NpgsqlConnection Open(string name) {
    var connection = new NpgsqlConnection("Timeout=10;Command Timeout=15;Tcp Keepalive=true;Tcp Keepalive Time=10;"
        + "Tcp Keepalive Interval=5;" + Environment.GetEnvironmentVariable(name));
    connection.Open();
    return connection;
}

object[] Call(NpgsqlConnection connection, string text, params object[] parameters) {
    using var command = new NpgsqlCommand(text, connection);
    foreach (var parameter in parameters) command.Parameters.Add(new() { Value = parameter });
    using var reader = command.ExecuteReader();
    reader.Read();
    return Enumerable.Range(0, reader.FieldCount).Select(reader.GetValue).ToArray();
}

while (!stopping) {
    try {
        using var sink = Open("SINK");
        using var source = Open("SOURCE");
        Call(sink, "SELECT 1"); // no batch is taken while the sink is unavailable
        while (!stopping) {
            var row = Call(source, "CALL take_batch($1)", args[0]);
            if (row is not [long batch, long token, var rows, int tries, var label]) continue;
            try {
                var deadRows = Call(sink, "SELECT store_batch($1, $2, $3)", batch, rows, tries)[0];
                Console.WriteLine($"{label}: {deadRows} in dead_letters");
            } catch (NpgsqlException error) {
                var result = Call(source, "SELECT end_batch($1, $2, $3)", batch, token, error.Message)[0];
                Console.WriteLine($"{label}: {result}: {error.Message}");
                throw;
            }
            Call(source, "SELECT end_batch($1, $2, null)", batch, token);
        }
    } catch (NpgsqlException error) {
        Console.Error.WriteLine($"trying again: {error.Message}");
        Thread.Sleep(1000);
    }
}
