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
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const gone = "This server does not continue from that cursor. Drop what you have, and begin without a cursor."

type step struct{ rows, next string }

// A cursor that the process has reached, and a channel that is closed when it moves on.
type place struct {
	cursor string
	left   chan struct{}
}

var (
	pool  *pgxpool.Pool
	head  atomic.Pointer[place]
	steps sync.Map // the last ones, by the cursor before them
	kept  atomic.Int64
	turn  sync.Mutex // of clients that are behind: the next one may find what it needs
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

// A server that is gone without a word is noticed in 20 seconds.
func read(after string, head *string) (result step, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	err = pool.QueryRow(ctx, "CALL stream_next($1, $2)", after, head).Scan(&result.rows, &result.next)
	if err == nil && after != "now" && after != result.next {
		if kept.Add(1)%100 == 0 {
			steps.Clear()
		}
		steps.Store(after, result)
	}
	return result, err
}

func isRefused(err error) bool {
	var failure *pgconn.PgError
	return errors.As(err, &failure) && failure.Code == "55000"
}

func moveTo(cursor string) {
	close(head.Swap(&place{cursor, make(chan struct{})}).left)
}

// Waits, and reads for all clients at the head.
func follow() {
	for {
		at := head.Load().cursor
		result, err := read(cmp.Or(at, "now"), nil)
		if err == nil && result.next != at {
			moveTo(result.next)
		} else if err != nil {
			log.Print("trying again: ", err)
			if isRefused(err) { // another server or timeline, or a table that was made again
				steps.Clear()
				moveTo("")
			}
			time.Sleep(time.Second)
		}
	}
}

// The rows after a cursor, and the cursor after them; the same cursor if there are none, until the head moves.
func next(after string) (step, *place, error) {
	at := head.Load()
	if at.cursor == "" {
		return step{}, at, errors.New("the table cannot be read")
	} else if after == at.cursor {
		return step{"[]", after}, at, nil
	} else if result, isKept := steps.Load(after); isKept {
		return result.(step), at, nil
	}
	turn.Lock()
	defer turn.Unlock()
	if result, isKept := steps.Load(after); isKept {
		return result.(step), at, nil
	}
	result, err := read(after, &at.cursor)
	return result, at, err
}

func answer(w http.ResponseWriter, r *http.Request) {
	after, isOurs := unsealed(cmp.Or(r.Header.Get("Last-Event-ID"), r.URL.Query().Get("after")))
	if !isOurs {
		http.Error(w, "This is no cursor of this server.", http.StatusBadRequest)
		return
	}
	result, at, err := next(after)
	if isRefused(err) {
		http.Error(w, gone, http.StatusGone)
	} else if err != nil {
		http.Error(w, "Try again.", http.StatusServiceUnavailable)
	} else if strings.Contains(r.Header.Get("Accept"), "text/event-stream") {
		w.Header().Set("Content-Type", "text/event-stream")
		events(w, r, after, result, at)
	} else {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"rows": %s, "next": "%s"}`, result.rows, sealed(result.next))
	}
}

// Ends when the client goes away, or a read fails: then the client comes again, with its last cursor.
func events(w http.ResponseWriter, r *http.Request, after string, result step, at *place) {
	var err error
	for err == nil && http.NewResponseController(w).Flush() == nil {
		if result.next != after {
			fmt.Fprintf(w, "id: %s\ndata: %s\n\n", sealed(result.next), result.rows)
		} else {
			select {
			case <-at.left:
			case <-r.Context().Done():
				return
			case <-time.After(15 * time.Second):
				fmt.Fprint(w, ":\n\n") // shows both sides that the other is there
			}
		}
		after = result.next
		result, at, err = next(after)
	}
}

func main() {
	var err error
	if pool, err = pgxpool.New(context.Background(), os.Getenv("SOURCE")); err != nil {
		log.Fatal(err)
	}
	head.Store(&place{"", make(chan struct{})})
	go follow()
	http.HandleFunc("GET /changes", answer)
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), nil))
}
