-- How limits of a customer and of its users stand, what each would answer, and what the customer's reservations hold. Reads only.
--
-- KEYS   1     holds of the customer (hash: reservation -> hold record, see claims.lua)
--        2     customers with holds (not looked at; admit.lua has it here)
--        3..   the hashes the claims live in
-- ARGV   now in microseconds (0: this server's time), then an admission as claims.lua reads it, mode 'r'
-- Reply  a decision as claims.lua gives it; then reservation and hold record, again and again

local now = clock(number())
local asked = read_admission()
decide(asked, read_states(asked.claims), now)
return { decision(asked, now), read('HGETALL', KEYS[1]) or {} }
