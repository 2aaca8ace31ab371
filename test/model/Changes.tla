------------------------------ MODULE Changes -------------------------------
(* A copy of a table whose rows are updated and deleted: changes_enable,      *)
(* changes_read, changes_batch_rows, changes_resync. This module relies on    *)
(* the guarantee of a feed: a batch has the rows of the log whose             *)
(* transactions have ended in a snapshot and are in no earlier batch.         *)
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS Variant,    \* "changes" is inorder's method
          Ids,        \* ids of transactions, from 1 to a maximum; transaction 0 has created the table
          Keys,       \* keys of the table, from 1; 0 in the log is a marker
          Spellings,  \* spellings of a key, which are one key in the table, and different keys in the copy
          Statements, \* maximum number of statements of a transaction
          Kinds,      \* steps other than changes of rows: truncate, rewrite, off, resync, hide, abort, start, crash
          MaxRows,    \* maximum number of rows of the log in a batch
          Readers,    \* sessions that read one feed
          Shared      \* true if readers use feed_take_batch at the same time, and the copy compares versions

VARIABLES done,       \* statements, in order: statements on one key wait for each other
          log,        \* rows of the log, in the order in which they were written
          doing,      \* id -> none, open, committed or aborted
          hidden,     \* keys that row security hides from readers
          durable,    \* if there are crashes: transactions whose commits survive a crash
          view,       \* reader -> transactions that had ended in the snapshot of the reader
          batch,      \* reader -> transactions of the unfinished batch, and whether the copy has the batch
          position,   \* transactions that were read; with max_rows, also a transaction read in part, and its last row
          copy,       \* rows of the copy
          version,    \* version of each key of the copy
          newest,     \* transactions that had ended in the newest snapshot that was read
          told        \* transactions of the snapshot that the copy has to equal now, and whether everything was read
writers == <<done, log, doing, hidden>>
vars == <<writers, durable, view, batch, position, copy, version, newest, told>>

Max(S) == CHOOSE x \in S : \A y \in S : y <= x
None == [is |-> FALSE]
Some(ended) == [is |-> TRUE, ended |-> ended]
Told(ended, all) == [is |-> TRUE, ended |-> ended, all |-> all]
Names == Keys \X Spellings
Name(row) == <<row.key, row.as>>

Committed == {0} \cup {x \in Ids : doing[x] = "committed"}
Ended == Committed \cup {x \in Ids : doing[x] = "aborted"}
Flush(happens) == durable' = IF happens /\ "crash" \in Kinds THEN Committed ELSE durable

RECURSIVE After(_, _)
After(n, ids) ==
    IF n = 0 THEN {}
    ELSE IF done[n].id \notin ids THEN After(n - 1, ids)
    ELSE {row \in After(n - 1, ids) : row.key \notin done[n].touched} \cup done[n].rows
(* The rows of the table in a snapshot, and for a statement of transaction x. *)
Table(ended) == After(Len(done), ended \cap Committed)
Now(x) == After(Len(done), Committed \cup {x})

(* Logged: true if triggers write the log. File: the transaction that created the file of the table; older snapshots *)
(* see no row of this file.                                                                                          *)
Logged(ids) == done[Max({n \in DOMAIN done : done[n].id \in ids /\ done[n].kind \in {"on", "off", "resync"}})].kind # "off"
File == LET at == {n \in DOMAIN done : done[n].id \in Committed /\ done[n].kind \in {"truncate", "rewrite"}}
        IN IF at = {} THEN 0 ELSE done[Max(at)].id

---------------------------------------------------------------------------
(* Writers. *)

OpenBut(x) == {n \in DOMAIN done : done[n].id \notin {x} \cup Ended}
RECURSIVE Sequence(_)
Sequence(S) == IF S = {} THEN <<>> ELSE LET one == CHOOSE y \in S : TRUE IN <<one>> \o Sequence(S \ {one})
Entry(x, name) == [id |-> x, key |-> name[1], as |-> name[2]]

