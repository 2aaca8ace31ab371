------------------------------- MODULE Server -------------------------------
(* Transactions of a PostgreSQL server and of its standby, as far as a reader *)
(* can distinguish them: which transactions have a number, which rows a       *)
(* snapshot shows, which rows are lost in a crash, and which numbers are used *)
(* again.                                                                     *)
(*                                                                            *)
(* A crash keeps only the flushed part of the write-ahead log. A standby has  *)
(* replayed the beginning of the flushed part. After a crash or a promotion,  *)
(* new numbers are above all numbers in the part of the log that remains.     *)
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS Ids,        \* transaction ids, from 1 to a maximum
          RowsEach,   \* maximum number of rows of a transaction
          Nodes,      \* primary, or primary and standby
          Disasters   \* the possible disasters: crash, promotion, restore; at most one disaster happens

VARIABLES wal,        \* records, the oldest first
          flushed,    \* number of records that a crash keeps
          replayed,   \* number of records that the standby has replayed
          next,       \* the next id
          doing,      \* id -> none, open, prepared, ending (the commit is in wal, but not visible yet) or ended
          seen,       \* id -> the numbers that had ended when the transaction began
          base,       \* number of a transaction = base + id
          timeline,   \* timeline of the primary
          disasters

server == <<wal, flushed, replayed, next, doing, seen, base, timeline, disasters>>

Max(S) == IF S = {} THEN 0 ELSE CHOOSE x \in S : \A y \in S : y <= x
Min(S) == CHOOSE x \in S : \A y \in S : x <= y

Record(do, id, rows) == [do |-> do, id |-> id, rows |-> rows]
Has(w, do, id) == \E i \in DOMAIN w : w[i].do = do /\ w[i].id = id
Highest(w) == Max({w[i].id : i \in DOMAIN w})
Prefix(n) == SubSeq(wal, 1, n)

(* Ids of transactions that a recovery has ended: ids up to the highest id in the log before the recovery, except ids *)
(* of prepared transactions.                                                                                          *)
Recovered(w) ==
    UNION {{x \in Ids : x <= Highest(SubSeq(w, 1, i)) /\ ~Has(SubSeq(w, 1, i), "prepare", x)}
           : i \in {i \in DOMAIN w : w[i].do = "recover"}}
(* Ids of transactions that are in progress according to the log. Ids are assigned in order, but transactions may *)
(* write their records in any order.                                                                              *)
InProgress(w) ==
    {x \in Ids : x <= Highest(w) /\ ~Has(w, "commit", x) /\ ~Has(w, "abort", x)} \ Recovered(w)
RowsOf(w, ids) ==
    UNION {w[i].rows : i \in {i \in DOMAIN w : w[i].do = "load" \/ (w[i].do = "write" /\ w[i].id \in ids)}}
CommittedIn(w) == {x \in Ids : Has(w, "commit", x)}

Numbers(ids) == (1..base) \cup {base + x : x \in ids}

(* A snapshot: the numbers of transactions that have ended, and their rows. A standby builds its snapshots from the *)
(* log: commits become visible there in a different order than on the primary.                                      *)
Snapshot(node) ==
    IF node = "primary"
    THEN LET ended == {x \in Ids : doing[x] = "ended"}
         IN [ended |-> Numbers(ended), rows |-> RowsOf(wal, ended \cap CommittedIn(wal)),
             xmin |-> base + Min({x \in Ids : doing[x] \in {"open", "prepared", "ending"}} \cup {next}),
             xmax |-> base + next]
    ELSE LET w == Prefix(replayed)
             ended == 1..Highest(w) \ InProgress(w)
         IN [ended |-> Numbers(ended), rows |-> RowsOf(w, ended \cap CommittedIn(w)),
             xmin |-> base + Min(InProgress(w) \cup {Highest(w) + 1}), xmax |-> base + Highest(w) + 1]

(* Rows of committed transactions. Only a disaster can remove them. *)
Committed == RowsOf(wal, CommittedIn(wal))

