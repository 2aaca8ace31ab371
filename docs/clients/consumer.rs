// A worker on the feed mailer: each row of the table events arrives in the sink once. Argument: the worker's name.
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::{env, time::Duration};
use tokio::signal::unix::{signal, SignalKind};
use tokio_postgres::{types::Type, Client, Error, NoTls};

const TAKE: &str = "SELECT batch, token FROM feed_take_batch('mailer', $1, max_rows => 100, lease => '1 minute')";
const ROWS: &str = "SELECT json_agg(row)::text FROM feed_batch_rows('mailer', $1, null::events) AS row";
const FAIL: &str = "SELECT feed_fail_batch('mailer', $1, $2, $3, retry_after => '1 second')";
const FINISH: &str = "SELECT feed_finish_batch('mailer', $1, token => $2)";
const WAIT: &str = "SELECT feed_wait('mailer')"; // at most a second

static STOPPING: AtomicBool = AtomicBool::new(false);

async fn connect(name: &str) -> Result<Client, Error> {
    let (client, connection) = tokio_postgres::connect(&env::var(name).expect(name), NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

async fn work(worker: &str, source: &Client, sink: &Client) -> Result<(), Error> {
    let taken = source.query_typed(TAKE, &[(&worker, Type::TEXT)]).await?;
    let (Some(batch), Some(token)) = (taken[0].get::<_, Option<i64>>(0), taken[0].get::<_, Option<i64>>(1)) else {
        return source.query_typed(WAIT, &[]).await.map(drop);
    };
    let read = source.query_typed(ROWS, &[(&batch, Type::INT8)]).await?;
    let rows: Option<String> = read[0].get(0);
    let stored = sink.query_typed("SELECT store_batch($1, $2)", &[(&batch, Type::INT8), (&rows, Type::TEXT)]).await;
    if let Err(error) = stored {
        let reason = error.as_db_error().map_or(error.to_string(), |refusal| refusal.message().to_string());
        source.query_typed(FAIL, &[(&batch, Type::INT8), (&token, Type::INT8), (&reason, Type::TEXT)]).await?;
        return Err(error);
    }
    source.query_typed(FINISH, &[(&batch, Type::INT8), (&token, Type::INT8)]).await.map(drop)
}

async fn session(worker: &str) -> Result<(), Error> {
    let (sink, source) = (connect("SINK").await?, connect("SOURCE").await?);
    while !STOPPING.load(Relaxed) {
        work(worker, &source, &sink).await?;
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    for kind in [SignalKind::interrupt(), SignalKind::terminate()] {
        let mut signals = signal(kind).expect("signals");
        tokio::spawn(async move { STOPPING.store(signals.recv().await.is_some(), Relaxed) });
    }
    let worker = env::args().nth(1).expect("the name of the worker");
    while !STOPPING.load(Relaxed) {
        if let Err(error) = session(&worker).await {
            eprintln!("trying again: {error:?}");
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
}
