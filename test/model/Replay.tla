------------------------------- MODULE Replay -------------------------------
(* Checks that the steps recorded on a server are a behaviour of Reader. In   *)
(* each state only the next recorded step is possible. If it is not possible, *)
(* the model or the code is wrong.                                            *)
EXTENDS Reader

CONSTANT Steps        \* the recorded steps, in order

VARIABLE at           \* index of the next step

Of(r) == <<r.number, r.n>>
Is(batch_, step) == batch_.numbers = step.numbers /\ batch_.cut = step.cut /\ batch_.upto = step.upto
Rows(sequence) == [i \in DOMAIN sequence |-> Of(sequence[i])]

Happens(step) ==
    \/ /\ CASE step.do = "begin" -> next = step.id /\ Begin
            [] step.do = "write" -> Write(step.id)
            [] step.do = "commit" -> Commit(step.id)
            [] step.do = "abort" -> Abort(step.id)
            [] step.do = "visible" -> Visible(step.id)
            [] OTHER -> FALSE
       /\ UNCHANGED <<position, batch, delivered>>
    \/ step.do = "take" /\ Snapshot("primary").ended = step.ended /\ Take("primary", 0) /\ Is(batch', step)
    \/ step.do = "store" /\ Store("primary") /\ Rows(delivered') = Rows(delivered) \o step.rows

ReplayInit == Init /\ at = 1
ReplayNext == at <= Len(Steps) /\ Happens(Steps[at]) /\ at' = at + 1
ReplaySpec == ReplayInit /\ [][ReplayNext]_<<vars, at>>
=============================================================================