ServerInit ==
    /\ wal = <<>> /\ flushed = 0 /\ replayed = 0 /\ next = 1 /\ base = 0 /\ timeline = 1 /\ disasters = 0
    /\ doing = [x \in Ids |-> "none"] /\ seen = [x \in Ids |-> {}]

(* The flushed length of the log is modelled only if there are crashes or a standby: otherwise the log is flushed. *)
Kept(n) == IF "crash" \in Disasters \/ Nodes # {"primary"} THEN n ELSE Len(wal')
Log(do, id, rows) == wal' = Append(wal, Record(do, id, rows))

Begin ==
    /\ next \in Ids
    /\ doing' = [doing EXCEPT ![next] = "open"]
    /\ seen' = [seen EXCEPT ![next] = Snapshot("primary").ended]
    /\ next' = next + 1
    /\ UNCHANGED <<wal, flushed, replayed, base, timeline, disasters>>

(* A row has the number of its transaction, and its place in the transaction. Only the invariants use the fields made *)
(* (the number of disasters before the row was written, because numbers are used again) and after (the numbers that   *)
(* had ended when the transaction began).                                                                             *)
Write(x) ==
    LET n == Cardinality(RowsOf(wal, {x}) \ RowsOf(wal, {})) + 1
    IN /\ doing[x] = "open" /\ n <= RowsEach
       /\ Log("write", x, {[number |-> base + x, n |-> n, made |-> disasters, after |-> seen[x]]})
       /\ flushed' = Kept(flushed)
       /\ UNCHANGED <<replayed, next, doing, seen, base, timeline, disasters>>

End(x, do, from, to) ==
    /\ doing[x] \in from /\ Log(do, x, {})
    /\ doing' = [doing EXCEPT ![x] = to]
    /\ flushed' = Kept(IF do = "prepare" THEN Len(wal') ELSE flushed)
    /\ UNCHANGED <<replayed, next, seen, base, timeline, disasters>>
(* Only a recovery distinguishes prepared transactions from open ones, which it ends. *)
Prepare(x) == Disasters # {} /\ End(x, "prepare", {"open"}, "prepared")
Commit(x) == End(x, "commit", {"open", "prepared"}, "ending")   \* does not wait for the disk: synchronous_commit = off
Abort(x) == End(x, "abort", {"open", "prepared"}, "ended")

Visible(x) ==
    /\ doing[x] = "ending" /\ doing' = [doing EXCEPT ![x] = "ended"]
    /\ UNCHANGED <<wal, flushed, replayed, next, seen, base, timeline, disasters>>

Flush ==
    /\ flushed < Len(wal) /\ flushed' = Len(wal)
    /\ UNCHANGED <<wal, replayed, next, doing, seen, base, timeline, disasters>>

Replay ==
    /\ "standby" \in Nodes /\ replayed < flushed /\ replayed' = replayed + 1
    /\ UNCHANGED <<wal, flushed, next, doing, seen, base, timeline, disasters>>

(* The server continues with this log. *)
Recover(w) ==
    LET after == Append(w, Record("recover", 0, {}))
    IN /\ disasters = 0 /\ disasters' = 1
       /\ wal' = after /\ flushed' = Len(after)
       /\ next' = Highest(after) + 1
       /\ doing' = [x \in Ids |-> IF x \in InProgress(after) THEN "prepared"
                                  ELSE IF x <= Highest(after) THEN "ended" ELSE "none"]
       /\ UNCHANGED <<seen, base>>
Crash == "crash" \in Disasters /\ Recover(Prefix(flushed)) /\ UNCHANGED <<replayed, timeline>>
Promote == "promotion" \in Disasters /\ Recover(Prefix(replayed)) /\ replayed' = Len(wal') /\ timeline' = timeline + 1

(* The steps of transactions, for the other modules. *)
Commits == Begin \/ Flush \/ Replay \/ \E x \in Ids : Write(x) \/ Commit(x) \/ Visible(x)
Transactions == Commits \/ \E x \in Ids : Prepare(x) \/ Abort(x)
=============================================================================
