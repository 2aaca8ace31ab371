-------------------------------- MODULE Feed --------------------------------
(* A feed whose position the database keeps, and whose rows go to a sink      *)
(* outside the database: one worker calls feed_take_batch, feed_batch_rows    *)
(* and feed_finish_batch. The sink stores the rows of a batch together with   *)
(* the number of the batch, and ignores a batch whose number is not higher.   *)
(* Tokens are modelled in Workers.                                            *)
EXTENDS Server

CONSTANTS Variant,    \* "feed" is inorder's method
          Clients     \* processes with the name of the worker, which use the same sink

VARIABLES holder,     \* the client that has the lock of the feed
          taken,      \* client -> the snapshot and the state that the client has seen
          given,      \* client -> the batch that was given to the client
          sink,       \* rows, in order, and the number of the last batch
          dump        \* the rows and the state in a dump
vars == <<server, holder, taken, given, sink, dump>>

Nothing == [is |-> FALSE]
Start == [position |-> {}, batch |-> {}, number |-> <<0, 0>>]
StateIn(w) ==
    LET at == {i \in DOMAIN w : w[i].do \in {"state", "load"}}
    IN IF at = {} THEN Start ELSE w[Max(at)].state
State == StateIn(wal)
LogState(s) == wal' = Append(wal, [do |-> "state", id |-> 0, rows |-> {}, state |-> s])

Higher(a, b) == a[1] > b[1] \/ (a[1] = b[1] /\ a[2] > b[2])
(* The timeline is part of a batch's number, so that a promoted server that lacks the last batches does not use a *)
(* number twice.                                                                                                  *)
After(number) == <<IF Variant = "bare_number" THEN 1 ELSE timeline, number[2] + 1>>
RowsWith(numbers) == {r \in Snapshot("primary").rows : r.number \in numbers}
RECURSIVE InOrder(_)
InOrder(rows) ==
    IF rows = {} THEN <<>>
    ELSE LET first == CHOOSE r \in rows : \A s \in rows : r.number < s.number \/ (r.number = s.number /\ r.n <= s.n)
         IN <<first>> \o InOrder(rows \ {first})

Lock(c) ==
    /\ holder = Nothing /\ ~given[c].is /\ holder' = [is |-> TRUE, client |-> c]
    /\ taken' = IF Variant = "snapshot_first" THEN taken ELSE [taken EXCEPT ![c] = Nothing]
    /\ UNCHANGED <<server, given, sink, dump>>

Look(c) ==
    /\ ~taken[c].is /\ ~given[c].is
    /\ Variant = "snapshot_first" \/ holder = [is |-> TRUE, client |-> c]
    /\ taken' = [taken EXCEPT ![c] = [is |-> TRUE, ended |-> Snapshot("primary").ended, state |-> State]]
    /\ UNCHANGED <<server, holder, given, sink, dump>>

(* feed_take_batch: returns the unfinished batch again, with its number; a new batch is on disk before it is *)
(* returned.                                                                                                 *)
Give(c) ==
    LET s == taken[c].state
        new == [s EXCEPT !.batch = taken[c].ended \ s.position, !.number = After(s.number)]
        got == IF s.batch = {} THEN new ELSE s
    IN /\ holder = [is |-> TRUE, client |-> c] /\ taken[c].is
       /\ IF s.batch = {} /\ new.batch # {}
          THEN LogState(new) /\ flushed' = IF Variant = "no_flush" THEN flushed ELSE Len(wal')
          ELSE UNCHANGED <<wal, flushed>>
       /\ given' = [given EXCEPT ![c] = IF got.batch = {} THEN Nothing
                                        ELSE [is |-> TRUE, number |-> got.number, numbers |-> got.batch]]
       /\ holder' = Nothing /\ taken' = [taken EXCEPT ![c] = Nothing]
       /\ UNCHANGED <<replayed, next, doing, seen, base, timeline, disasters, sink, dump>>

Apply(c) ==
    /\ given[c].is /\ Higher(given[c].number, sink.number)
    /\ given[c].numbers \subseteq Snapshot("primary").ended
    \* feed_batch_rows returns only rows of the unfinished batch.
    /\ State.batch = given[c].numbers /\ State.number = given[c].number
    /\ sink' = [rows |-> sink.rows \o InOrder(RowsWith(given[c].numbers)), number |-> given[c].number]
    /\ UNCHANGED <<server, holder, taken, given, dump>>

(* feed_finish_batch: does nothing if the unfinished batch is another batch. *)
Finish(c) ==
    /\ given[c].is /\ ~Higher(given[c].number, sink.number) /\ holder = Nothing
    /\ IF State.batch # {} /\ State.number = given[c].number
       THEN LogState([State EXCEPT !.position = @ \cup State.batch, !.batch = {}]) /\ flushed' = Kept(flushed)
       ELSE UNCHANGED <<wal, flushed>>
    /\ given' = [given EXCEPT ![c] = Nothing]
    /\ UNCHANGED <<replayed, next, doing, seen, base, timeline, disasters, holder, taken, sink, dump>>

Die(c) ==
    /\ given[c].is /\ given' = [given EXCEPT ![c] = Nothing]
    /\ UNCHANGED <<server, holder, taken, sink, dump>>

Dump ==
    /\ "restore" \in Disasters /\ ~dump.is
    /\ dump' = [is |-> TRUE, rows |-> Snapshot("primary").rows, state |-> State]
    /\ UNCHANGED <<server, holder, taken, given, sink>>

(* A restore into a new cluster, in which ids begin again. feed_rebase raises the base above all numbers in the dump. *)
Restore ==
    /\ dump.is /\ disasters = 0 /\ disasters' = 1
    /\ wal' = <<[do |-> "load", id |-> 0, rows |-> dump.rows, state |-> dump.state]>>
    /\ flushed' = 1 /\ replayed' = 1 /\ next' = 1 /\ timeline' = timeline + 1
    /\ doing' = [x \in Ids |-> "none"] /\ seen' = [x \in Ids |-> {}]
    /\ base' = IF Variant = "no_rebase" THEN base
               ELSE Max(dump.state.position \cup dump.state.batch \cup {r.number : r \in dump.rows} \cup {base})
    /\ UNCHANGED <<given, sink, dump>>

Fail ==
    /\ \/ (Crash \/ Promote) /\ UNCHANGED <<given, sink, dump>>
       \/ Restore
    /\ holder' = Nothing /\ taken' = [c \in Clients |-> Nothing]

Init ==
    /\ ServerInit /\ holder = Nothing /\ dump = Nothing
    /\ taken = [c \in Clients |-> Nothing] /\ given = [c \in Clients |-> Nothing]
    /\ sink = [rows |-> <<>>, number |-> <<0, 0>>]
Next ==
    \/ Commits /\ UNCHANGED <<holder, taken, given, sink, dump>>
    \/ \E c \in Clients : Lock(c) \/ Look(c) \/ Give(c) \/ Apply(c) \/ Finish(c) \/ Die(c)
    \/ Dump \/ Fail
Spec == Init /\ [][Next]_vars

InSink == {sink.rows[i] : i \in DOMAIN sink.rows}
NoLoss == \A r \in Committed : r.number \in State.position => r \in InSink
(* After a promotion or a restore, rows of batches that the server has lost come again. *)
NoRepeat == timeline = 1 => \A i, j \in DOMAIN sink.rows : i # j => sink.rows[i] # sink.rows[j]
=============================================================================
