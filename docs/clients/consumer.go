// A worker on the feed mailer: each row of the table events arrives in the sink once. Argument: the worker's name.
package main

import (
	"database/sql"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
)

func main() {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	source, _ := sql.Open("pgx", os.Getenv("SOURCE")) // connects when it is used, and whenever that was lost
	sink, _ := sql.Open("pgx", os.Getenv("SINK"))
	for len(stop) == 0 {
		var batch, token, rows, tries, failure any
		var label, became *string
		var dead int
		err := sink.Ping() // while the sink is away, no batch is taken
		if err == nil {
			err = source.QueryRow("CALL take_batch($1)", os.Args[1]).Scan(&batch, &token, &rows, &tries, &label)
		}
		if err == nil && batch != nil {
			refused := sink.QueryRow("SELECT store_batch($1, $2, $3)", batch, rows, tries).Scan(&dead)
			if refused != nil {
				failure = refused.Error()
			}
			err = source.QueryRow("SELECT end_batch($1, $2, $3)", batch, token, failure).Scan(&became)
			if err == nil {
				log.Printf("%s: %s, %d in dead_letters, error: %v", *label, *became, dead, failure)
			}
		}
		if err != nil {
			log.Print("trying again: ", err)
			time.Sleep(time.Second)
		}
	}
}
