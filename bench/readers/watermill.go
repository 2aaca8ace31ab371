// Watermill's subscriber as a reader for inorder lab check. The program implements docs/check-protocol.md.
//
// Each poll is one query of the subscriber. The program waits for a line of input before each query. The subscriber
// stores its position only after the next line arrives, because the rows of the poll are stored by then.
package main

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"os"

	watermill "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	_ "github.com/lib/pq"
)

var (
	stdin = bufio.NewScanner(os.Stdin)
	polls int
	begun bool // the line that begins the next poll has been read
)

// next ends the current poll, and waits for the line that begins the next one.
func next() {
	if polls++; polls > 1 {
		fmt.Println(`{"last": null}`)
	}
	if !stdin.Scan() {
		os.Exit(0)
	}
}

type schema struct {
	watermill.DefaultPostgreSQLSchema
}

func (s schema) SelectQuery(params watermill.SelectQueryParams) (watermill.Query, error) {
	if !begun {
		next()
	}
	begun = false
	return s.DefaultPostgreSQLSchema.SelectQuery(params)
}

type offsets struct {
	watermill.DefaultPostgreSQLOffsetsAdapter
}

func (o offsets) AckMessageQuery(params watermill.AckMessageQueryParams) (watermill.Query, error) {
	next()
	begun = true
	return o.DefaultPostgreSQLOffsetsAdapter.AckMessageQuery(params)
}

func named(table string) func(string) string {
	return func(string) string { return table }
}

func main() {
	db, err := sql.Open("postgres", "")
	fail(err)
	var messages schema
	var positions offsets
	messages.GenerateMessagesTableName = named("events")
	positions.GenerateMessagesOffsetsTableName = named("offsets")
	subscriber, err := watermill.NewSubscriber(watermill.BeginnerFromStdSQL(db), watermill.SubscriberConfig{
		SchemaAdapter: messages, OffsetsAdapter: positions, InitializeSchema: true, PollInterval: 1,
	}, nil)
	fail(err)
	received, err := subscriber.Subscribe(context.Background(), "events")
	fail(err)
	for message := range received {
		fmt.Println(message.UUID)
		message.Ack()
	}
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
