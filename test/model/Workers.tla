------------------------------ MODULE Workers -------------------------------
(* Workers that share a feed and keep the order of a key: feed_take_batch and *)
(* feed_finish_batch, for the batches of one share.                           *)
EXTENDS Integers, FiniteSets

CONSTANTS Variant,    \* "workers" is inorder's way
          Names,      \* of the workers
          Batches,    \* 1 to a highest one, in the order of the feed
          Tokens      \* a batch is given so often, at most

VARIABLES token,      \* batch -> of the worker that got it last; 0: nobody yet
          leased,     \* batches whose lease is not over
          done,       \* batches that are finished
          has         \* worker -> batch and token
vars == <<token, leased, done, has>>

Nothing == [batch |-> 0, token |-> 0]

Take(w, b) ==
    /\ has[w] = Nothing /\ b \notin done \cup leased /\ token[b] < Tokens
    /\ Variant = "any_batch" \/ \A earlier \in Batches : earlier < b => earlier \in done
    /\ token' = [token EXCEPT ![b] = @ + 1] /\ leased' = leased \cup {b}
    /\ has' = [has EXCEPT ![w] = [batch |-> b, token |-> token[b] + 1]]
    /\ UNCHANGED done

Expire(b) == b \in leased /\ leased' = leased \ {b} /\ UNCHANGED <<token, done, has>>

(* Once another worker has the batch, this one has lost it. *)
Finish(w) ==
    LET b == has[w].batch
    IN /\ b # 0 /\ has' = [has EXCEPT ![w] = Nothing]
       /\ IF has[w].token = token[b] \/ Variant = "no_token"
          THEN done' = done \cup {b} /\ leased' = leased \ {b}
          ELSE UNCHANGED <<done, leased>>
       /\ UNCHANGED token

Die(w) == has[w] # Nothing /\ has' = [has EXCEPT ![w] = Nothing] /\ UNCHANGED <<token, leased, done>>

Init ==
    /\ token = [b \in Batches |-> 0] /\ leased = {} /\ done = {}
    /\ has = [w \in Names |-> Nothing]
Next ==
    \/ \E w \in Names : Finish(w) \/ Die(w) \/ \E b \in Batches : Take(w, b)
    \/ \E b \in Batches : Expire(b)
Spec == Init /\ [][Next]_vars

Holders == {w \in Names : has[w] # Nothing /\ has[w].token = token[has[w].batch]}
(* Of a share, one batch is worked on at a time, and those before it are finished. *)
OneAtATime == Cardinality(Holders) <= 1
InOrder == \A w \in Holders : \A b \in Batches : b < has[w].batch => b \in done
=============================================================================
