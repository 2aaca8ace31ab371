------------------------------- MODULE Reader -------------------------------
(* A reader that keeps its position: reader_next_batch, reader_batch_rows and *)
(* reader_advance, and the ways to poll that lose rows, each one a variant.   *)
EXTENDS Server

CONSTANTS Variant,    \* "set" is inorder's way
          MaxRows     \* rows of a batch, at most

VARIABLES position,   \* stored with the rows, in one transaction of the sink
          batch,      \* taken, and not yet stored
          delivered   \* rows, in the order of their delivery
vars == <<server, position, batch, delivered>>

None == [taken |-> FALSE]
Delivered == {delivered[i] : i \in DOMAIN delivered}

(* Numbers that have ended in a snapshot, for a reader in transaction own (0: in none that has an id). *)
Ended(node, own) ==
    LET s == Snapshot(node)
    IN CASE Variant = "horizon" -> {x \in s.ended : x < s.xmin}
         [] Variant = "current_snapshot" /\ node = "standby" -> 1..(s.xmax - 1)
         [] Variant = "own_number" /\ own # 0 -> s.ended \cup {base + own}
         [] OTHER -> s.ended

(* By number and key, the rest of the transaction in which the last batch ended first; without ORDER BY in any order. *)
Precedes(r, s) ==
    \/ r.number = position.partial /\ s.number # position.partial
    \/ /\ (r.number = position.partial) = (s.number = position.partial)
       /\ \/ IF Variant = "unsorted" THEN r.number > s.number ELSE r.number < s.number
          \/ r.number = s.number /\ r.n < s.n
RECURSIVE InOrder(_)
InOrder(rows) ==
    IF rows = {} THEN <<>>
    ELSE LET first == CHOOSE r \in rows : \A s \in rows \ {r} : Precedes(r, s)
         IN <<first>> \o InOrder(rows \ {first})

InBatch(r, b) ==
    /\ r.number \in b.numbers
    /\ r.number = position.partial => r.n > position.key
    /\ r.number = b.cut => r.n <= b.upto
RowsIn(rows, b) == {r \in rows : InBatch(r, b)}

(* The batch of these numbers that ends with its row number MaxRows: within a transaction, if that has more. *)
CutAt(b, rows) ==
    LET all == InOrder(RowsIn(rows, b))
        last == all[MaxRows]
        isWithin == all[MaxRows + 1].number = last.number
    IN IF Len(all) <= MaxRows THEN b
       ELSE [b EXCEPT !.numbers = IF last.number = position.partial THEN {last.number}
                                  ELSE {x \in b.numbers : x <= last.number \/ x = position.partial},
                      !.cut = IF isWithin THEN last.number ELSE 0,
                      !.upto = IF isWithin THEN last.n ELSE 0]

(* reader_next_batch. What it says has ended must not come again after a crash: the log is flushed first. *)
Take(node, own) ==
    LET ended == Ended(node, own)
        b == [taken |-> TRUE, numbers |-> ended \ position.numbers, cut |-> 0, upto |-> 0]
    IN /\ ~batch.taken /\ position.origin \in {0, timeline}
       /\ b.numbers # {} /\ (position.partial # 0 => position.partial \in b.numbers)
       /\ flushed' = IF node = "primary" /\ Variant # "no_flush" THEN Len(wal) ELSE flushed
       /\ batch' = CutAt(b, Snapshot(node).rows)
       /\ UNCHANGED <<wal, replayed, next, doing, seen, base, timeline, disasters, position, delivered>>

(* reader_batch_rows, on this node or on another one, then reader_advance. *)
Store(node) ==
    LET s == Snapshot(node)
    IN /\ batch.taken
       /\ batch.numbers \subseteq s.ended \/ Variant \in {"current_snapshot", "own_number"}
       /\ delivered' = delivered \o InOrder(RowsIn(s.rows, batch))
       /\ position' = [numbers |-> position.numbers \cup (batch.numbers \ {batch.cut}),
                       partial |-> batch.cut, key |-> batch.upto, origin |-> timeline]
       /\ batch' = None
       /\ UNCHANGED server

