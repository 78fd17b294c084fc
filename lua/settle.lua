-- Ends one reservation: replaces what was claimed by what was used, exactly once.
--
-- KEYS   1..4  what is known of the reservation, see ends.lua
--        5..   the hashes the lines live in: first those tagged with the customer, then the shared ones
-- ARGV   now in microseconds (0: this server's time), then an end as ends.lua reads it
-- Reply  integers: now, and 1: the hold was known, 2: it was not (lost, or admitted in an outage), 0: settled before, nothing booked
--          (what it held again is given back), 3: a sweeper had booked it, and what it booked is corrected to what was used

-- read all

local now = clock(number())
local ended = read_end()
read_known(ended, now)
local states = read_states(ended.lines)

-- check all

if ended.over then return { now, 0 } end
local kept = settle(ended, states, now)

-- write all

write_states(kept, now)
write_end(ended)
return { now, ended.again and 0 or ended.lost and 3 or ended.hold and 1 or 2 }
