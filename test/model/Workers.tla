------------------------------ MODULE Workers -------------------------------
(* Workers that share a feed and keep the order of a key: feed_take_batch and *)
(* feed_finish_batch, for the batches of one share. A batch belongs to the    *)
(* name of a worker, which two processes may have: "a" and "again" have one.  *)
EXTENDS Integers, FiniteSets

CONSTANTS Variant,    \* "workers" is inorder's way
          Processes,  \* of the workers
          Batches,    \* 1 to a highest one, in the order of the feed
          Tokens      \* a batch is given so often, at most

VARIABLES token,      \* batch -> of the process that got it last; 0: nobody yet
          owner,      \* batch -> the name that got it last
          leased,     \* batches whose lease is not over
          done,       \* batches that are finished
          has         \* process -> batch and token
vars == <<token, owner, leased, done, has>>

Nothing == [batch |-> 0, token |-> 0]
NameOf(w) == IF w = "again" THEN "a" ELSE w

(* Under its name a process gets a batch at once, with another token; under another one when the lease is over. *)
Take(w, b) ==
    LET is_own == owner[b] = NameOf(w)
        given == IF is_own /\ b \in leased /\ Variant = "same_token" THEN token[b] ELSE token[b] + 1
    IN /\ has[w] = Nothing /\ b \notin done /\ given <= Tokens
       /\ b \notin leased \/ is_own
       /\ Variant = "any_batch" \/ \A earlier \in Batches : earlier < b => earlier \in done
       /\ token' = [token EXCEPT ![b] = given] /\ owner' = [owner EXCEPT ![b] = NameOf(w)]
       /\ leased' = leased \cup {b} /\ has' = [has EXCEPT ![w] = [batch |-> b, token |-> given]]
       /\ UNCHANGED done

(* By the clock of the server, which may jump: at any time, or never. *)
Expire(b) == b \in leased /\ leased' = leased \ {b} /\ UNCHANGED <<token, owner, done, has>>

(* Once another process has the batch, this one has lost it. *)
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
(* Of a share, one batch is worked on at a time, and those before it are finished. *)
OneAtATime == Cardinality(Holders) <= 1
InOrder == \A w \in Holders : \A b \in Batches : b < has[w].batch => b \in done
=============================================================================
