------------------------------ MODULE Workers -------------------------------
(* Workers that share a feed and keep the order of a key: feed_take_batch and *)
(* feed_finish_batch, for the batches of one share. A batch belongs to the    *)
(* name of a worker. Two processes may have the same name: the processes "a"  *)
(* and "again" have the name "a".                                             *)
EXTENDS Integers, FiniteSets

CONSTANTS Variant,    \* "workers" is inorder's method
          Processes,  \* processes of the workers
          Batches,    \* batches from 1 to a maximum, in the order of the feed
          Tokens      \* maximum number of times that a batch can be given to a process

VARIABLES token,      \* batch -> token of the process that got the batch last; 0 if no process got it
          owner,      \* batch -> name of the worker that got the batch last
          leased,     \* batches whose lease has not expired
          done,       \* batches that are finished
          has         \* process -> batch and token
vars == <<token, owner, leased, done, has>>

Nothing == [batch |-> 0, token |-> 0]
NameOf(w) == IF w = "again" THEN "a" ELSE w

(* A process gets a batch of its own name at once, with another token. It gets any other batch without a lease. *)
Take(w, b) ==
    LET is_own == owner[b] = NameOf(w)
        given == IF is_own /\ b \in leased /\ Variant = "same_token" THEN token[b] ELSE token[b] + 1
    IN /\ has[w] = Nothing /\ b \notin done /\ given <= Tokens
       /\ b \notin leased \/ is_own
       /\ Variant = "any_batch" \/ \A earlier \in Batches : earlier < b => earlier \in done
       /\ token' = [token EXCEPT ![b] = given] /\ owner' = [owner EXCEPT ![b] = NameOf(w)]
       /\ leased' = leased \cup {b} /\ has' = [has EXCEPT ![w] = [batch |-> b, token |-> given]]
       /\ UNCHANGED done

(* A lease expires by the server's clock. The clock may jump, so that a lease may expire at any time, or never. *)
Expire(b) == b \in leased /\ leased' = leased \ {b} /\ UNCHANGED <<token, owner, done, has>>

(* If another process got the batch in the meantime, this process cannot finish it. *)
Finish(w) ==
    LET b == has[w].batch
    IN /\ b # 0 /\ has' = [has EXCEPT ![w] = Nothing]
       /\ IF has[w].token = token[b] \/ Variant = "no_token"
          THEN done' = done \cup {b} /\ leased' = leased \ {b}
          ELSE UNCHANGED <<done, leased>>
       /\ UNCHANGED <<token, owner>>

Die(w) == has[w] # Nothing /\ has' = [has EXCEPT ![w] = Nothing] /\ UNCHANGED <<token, owner, leased, done>>

Init ==
    /\ token = [b \in Batches |-> 0] /\ owner = [b \in Batches |-> ""] /\ leased = {} /\ done = {}
    /\ has = [w \in Processes |-> Nothing]
Next ==
    \/ \E w \in Processes : Finish(w) \/ Die(w) \/ \E b \in Batches : Take(w, b)
    \/ \E b \in Batches : Expire(b)
Spec == Init /\ [][Next]_vars

Holders == {w \in Processes : has[w] # Nothing /\ has[w].token = token[has[w].batch]}
(* At any time, at most one process has a valid token for a batch of the share, and the earlier batches are finished. *)
OneAtATime == Cardinality(Holders) <= 1
InOrder == \A w \in Holders : \A b \in Batches : b < has[w].batch => b \in done
=============================================================================
