// A worker on the feed mailer: each row of the table events arrives in the sink once. Argument: the worker's name.
package main

import (
	"database/sql"
	"log"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// A server that is gone without a word is noticed in 20 seconds: while nothing is sent by keepalives, else by 18,
// which is TCP_USER_TIMEOUT of Linux.
var dialer = net.Dialer{
	Timeout:         20 * time.Second,
	KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 2},
	Control: func(network, _ string, raw syscall.RawConn) error {
		return raw.Control(func(socket uintptr) {
			if network != "unix" {
				_ = syscall.SetsockoptInt(int(socket), syscall.IPPROTO_TCP, 18, 20000)
			}
		})
	},
}

// Connects when it is used, and whenever that was lost.
func database(name string) *sql.DB {
	config, err := pgx.ParseConfig(os.Getenv(name))
	if err != nil {
		log.Fatal(err)
	}
	config.DialFunc = dialer.DialContext
	return stdlib.OpenDB(*config)
}

func main() {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	source, sink := database("SOURCE"), database("SINK")
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
