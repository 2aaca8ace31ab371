-------------------------------- MODULE Feed --------------------------------
(* A feed whose position the database keeps, and whose rows go to a sink      *)
(* outside: feed_take_batch, feed_batch_rows and feed_finish_batch, by one    *)
(* worker. The sink stores the number of the last batch with its rows, and    *)
(* ignores a batch whose number is not higher. Tokens are in Workers.         *)
EXTENDS Server

CONSTANTS Variant,    \* "feed" is inorder's way
          Clients     \* processes under the name of the worker, which use the same sink

VARIABLES holder,     \* who has the lock of the feed
          taken,      \* client -> the snapshot and the state that it has seen
          given,      \* client -> the batch that it got
          sink,       \* rows, in order, and the number of the last batch
          dump        \* rows and state
vars == <<server, holder, taken, given, sink, dump>>

Nothing == [is |-> FALSE]
Start == [position |-> {}, batch |-> {}, number |-> <<0, 0>>]
StateIn(w) ==
    LET at == {i \in DOMAIN w : w[i].do \in {"state", "load"}}
    IN IF at = {} THEN Start ELSE w[Max(at)].state
State == StateIn(wal)
LogState(s) == wal' = Append(wal, [do |-> "state", id |-> 0, rows |-> {}, state |-> s])

Higher(a, b) == a[1] > b[1] \/ (a[1] = b[1] /\ a[2] > b[2])
(* The timeline is part of a batch's number: a server that went back does not give a number twice. *)
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

(* feed_take_batch. The unfinished batch comes again, with its number; a new one is on disk before anybody has it. *)
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
    \* feed_batch_rows gives the rows of the unfinished batch alone.
    /\ State.batch = given[c].numbers /\ State.number = given[c].number
    /\ sink' = [rows |-> sink.rows \o InOrder(RowsWith(given[c].numbers)), number |-> given[c].number]
    /\ UNCHANGED <<server, holder, taken, given, dump>>

(* feed_finish_batch: nothing where the batch is another one. *)
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

(* Into a cluster whose ids begin anew. feed_rebase raises the base above all numbers that were ever given. *)
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
(* After a promotion or a restore a sink gets rows again whose batches were lost. *)
NoRepeat == timeline = 1 => \A i, j \in DOMAIN sink.rows : i # j => sink.rows[i] # sink.rows[j]
=============================================================================
