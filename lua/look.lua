-- How limits stand, what each would answer, and what the customer's reservations hold. Reads only.
--
-- KEYS   1..l     what the claims live in (strings); behind them the keys that the admission names by their place
-- ARGV   packed: now in microseconds (0: this server's time), l; then an admission as claims.lua reads it, mode 2
-- Reply  a decision as claims.lua packs it; then reservation and hold record, again and again

local head = numbers()
local now = clock(head[1])
load(head[2], head[2])
local asked = read_admission()
decide(asked, now)
return { decision(asked, now), read('HGETALL', asked.holds) or {} }
