------------------------------- MODULE Reader -------------------------------
(* A reader that keeps its position: reader_next_batch, reader_batch_rows and *)
(* reader_advance. The variants are polling methods that lose or delay rows.  *)
EXTENDS Server

CONSTANTS Variant,    \* "set" is inorder's method
          MaxRows     \* maximum number of rows of a batch

VARIABLES position,   \* the position that the sink stores, in one transaction with the rows
          batch,      \* a batch that was taken, but is not stored yet
          delivered   \* rows, in the order of their delivery
vars == <<server, position, batch, delivered>>

None == [taken |-> FALSE]
Delivered == {delivered[i] : i \in DOMAIN delivered}

(* The numbers of the transactions that a reader sees as ended. own: the id of the reader's own transaction, or 0 if   *)
(* it has no id.                                                                                                     *)
Ended(node, own) ==
    LET s == Snapshot(node)
    IN CASE Variant = "horizon" -> {x \in s.ended : x < s.xmin}
         [] Variant = "current_snapshot" /\ node = "standby" -> 1..(s.xmax - 1)
         [] Variant = "own_number" /\ own # 0 -> s.ended \cup {base + own}
         [] OTHER -> s.ended

(* Rows are ordered by number and key. The remaining rows of the transaction in which the last batch ended come *)
(* first.                                                                                                       *)
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

(* The batch, cut after row MaxRows. If this row is not the last row of its transaction, the transaction is cut. *)
CutAt(b, rows) ==
    LET all == InOrder(RowsIn(rows, b))
        last == all[MaxRows]
        isWithin == all[MaxRows + 1].number = last.number
    IN IF Len(all) <= MaxRows THEN b
       ELSE [b EXCEPT !.numbers = IF last.number = position.partial THEN {last.number}
                                  ELSE {x \in b.numbers : x <= last.number \/ x = position.partial},
                      !.cut = IF isWithin THEN last.number ELSE 0,
                      !.upto = IF isWithin THEN last.n ELSE 0]

(* reader_next_batch. The log is flushed first: after a crash, no number in the batch may be used again. *)
Take(node, own) ==
    LET ended == Ended(node, own)
        b == [taken |-> TRUE, numbers |-> ended \ position.numbers, cut |-> 0, upto |-> 0]
    IN /\ ~batch.taken /\ position.origin \in {0, timeline}
       /\ b.numbers # {} /\ (position.partial # 0 => position.partial \in b.numbers)
       /\ flushed' = IF node = "primary" /\ Variant # "no_flush" THEN Len(wal) ELSE flushed
       /\ batch' = CutAt(b, Snapshot(node).rows)
       /\ UNCHANGED <<wal, replayed, next, doing, seen, base, timeline, disasters, position, delivered>>

(* reader_batch_rows, which may be called on another node than reader_next_batch, and then reader_advance. *)
Store(node) ==
    LET s == Snapshot(node)
    IN /\ batch.taken
       /\ batch.numbers \subseteq s.ended \/ Variant \in {"current_snapshot", "own_number"}
       /\ delivered' = delivered \o InOrder(RowsIn(s.rows, batch))
       /\ position' = [numbers |-> position.numbers \cup (batch.numbers \ {batch.cut}),
                       partial |-> batch.cut, key |-> batch.upto, origin |-> timeline]
       /\ batch' = None
       /\ UNCHANGED server

(* Poll for numbers above the last one: for ids, or for positions of commits in the log. *)
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

(* Forget: the reader dies before it stores its batch. Fail: the reader's server crashes, or a standby is promoted. *)
(* The promoted server accepts a position if all transactions of the position have ended there. Otherwise the       *)
(* position is refused, and the reader must begin again.                                                            *)
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

(* Each commit becomes visible at some time, the log is flushed and replayed, and readers read. Transactions may stay *)
(* open forever.                                                                                                      *)
Fairness ==
    /\ \A x \in Ids : WF_vars(Visible(x) /\ UNCHANGED <<position, batch, delivered>>)
    /\ WF_vars(Flush /\ UNCHANGED <<position, batch, delivered>>)
    /\ WF_vars(Replay /\ UNCHANGED <<position, batch, delivered>>)
    /\ \A node \in Nodes : SF_vars(Poll(node) /\ IsScalar) /\ SF_vars(Take(node, 0)) /\ SF_vars(Store(node))
Spec == Init /\ [][Next]_vars /\ Fairness

Passed(r) ==
    IF IsScalar THEN \E i \in DOMAIN wal : wal[i].do = "commit" /\ base + wal[i].id = r.number /\ Mark(r) <= position.key
    ELSE r.number \in position.numbers \/ (r.number = position.partial /\ r.n <= position.key)

(* Each committed row that the position has passed was delivered. The guarantee does not include refused positions. *)
NoLoss == position.origin \in {0, timeline} => \A r \in Committed : Passed(r) => r \in Delivered
NoRepeat == \A i, j \in DOMAIN delivered : i # j => delivered[i] # delivered[j]
(* Rows of a transaction come before the rows of transactions that began after its end. *)
CauseFirst ==
    \A i, j \in DOMAIN delivered : i < j /\ delivered[i].made = delivered[j].made
                                   => delivered[j].number \notin delivered[i].after
(* An open transaction delays only its own rows. *)
Arrives == \A x \in Ids : (RowsOf(wal, {x}) # {} /\ doing[x] = "ended" /\ Has(wal, "commit", x))
                          ~> RowsOf(wal, {x}) \subseteq Delivered
=============================================================================
