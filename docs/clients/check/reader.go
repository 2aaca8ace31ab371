// A reader for inorder lab check. Replace the query with yours; docs/check-protocol.md describes the protocol.
package main

import (
	"bufio"
	"database/sql"
	"encoding/json"
	"fmt"
	"log"
	"os"

	_ "github.com/jackc/pgx/v5/stdlib"
)

func main() {
	db, err := sql.Open("pgx", "")
	fail(err)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var poll struct{ Last int64 }
		fail(json.Unmarshal(lines.Bytes(), &poll))
		rows, err := db.Query("SELECT id FROM events WHERE id > $1 ORDER BY id", poll.Last)
		fail(err)
		for rows.Next() {
			fail(rows.Scan(&poll.Last))
			fmt.Println(poll.Last)
		}
		fail(rows.Err())
		fmt.Printf("{\"last\": %d}\n", poll.Last)
	}
}

func fail(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
