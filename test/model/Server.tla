------------------------------- MODULE Server -------------------------------
(* Transactions of a PostgreSQL server and of its standby, as far as a reader *)
(* can distinguish them: who has a number, what a snapshot shows, what        *)
(* a crash forgets, and which numbers come again.                             *)
(*                                                                            *)
(* The write-ahead log is the only thing that lasts. A crash keeps what was   *)
(* flushed of it, a standby has replayed a beginning of that, and either one  *)
(* goes on with the numbers above those that it finds there.                  *)
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS Ids,        \* transaction ids, 1 to a highest one
          RowsEach,   \* rows that a transaction writes at most
          Nodes,      \* primary, or primary and standby
          Disasters   \* which of crash, promotion and restore there may be; one of them happens, at most

VARIABLES wal,        \* records, the oldest first
          flushed,    \* how many of them a crash keeps
          replayed,   \* how many of them the standby has replayed
          next,       \* the next id
          doing,      \* id -> none, open, prepared, ending (its commit is in wal, and not visible yet) or ended
          seen,       \* id -> the numbers that had ended when it began
          base,       \* number of a transaction = base + id
          timeline,   \* of the primary
          disasters

server == <<wal, flushed, replayed, next, doing, seen, base, timeline, disasters>>

Max(S) == IF S = {} THEN 0 ELSE CHOOSE x \in S : \A y \in S : y <= x
Min(S) == CHOOSE x \in S : \A y \in S : x <= y

Record(do, id, rows) == [do |-> do, id |-> id, rows |-> rows]
Has(w, do, id) == \E i \in DOMAIN w : w[i].do = do /\ w[i].id = id
Highest(w) == Max({w[i].id : i \in DOMAIN w})
Prefix(n) == SubSeq(wal, 1, n)

(* Ids whose transactions a recovery ended: in the log before it, or below one there, and not prepared. *)
Recovered(w) ==
    UNION {{x \in Ids : x <= Highest(SubSeq(w, 1, i)) /\ ~Has(SubSeq(w, 1, i), "prepare", x)}
           : i \in {i \in DOMAIN w : w[i].do = "recover"}}
(* Those that are in progress for who knows only the log. Ids are drawn in order, but written in any. *)
InProgress(w) ==
    {x \in Ids : x <= Highest(w) /\ ~Has(w, "commit", x) /\ ~Has(w, "abort", x)} \ Recovered(w)
RowsOf(w, ids) ==
    UNION {w[i].rows : i \in {i \in DOMAIN w : w[i].do = "load" \/ (w[i].do = "write" /\ w[i].id \in ids)}}
CommittedIn(w) == {x \in Ids : Has(w, "commit", x)}

Numbers(ids) == (1..base) \cup {base + x : x \in ids}

(* What a snapshot shows: the numbers of transactions that have ended, and their rows. The standby takes it from the *)
(* log, so commits become visible there in another order than on the primary.                                        *)
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

(* Rows that are there for good, unless a disaster takes them. *)
Committed == RowsOf(wal, CommittedIn(wal))

ServerInit ==
    /\ wal = <<>> /\ flushed = 0 /\ replayed = 0 /\ next = 1 /\ base = 0 /\ timeline = 1 /\ disasters = 0
    /\ doing = [x \in Ids |-> "none"] /\ seen = [x \in Ids |-> {}]

(* What is flushed matters to who can lose the rest, and to a standby. *)
Kept(n) == IF "crash" \in Disasters \/ Nodes # {"primary"} THEN n ELSE Len(wal')
Log(do, id, rows) == wal' = Append(wal, Record(do, id, rows))

Begin ==
    /\ next \in Ids
    /\ doing' = [doing EXCEPT ![next] = "open"]
    /\ seen' = [seen EXCEPT ![next] = Snapshot("primary").ended]
    /\ next' = next + 1
    /\ UNCHANGED <<wal, flushed, replayed, base, timeline, disasters>>

(* A row is what it carries: its number and its place in the transaction; and, for the invariants alone, when it was *)
(* made and after whom: numbers come again.                                                                          *)
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
(* Without a recovery, which ends open transactions, a prepared one is as an open one. *)
Prepare(x) == Disasters # {} /\ End(x, "prepare", {"open"}, "prepared")
Commit(x) == End(x, "commit", {"open", "prepared"}, "ending")   \* without waiting for the disk: as synchronous_commit = off
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

(* The server goes on with this log. *)
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

(* What the modules need that are about something else. *)
Commits == Begin \/ Flush \/ Replay \/ \E x \in Ids : Write(x) \/ Commit(x) \/ Visible(x)
Transactions == Commits \/ \E x \in Ids : Prepare(x) \/ Abort(x)
=============================================================================