(* Polling by one number that only grows: id > last, or the place of the commit in the log. *)
Mark(r) ==
    IF Variant = "last_id" THEN r.number
    ELSE CHOOSE i \in DOMAIN wal : wal[i].do = "commit" /\ base + wal[i].id = r.number
Poll(node) ==
    LET new == {r \in Snapshot(node).rows : Mark(r) > position.key}
    IN /\ new # {}
       /\ delivered' = delivered \o InOrder(new)
       /\ position' = [position EXCEPT !.key = Max({Mark(r) : r \in new})]
       /\ UNCHANGED <<server, batch>>
IsScalar == Variant \in {"last_id", "commit_place"}

(* A reader that died before it stored anything, and one whose server is another now: a position goes on where all *)
(* that it has read has arrived; else it is refused, and the reader has to begin anew.                              *)
Forget == batch.taken /\ batch' = None /\ UNCHANGED <<server, position, delivered>>
Continues == position.numbers \cup (IF position.partial = 0 THEN {} ELSE {position.partial}) \subseteq Snapshot("standby").ended
Fail ==
    /\ \/ Crash /\ UNCHANGED position
       \/ /\ Promote
          /\ position' = IF Continues \/ Variant = "any_timeline" THEN [position EXCEPT !.origin = 0] ELSE position
    /\ batch' = None /\ UNCHANGED delivered

Read(node) ==
    IF IsScalar THEN Poll(node) ELSE Take(node, 0) \/ Store(node)
ReadInside == \E own \in Ids : ~IsScalar /\ doing[own] = "open" /\ Take("primary", own)

Init ==
    /\ ServerInit /\ batch = None /\ delivered = <<>>
    /\ position = [numbers |-> {}, partial |-> 0, key |-> 0, origin |-> 0]
Next ==
    \/ Transactions /\ UNCHANGED <<position, batch, delivered>>
    \/ \E node \in Nodes : Read(node)
    \/ ReadInside \/ Forget \/ Fail

(* A commit becomes visible, the log is written and replayed, and readers read. Nobody has to end a transaction. *)
Fairness ==
    /\ \A x \in Ids : WF_vars(Visible(x) /\ UNCHANGED <<position, batch, delivered>>)
    /\ WF_vars(Flush /\ UNCHANGED <<position, batch, delivered>>)
    /\ WF_vars(Replay /\ UNCHANGED <<position, batch, delivered>>)
    /\ \A node \in Nodes : SF_vars(Poll(node) /\ IsScalar) /\ SF_vars(Take(node, 0)) /\ SF_vars(Store(node))
Spec == Init /\ [][Next]_vars /\ Fairness

Passed(r) ==
    IF IsScalar THEN \E i \in DOMAIN wal : wal[i].do = "commit" /\ base + wal[i].id = r.number /\ Mark(r) <= position.key
    ELSE r.number \in position.numbers \/ (r.number = position.partial /\ r.n <= position.key)

(* A row that is there and passed was delivered. (Positions that are refused promise nothing: they say so.) *)
NoLoss == position.origin \in {0, timeline} => \A r \in Committed : Passed(r) => r \in Delivered
NoRepeat == \A i, j \in DOMAIN delivered : i # j => delivered[i] # delivered[j]
(* A transaction that had ended when another began comes before it. *)
CauseFirst ==
    \A i, j \in DOMAIN delivered : i < j /\ delivered[i].made = delivered[j].made
                                   => delivered[j].number \notin delivered[i].after
(* An open transaction delays its own rows and no others. *)
Arrives == \A x \in Ids : (RowsOf(wal, {x}) # {} /\ doing[x] = "ended" /\ Has(wal, "commit", x))
                          ~> RowsOf(wal, {x}) \subseteq Delivered
=============================================================================
