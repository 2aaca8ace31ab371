// A worker on the feed mailer: each row of the table events arrives in the sink once. Argument: the worker's name.
use std::{env, time::Duration};
use tokio::signal::{ctrl_c, unix};
use tokio_postgres::{types::{ToSql, Type}, Client, Config, Error, NoTls};

fn message(error: &Error) -> String {
    error.as_db_error().map_or(format!("{error:?}"), |e| e.to_string()) // without the CONTEXT
}

async fn connect(name: &str) -> Result<Client, Error> {
    let mut config: Config = env::var(name).expect(name).parse()?;
    if config.get_tcp_user_timeout().is_none() {
        // These settings notice an unresponsive server after 20 seconds.
        config.connect_timeout(Duration::from_secs(20)).tcp_user_timeout(Duration::from_secs(20)).keepalives_retries(2);
        config.keepalives_idle(Duration::from_secs(10)).keepalives_interval(Duration::from_secs(5));
    }
    let (client, connection) = config.connect(NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

type Arguments<'a> = [(&'a (dyn ToSql + Sync), Type); 3];

async fn work(stop: &tokio::task::JoinHandle<()>) -> Result<(), Error> {
    let (sink, source) = (connect("SINK").await?, connect("SOURCE").await?);
    sink.batch_execute("SELECT 1").await?; // no batch is taken while the sink is unavailable
    while !stop.is_finished() {
        let row = &source.query_typed("CALL take_batch($1)", &[(&env::args().nth(1), Type::TEXT)]).await?[0];
        let Some(batch) = row.get::<_, Option<i64>>(0) else { continue };
        let (token, rows, tries): (i64, Option<String>, i32) = (row.get(1), row.get(2), row.get(3));
        let arguments: Arguments = [(&batch, Type::INT8), (&rows, Type::TEXT), (&tries, Type::INT4)];
        let stored = sink.query_typed("SELECT store_batch($1, $2, $3)", &arguments).await;
        let failure = stored.as_ref().err().map(message);
        let end = "SELECT end_batch($1, $2, $3)";
        let arguments: Arguments = [(&batch, Type::INT8), (&token, Type::INT8), (&failure, Type::TEXT)];
        let result = source.query_typed(end, &arguments).await?;
        println!("{}: {}, error: {failure:?}", row.get::<_, &str>(4), result[0].get::<_, &str>(0));
        stored?;
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut terminate = unix::signal(unix::SignalKind::terminate()).expect("signals");
    let stop = tokio::spawn(async move {
        tokio::select! { _ = ctrl_c() => (), _ = terminate.recv() => () }
    });
    while !stop.is_finished() {
        if let Err(error) = work(&stop).await {
            eprintln!("trying again: {}", message(&error));
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
}
