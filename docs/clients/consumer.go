// A worker on the feed mailer: each row of the table events arrives in the sink once. Argument: the worker's name.
package main

import (
	"context"
	"errors"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

func work(ctx context.Context, source, sink *pgx.Conn) error {
	var batch, token *int64
	var rows *string
	take := "SELECT batch, token FROM feed_take_batch('mailer', $1, max_rows => 100, lease => '1 minute')"
	if err := source.QueryRow(ctx, take, os.Args[1]).Scan(&batch, &token); err != nil {
		return err
	}
	if batch == nil {
		_, err := source.Exec(ctx, "SELECT feed_wait('mailer')") // at most a second
		return err
	}
	read := "SELECT json_agg(row)::text FROM feed_batch_rows('mailer', $1, null::events) AS row"
	if err := source.QueryRow(ctx, read, batch).Scan(&rows); err != nil {
		return err
	}
	statement, arguments := "SELECT feed_finish_batch('mailer', $1, token => $2)", []any{batch, token}
	_, failure := sink.Exec(ctx, "SELECT store_batch($1, $2)", batch, rows)
	if failure != nil {
		statement = "SELECT feed_fail_batch('mailer', $1, $2, $3, retry_after => '1 second')"
		arguments = append(arguments, failure.Error())
	}
	_, err := source.Exec(ctx, statement, arguments...)
	return errors.Join(failure, err)
}

func session(stop, ctx context.Context) error {
	sink, err := pgx.Connect(ctx, os.Getenv("SINK"))
	if err != nil {
		return err
	}
	defer sink.Close(ctx)
	source, err := pgx.Connect(ctx, os.Getenv("SOURCE"))
	if err != nil {
		return err
	}
	defer source.Close(ctx)
	for err == nil && stop.Err() == nil {
		err = work(ctx, source, sink)
	}
	return err
}

func main() {
	stop, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	for stop.Err() == nil {
		if err := session(stop, context.Background()); err != nil {
			log.Print("trying again: ", err)
			time.Sleep(time.Second)
		}
	}
}
