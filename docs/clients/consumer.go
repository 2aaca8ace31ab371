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

// These settings notice an unresponsive server after 20 seconds: keepalives while nothing is sent, otherwise option 18,
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

// A pool that connects at its first use, and again after a connection was lost.
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
		var label, result *string
		var deadRows int
		err := sink.Ping() // no batch is taken while the sink is unavailable
		if err == nil {
			err = source.QueryRow("CALL take_batch($1)", os.Args[1]).Scan(&batch, &token, &rows, &tries, &label)
		}
		if err == nil && batch != nil {
			storeError := sink.QueryRow("SELECT store_batch($1, $2, $3)", batch, rows, tries).Scan(&deadRows)
			if storeError != nil {
				failure = storeError.Error()
			}
			err = source.QueryRow("SELECT end_batch($1, $2, $3)", batch, token, failure).Scan(&result)
			if err == nil {
				log.Printf("%s: %s, %d in dead_letters, error: %v", *label, *result, deadRows, failure)
			}
		}
		if err != nil {
			log.Print("trying again: ", err)
			time.Sleep(time.Second)
		}
	}
}
