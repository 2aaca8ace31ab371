// Rows over HTTP: GET /changes?after=CURSOR returns a page, or a stream of Server-Sent Events.
package main

import (
	"bytes"
	"cmp"
	"compress/flate"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	_ "github.com/jackc/pgx/v5/stdlib"
)

const gone = "This server cannot continue from this cursor. Drop all rows, and begin without a cursor."

type step struct{ rows, next, sealed string }

var (
	database *sql.DB
	head     atomic.Value // the cursor that most clients have reached; "now" until it is known
	reads    sync.Map     // the queries that are running, by cursor
	turn     sync.Mutex   // held by one client behind the head, to leave a connection to the clients at the head
)

func signature(data []byte) []byte {
	code := hmac.New(sha256.New, []byte(os.Getenv("STREAM_KEY")))
	code.Write(data)
	return code.Sum(nil)[:16]
}

func sealed(cursor string) string {
	var data bytes.Buffer
	writer, _ := flate.NewWriter(&data, 9)
	_, _ = io.WriteString(writer, cursor)
	_ = writer.Close()
	return base64.RawURLEncoding.EncodeToString(append(signature(data.Bytes()), data.Bytes()...))
}

func unsealed(text string) (string, bool) {
	data, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(data) < 16 || !hmac.Equal(data[:16], signature(data[16:])) {
		return text, text == "" || text == "now"
	}
	cursor, err := io.ReadAll(flate.NewReader(bytes.NewReader(data[16:])))
	return string(cursor), err == nil
}

// Return the rows after a cursor, and the cursor after these rows. Clients at the same cursor share a query. At the
// head the query waits for rows, at most a second.
func read(after string) (step, error) {
	if head.Load() == "now" && after != "now" {
		if _, err := read("now"); err != nil {
			return step{}, fmt.Errorf("the table cannot be read: %v", err) // %v, not %w: the client's cursor is not refused
		}
	}
	query, _ := reads.LoadOrStore(after, sync.OnceValues(func() (result step, err error) {
		defer reads.Delete(after)
		if after != head.Load() {
			turn.Lock()
			defer turn.Unlock()
		}
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second) // notices an unresponsive server
		defer cancel()
		at := head.Load()
		row := database.QueryRowContext(ctx, "CALL stream_next($1, nullif($2::text, $1))", after, at)
		if err = row.Scan(&result.rows, &result.next); err != nil {
			log.Print("trying again: ", err)
			head.CompareAndSwap(at, "now") // the server or the timeline may have changed
		} else if after == at || after == result.next {
			head.CompareAndSwap(at, result.next)
		}
		result.sealed = sealed(result.next) // once for all clients, since this takes a third of a millisecond
		return result, err
	}))
	return query.(func() (step, error))()
}

func answer(w http.ResponseWriter, r *http.Request) {
	after, isSigned := unsealed(cmp.Or(r.Header.Get("Last-Event-ID"), r.URL.Query().Get("after")))
	if !isSigned {
		http.Error(w, "This service has not signed this cursor.", http.StatusBadRequest)
		return
	}
	result, err := read(after)
	var failure *pgconn.PgError
	if errors.As(err, &failure) && failure.Code == "55000" {
		http.Error(w, gone, http.StatusGone)
	} else if err != nil {
		http.Error(w, "Try again.", http.StatusServiceUnavailable)
	} else if r.Method == "HEAD" || !strings.Contains(r.Header.Get("Accept"), "text/event-stream") {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"rows": %s, "next": "%s"}`, result.rows, result.sealed)
	} else {
		w.Header().Set("Content-Type", "text/event-stream")
		for beat := time.Now(); err == nil && http.NewResponseController(w).Flush() == nil; result, err = read(after) {
			if result.next != after {
				fmt.Fprintf(w, "id: %s\ndata: %s\n\n", result.sealed, result.rows)
			} else if time.Since(beat) > 15*time.Second {
				fmt.Fprint(w, ":\n\n") // shows client and service that the connection exists
				beat = time.Now()
			}
			after = result.next // if the read fails, the client connects again, with its last cursor
		}
	}
}

func main() {
	var err error
	if database, err = sql.Open("pgx", os.Getenv("SOURCE")); err != nil || os.Getenv("STREAM_KEY") == "" {
		log.Fatal("SOURCE is not valid, or STREAM_KEY is empty: ", err)
	}
	database.SetMaxOpenConns(2)
	head.Store("now")
	http.HandleFunc("GET /changes", answer)
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), nil))
}
