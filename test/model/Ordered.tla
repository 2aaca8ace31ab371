------------------------------ MODULE Ordered -------------------------------
(* A feed in the order of a column: the feed freezes a set of transactions,   *)
(* reads its rows in pieces by value, and then freezes the next set.          *)
EXTENDS Server

CONSTANTS Variant,    \* "frozen" is inorder's method
          Values      \* values of the column, from 1 to a maximum

VARIABLES value,      \* number and place of a row -> value of the row
          position,   \* numbers that were read; the set being read, its place, and its lowest value that was not read
          delivered
vars == <<server, value, position, delivered>>

Value(r) == value[<<r.number, r.n>>]

(* A piece: the rows of the lowest value that was not read. No piece ends between rows of equal values. *)
Piece ==
    LET s == Snapshot("primary")
        set == IF position.frozen # {} /\ Variant # "thawed" THEN position.frozen ELSE s.ended \ position.numbers
        rest == {r \in s.rows : r.number \in set /\ Value(r) >= position.from}
        lowest == Min({Value(r) : r \in rest})
        piece == {r \in rest : Value(r) = lowest}
        above == {Value(r) : r \in rest \ piece}
        read == [numbers |-> position.numbers \cup set, frozen |-> {}, set |-> position.set + 1, from |-> 0]
    IN /\ set # {} /\ flushed' = Len(wal)
       /\ IF rest = {} THEN position' = read /\ UNCHANGED delivered
          ELSE /\ delivered' = delivered \cup {[row |-> r, set |-> position.set] : r \in piece}
               /\ position' = IF above = {} THEN read
                              ELSE [position EXCEPT !.frozen = set, !.from = Min(above)]
       /\ UNCHANGED <<wal, replayed, next, doing, seen, base, timeline, disasters, value>>

Init ==
    /\ ServerInit /\ value \in [Ids \X (1..RowsEach) -> Values] /\ delivered = {}
    /\ position = [numbers |-> {}, frozen |-> {}, set |-> 1, from |-> 0]
Next ==
    \/ Commits /\ UNCHANGED <<value, position, delivered>>
    \/ Piece
    \/ Crash /\ UNCHANGED <<value, position, delivered>>
Spec == Init /\ [][Next]_vars

Delivered == {d.row : d \in delivered}
Passed(r) == r.number \in position.numbers \/ (r.number \in position.frozen /\ Value(r) < position.from)
NoLoss == \A r \in Committed : Passed(r) => r \in Delivered
(* A row is in one set only, and is delivered once: a row that the position has not passed has not been delivered. *)
NoRepeat ==
    /\ \A d, e \in delivered : d.row = e.row => d.set = e.set
    /\ \A r \in Committed : r \in Delivered => Passed(r)
(* If a transaction began after another one had ended, its rows are not in an earlier set than the rows of the other. *)
CauseFirst == \A d, e \in delivered : d.row.number \in e.row.after => d.set <= e.set
=============================================================================