Do(x, kind, touched, rows, names) ==
    /\ doing[x] = "open" /\ Cardinality({n \in DOMAIN done : done[n].id = x}) < Statements
    /\ done' = Append(done, [id |-> x, kind |-> kind, touched |-> touched, rows |-> rows])
    /\ log' = IF Logged(Committed \cup {x}) \/ kind = "resync"
              THEN log \o Sequence({Entry(x, name) : name \in names}) ELSE log
    /\ UNCHANGED <<doing, hidden>>

(* Change a row, if no other open transaction has changed rows of these keys, or has locked the table. *)
Change(x, keys, rows) ==
    LET old == {row \in Now(x) : row.key \in keys}
    IN /\ \A n \in OpenBut(x) : done[n].kind = "rows" /\ done[n].touched \cap keys = {}
       /\ old # {} \/ rows # {}
       /\ Do(x, "rows", keys, rows, {Name(row) : row \in rows}
             \cup (IF Variant = "new_key_only" /\ rows # {} THEN {} ELSE {Name(row) : row \in old}))
Row(key, as) == [key |-> key, as |-> as, made |-> Len(done)]
Put(x, key, as) == Change(x, {key}, {Row(key, as)})
Delete(x, key) == Change(x, {key}, {})
Move(x, from, to) ==
    /\ {row.key : row \in Now(x)} \cap {from, to} = {from}
    /\ Change(x, {from, to}, {Row(to, 1)})

(* TRUNCATE, an ALTER TABLE that rewrites the table, changes that no trigger sees, changes_resync and changes_enable, *)
(* each under an exclusive lock.                                                                                      *)
Lock(x, kind) ==
    /\ kind \in Kinds \cap {"truncate", "rewrite", "off", "resync"} /\ OpenBut(x) = {}
    /\ Do(x, kind, IF kind = "truncate" THEN Keys ELSE {}, {}, {<<0, kind>> : k \in {kind} \cap {"truncate", "resync"}})

(* Ids are assigned in order, before the statements. *)
Begin(x) == doing[x] = "none" /\ (\A y \in Ids : y < x => doing[y] # "none") /\ doing' = [doing EXCEPT ![x] = "open"]
End(x, how) == doing[x] = "open" /\ doing' = [doing EXCEPT ![x] = how]
Hide == "hide" \in Kinds /\ hidden' \in {{}, {1}} /\ hidden' # hidden

(* A commit that waits for the disk also flushes the earlier commits. *)
Commit(x) == End(x, "committed") /\ durable' \in {durable} \cup (IF "crash" \in Kinds THEN {Committed \cup {x}} ELSE {})

Write ==
    \/ \E x \in Ids :
        /\ Commit(x) \/ (UNCHANGED durable /\ (Begin(x) \/ ("abort" \in Kinds /\ End(x, "aborted"))))
        /\ UNCHANGED <<done, log, hidden>>
    \/ /\ UNCHANGED durable
       /\ \/ \E x \in Ids, key \in Keys : Delete(x, key) \/ \E as \in Spellings : Put(x, key, as)
                                          \/ \E to \in Keys \ {key} : Move(x, key, to)
          \/ \E x \in Ids, kind \in Kinds : Lock(x, kind)
          \/ Hide /\ UNCHANGED <<done, log, doing>>

---------------------------------------------------------------------------
(* Readers. *)

(* The checks of each read, after the read has locked the table. *)
Readable(ended) ==
    /\ \A n \in OpenBut(0) : done[n].kind \notin {"truncate", "rewrite"}
    /\ File \in ended \/ Variant = "older_file"
    /\ Logged(ended \cap Committed) \/ Variant = "no_fingerprint"
    /\ hidden = {} \/ Variant = "hidden_rows"
Seen(ended) == IF File \in ended THEN {row \in Table(ended) : row.key \notin hidden} ELSE {}

Look(r) ==
    /\ ~batch[r].is /\ view' = [view EXCEPT ![r] = Some(Ended)]
    /\ UNCHANGED <<writers, durable, batch, position, copy, version, newest, told>>

(* Has: row n of the log belongs to these transactions, and was not read. Precedes: the order of the rows; the *)
(* transaction that was read in part comes first.                                                              *)
Has(ids, n) == log[n].id \in ids \cap Committed /\ (log[n].id = position.partial => n > position.upto)
Precedes(m, n) ==
    LET first(k) == IF log[k].id = position.partial THEN -1 ELSE log[k].id
    IN first(m) < first(n) \/ (first(m) = first(n) /\ m < n)
Place(rows, n) == Cardinality({m \in rows : Precedes(m, n)}) + 1

Take(r) ==
    LET ended == IF Variant = "older_join" THEN Ended ELSE view[r].ended
        ids == (ended \ position.ids) \ UNION {batch[q].ids : q \in {q \in Readers : batch[q].is}}
        rows == {n \in DOMAIN log : Has(ids, n)}
        last == CHOOSE n \in rows : Place(rows, n) = MaxRows
        whole == [is |-> TRUE, ids |-> ids, cut |-> -1, upto |-> 0, ended |-> ended, stored |-> FALSE]
    IN /\ view[r].is /\ ~batch[r].is /\ ids # {} /\ (Shared \/ \A q \in Readers : ~batch[q].is)
       /\ position.ids \subseteq view[r].ended \/ Variant = "older_position"
       /\ position.partial \in ids \cup {-1}
       /\ batch' = [batch EXCEPT ![r] = IF Cardinality(rows) < MaxRows THEN whole
                    ELSE [whole EXCEPT !.cut = log[last].id, !.upto = last,
                                       !.ids = {x \in ids : x = position.partial \/ (log[last].id # position.partial
                                                                                     /\ x <= log[last].id)}]]
       /\ Flush(TRUE)
       /\ UNCHANGED <<writers, view, position, copy, version, newest, told>>

(* If the table has a row with the key, this row replaces the row of the copy. Otherwise the key is deleted from the *)
(* copy. A marker replaces the whole copy.                                                                           *)
Apply(ended, names) ==
    LET marked == \E name \in names : name[1] = 0
        whole == marked /\ (Variant # "empty_at_marker" \/ <<0, "resync">> \in names)
        found == {row \in Seen(ended) : whole \/ \E name \in names : name[1] = row.key}
        gone == {Name(row) : row \in found} \cup
                (IF marked THEN Names
                 ELSE {name \in names : Variant # "equal_is_same" \/ \A row \in found : row.key # name[1]})
        is_newer == {name \in Names : ~Shared \/ Variant = "any_order"
                                      \/ version[name] <= Cardinality(ended)}
    IN /\ copy' = {row \in copy : Name(row) \notin gone \cap is_newer} \cup {row \in found : Name(row) \in is_newer}
       /\ version' = [name \in Names |-> IF name \in gone \cap is_newer /\ Shared
                                         THEN Cardinality(ended) ELSE version[name]]

(* Read the rows of the batch in the batch's snapshot, or any number of times in later snapshots. The copy is outside *)
(* the database: no crash undoes it.                                                                                  *)
Store(r, ended) ==
    LET b == batch[r]
        rows == {n \in DOMAIN log : Has(b.ids, n) /\ (log[n].id = b.cut => n <= b.upto)}
    IN /\ b.is /\ Readable(ended)
       /\ ended = Ended \/ (view[r] = Some(ended) /\ ~b.stored)
       /\ Apply(ended, {<<log[n].key, log[n].as>> : n \in rows})
       /\ batch' = [batch EXCEPT ![r].stored = TRUE]
       /\ newest' = newest \cup ended
       /\ told' = IF b.cut = -1 /\ position.ids \cup b.ids = b.ended /\ ended = b.ended
                     /\ newest \subseteq ended
                  THEN Told(ended, FALSE) ELSE None
       /\ Flush(Variant # "unflushed_join")
       /\ UNCHANGED <<writers, view, position>>

Finish(r) ==
    LET b == batch[r]
    IN /\ b.is /\ b.stored
       /\ position' = [ids |-> position.ids \cup (b.ids \ {b.cut}), partial |-> b.cut, upto |-> b.upto]
       /\ batch' = [batch EXCEPT ![r] = None] /\ view' = [view EXCEPT ![r] = None]
       /\ UNCHANGED <<writers, durable, copy, version, newest, told>>

(* All changes were read. *)
Check ==
    /\ position.ids = Ended /\ \A r \in Readers : ~batch[r].is
    /\ Readable(Ended) /\ told' = Told(Ended, TRUE) /\ newest' = Ended
    /\ UNCHANGED <<writers, durable, view, batch, position, copy, version>>

(* Copy the table, and begin the feed after the snapshot of the copy, instead of reading a feed from the beginning. *)
Start(r) ==
    LET ended == view[r].ended
    IN /\ "start" \in Kinds /\ view[r].is /\ position.ids = {} /\ \A q \in Readers : ~batch[q].is
       /\ Readable(ended) \/ Variant = "copy_first"
       /\ copy' = Seen(ended)
       /\ position' = [position EXCEPT !.ids = IF Variant = "copy_first" THEN Ended ELSE ended]
       /\ view' = [view EXCEPT ![r] = None] /\ newest' = ended /\ told' = None
       /\ Flush(TRUE)
       /\ UNCHANGED <<writers, batch, version>>

(* A crash ends all sessions, and undoes commits that are not on disk. *)
Crash ==
    /\ "crash" \in Kinds /\ \E x \in Ids : doing[x] = "committed" /\ x \notin durable
    /\ doing' = [x \in Ids |-> IF doing[x] = "open" \/ (doing[x] = "committed" /\ x \notin durable)
                              THEN "aborted" ELSE doing[x]]
    /\ view' = [r \in Readers |-> None] /\ told' = None
    /\ UNCHANGED <<done, log, hidden, durable, batch, position, copy, version, newest>>

Init ==
    /\ \E kind \in {"on"} \cup (IF "resync" \in Kinds THEN {"off"} ELSE {}) :
        /\ done = <<[id |-> 0, kind |-> kind, touched |-> {}, rows |-> {[key |-> 1, as |-> 1, made |-> 0]}]>>
        /\ log = IF kind = "on" THEN <<Entry(0, <<0, "resync">>)>> ELSE <<>>
    /\ doing = [x \in Ids |-> "none"] /\ hidden = {}
    /\ durable = IF "crash" \in Kinds THEN {0} ELSE {}
    /\ view = [r \in Readers |-> None] /\ batch = [r \in Readers |-> None]
    /\ position = [ids |-> {}, partial |-> -1, upto |-> 0]
    /\ copy = {} /\ version = [name \in Names |-> 0] /\ newest = {} /\ told = None
Next ==
    \/ Write /\ UNCHANGED <<view, batch, position, copy, version, newest, told>>
    \/ \E r \in Readers : Look(r) \/ Take(r) \/ Store(r, Ended) \/ (view[r].is /\ Store(r, view[r].ended))
                          \/ Finish(r) \/ Start(r)
    \/ Check
    \/ Crash
Spec == Init /\ [][Next]_vars

(* CopyIsTable: the copy equals the table after each whole batch that is read in its own snapshot. Converges: the *)
(* copy equals the table when all changes were read, even if batches were read in parts or repeatedly.            *)
CopyIsTable == told.is /\ ~told.all => copy = Table(told.ended)
Converges == told.is /\ told.all => copy = Table(told.ended)
=============================================================================
