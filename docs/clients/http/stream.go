// Rows over HTTP: GET /changes?after=CURSOR returns a page, or a stream of Server-Sent Events.
package main

import (
	"bytes"
	"cmp"
	"compress/flate"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const gone = "This server does not continue from that cursor. Drop what you have, and begin without a cursor."

type step struct{ rows, next string }

var (
	pool  *pgxpool.Pool
	turn  sync.Mutex // of clients that are behind: the next one may find what it needs
	lock  sync.Mutex // of what follows
	head  string
	steps = map[string]step{}
	moved = make(chan struct{})
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
		return "", false
	}
	cursor, err := io.ReadAll(flate.NewReader(bytes.NewReader(data[16:])))
	return string(cursor), err == nil
}

// A server that is gone without a word is noticed in 20 seconds.
func read(after string, head *string) (result step, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	err = pool.QueryRow(ctx, "CALL stream_next($1, $2)", after, head).Scan(&result.rows, &result.next)
	return result, err
}

func isRefused(err error) bool {
	var failure *pgconn.PgError
	return errors.As(err, &failure) && failure.Code == "55000"
}

// Waits, and reads for all clients at the head.
func follow() {
	for {
		after := cmp.Or(head, "now")
		result, err := read(after, nil)
		if err == nil {
			keep(after, result)
			moveTo(result.next)
			continue
		}
		log.Print("trying again: ", err)
		if isRefused(err) {
			moveTo("")
		}
		time.Sleep(time.Second)
	}
}

func keep(after string, result step) {
	lock.Lock()
	defer lock.Unlock()
	if result.next != after && after != "now" {
		if len(steps) == 100 {
			clear(steps)
		}
		steps[after] = result
	}
}

func moveTo(cursor string) {
	lock.Lock()
	defer lock.Unlock()
	if cursor != head {
		head = cursor
		close(moved)
		moved = make(chan struct{})
	}
}

func known(after string) (at string, result step, change <-chan struct{}) {
	lock.Lock()
	defer lock.Unlock()
	if after == head {
		return head, step{"[]", after}, moved
	}
	return head, steps[after], moved
}

// The rows after a cursor, and the cursor after them; the same cursor if there are none, until the head moves.
func next(after string) (step, <-chan struct{}, error) {
	at, result, change := known(after)
	if at == "" {
		return result, change, errors.New("the table cannot be read")
	} else if result.next != "" {
		return result, change, nil
	}
	turn.Lock()
	defer turn.Unlock()
	if at, result, change = known(after); result.next != "" {
		return result, change, nil
	}
	result, err := read(after, &at)
	if err == nil {
		keep(after, result)
	}
	return result, change, err
}

func answer(w http.ResponseWriter, r *http.Request) {
	after, isOurs := cmp.Or(r.Header.Get("Last-Event-ID"), r.URL.Query().Get("after")), true
	if after != "" && after != "now" {
		after, isOurs = unsealed(after)
	}
	if !isOurs {
		http.Error(w, "This is no cursor of this server.", http.StatusBadRequest)
		return
	}
	result, change, err := next(after)
	if isRefused(err) {
		http.Error(w, gone, http.StatusGone)
	} else if err != nil {
		http.Error(w, "Try again.", http.StatusServiceUnavailable)
	} else if strings.Contains(r.Header.Get("Accept"), "text/event-stream") {
		w.Header().Set("Content-Type", "text/event-stream")
		events(w, r, after, result, change)
	} else {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"rows": %s, "next": "%s"}`, result.rows, sealed(result.next))
	}
}

// Ends when the client goes away, or a read fails: then the client comes again, with its last cursor.
func events(w http.ResponseWriter, r *http.Request, after string, result step, change <-chan struct{}) {
	var err error
	for err == nil && http.NewResponseController(w).Flush() == nil {
		if result.next != after && result.rows != "[]" {
			fmt.Fprintf(w, "id: %s\ndata: %s\n\n", sealed(result.next), result.rows)
		} else if result.next != after {
			fmt.Fprintf(w, "id: %s\n\n", sealed(result.next))
		} else {
			select {
			case <-change:
			case <-r.Context().Done():
				return
			case <-time.After(15 * time.Second):
				fmt.Fprint(w, ":\n\n") // shows both sides that the other is there
			}
		}
		after = result.next
		result, change, err = next(after)
	}
}

func main() {
	var err error
	if pool, err = pgxpool.New(context.Background(), os.Getenv("SOURCE")); err != nil {
		log.Fatal(err)
	}
	go follow()
	http.HandleFunc("GET /changes", answer)
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), nil))
}
