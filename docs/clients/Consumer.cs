// A worker on the feed mailer: each row of the table events arrives in the sink once. Argument: the worker's name.
using System.Runtime.InteropServices;
using Npgsql;

const string Take = "SELECT batch, token FROM feed_take_batch('mailer', $1, max_rows => 100, lease => '1 minute')";
const string Rows = "SELECT json_agg(row)::text FROM feed_batch_rows('mailer', $1, null::events) AS row";
const string Fail = "SELECT feed_fail_batch('mailer', $1, $2, $3, retry_after => '1 second')";
const string Finish = "SELECT feed_finish_batch('mailer', $1, token => $2)";
using var stop = new CancellationTokenSource();
void Stop(PosixSignalContext context) { context.Cancel = true; stop.Cancel(); }
using var interrupted = PosixSignalRegistration.Create(PosixSignal.SIGINT, Stop);
using var terminated = PosixSignalRegistration.Create(PosixSignal.SIGTERM, Stop);

object[] One(NpgsqlConnection connection, string text, params object[] parameters)
{
    using var command = new NpgsqlCommand(text, connection);
    foreach (var parameter in parameters) command.Parameters.Add(new() { Value = parameter });
    using var reader = command.ExecuteReader();
    reader.Read();
    var row = new object[reader.FieldCount];
    reader.GetValues(row);
    return row;
}

void Work(NpgsqlConnection source, NpgsqlConnection sink)
{
    if (One(source, Take, args[0]) is not [long batch, long token])
    {
        One(source, "SELECT feed_wait('mailer')"); // at most a second
        return;
    }
    var rows = One(source, Rows, batch)[0];
    try { One(sink, "SELECT store_batch($1, $2)", batch, rows); }
    catch (NpgsqlException error)
    {
        One(source, Fail, batch, token, error.Message);
        throw;
    }
    One(source, Finish, batch, token);
}

while (!stop.IsCancellationRequested)
{
    try
    {
        using var sink = new NpgsqlConnection(Environment.GetEnvironmentVariable("SINK"));
        using var source = new NpgsqlConnection(Environment.GetEnvironmentVariable("SOURCE"));
        sink.Open();
        source.Open();
        while (!stop.IsCancellationRequested) Work(source, sink);
    }
    catch (NpgsqlException error)
    {
        Console.Error.WriteLine($"trying again: {error.Message}");
        stop.Token.WaitHandle.WaitOne(1000);
    }
}
