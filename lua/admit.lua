-- Decides all claims of a request in one step: read all, check all, write all or (almost) nothing.
--
-- KEYS   1     holds of the customer (hash: reservation -> hold record, see claims.lua)
--        2     customers with holds (sorted set: customer -> earliest deadline of a hold, or before it)
--        3..   the hashes the claims live in: first those tagged with the customer, then the shared ones
-- ARGV   now in microseconds (0: this server's time), then an admission as claims.lua reads it
-- Reply  integers: a decision as claims.lua gives it

-- read all

local now = clock(number())
local asked = read_admission()
local states = read_states(asked.claims)
read_hold(asked, KEYS[2])

-- check all

decide(asked, states, now)

-- write all: what was admitted, or of a refused request only the message it was

write_states(take(asked, now), now)
write_hold(asked, now)
return decision(asked, now)
