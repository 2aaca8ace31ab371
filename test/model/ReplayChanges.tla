---------------------------- MODULE ReplayChanges ---------------------------
(* Checks that the steps recorded on a server are a behaviour of Changes, and *)
(* that after each batch the copy has the rows of the model's copy.           *)
EXTENDS Changes

CONSTANT Steps        \* the recorded steps, in order

VARIABLE at           \* index of the next step

Rows(kept) == {<<row.key, row.made>> : row \in kept}

Happens(step) ==
    \/ /\ CASE step.do = "put" -> Put(step.id, step.key, 1)
            [] step.do = "delete" -> Delete(step.id, step.key)
            [] step.do = "move" -> Move(step.id, step.key, step.to)
            [] step.do = "truncate" -> Lock(step.id, "truncate")
            [] step.do = "begin" -> Begin(step.id) /\ UNCHANGED <<done, log, hidden>>
            [] step.do \in {"committed", "aborted"} -> End(step.id, step.do) /\ UNCHANGED <<done, log, hidden>>
            [] OTHER -> FALSE
       /\ UNCHANGED <<durable, view, batch, position, copy, version, newest, told>>
    \/ step.do = "look" /\ Ended = step.ended /\ Look("a")
    \/ step.do = "take" /\ Take("a")
    \/ step.do = "store" /\ Store("a", IF step.again THEN Ended ELSE view["a"].ended) /\ Rows(copy') = step.rows
    \/ step.do = "finish" /\ Finish("a")
    \/ step.do = "refused" /\ ~Readable(view["a"].ended) /\ UNCHANGED vars

ReplayInit == Init /\ at = 1
ReplayNext == at <= Len(Steps) /\ Happens(Steps[at]) /\ at' = at + 1
ReplaySpec == ReplayInit /\ [][ReplayNext]_<<vars, at>>
=============================================================================
