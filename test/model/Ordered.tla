------------------------------ MODULE Ordered -------------------------------
(* A feed in the order of a column: it reads one frozen set of transactions   *)
(* after the other, each in pieces, by value.                                 *)
EXTENDS Server

CONSTANTS Variant,    \* "frozen" is inorder's way
          Values      \* of the column, 1 to a highest one

VARIABLES value,      \* number and place of a row -> its value
          position,   \* numbers that were read; the set being read, which one it is, and its lowest value not read
          delivered
vars == <<server, value, position, delivered>>

Value(r) == value[<<r.number, r.n>>]

(* The rows of the lowest value that was not read: a piece never ends within a value. *)
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
(* A row is in one set, and there once: what is not passed has not been delivered. *)
NoRepeat ==
    /\ \A d, e \in delivered : d.row = e.row => d.set = e.set
    /\ \A r \in Committed : r \in Delivered => Passed(r)
(* If a row was written after another one was there, and has a higher value, it does not come in an earlier set. *)
CauseFirst == \A d, e \in delivered : d.row.number \in e.row.after => d.set <= e.set
=============================================================================
