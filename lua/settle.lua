-- Ends one reservation: replaces what was claimed by what was used, exactly once.
--
-- KEYS   1..4  what is known of the reservation, see ends.lua
--        5..   the hashes the lines live in: first those tagged with the customer, then the shared ones
-- ARGV   now in microseconds (0: this server's time), then an end as ends.lua reads it
-- Reply  integers: now, and 1: the hold was known, 2: it was not (lost, or admitted in an outage), 0: settled before, nothing booked
--          (what it held again is given back), 3: a sweeper had booked it, and what it booked is corrected to what was used;
--          then, unless 0, how many budgets were repaired, and for each budget line what is spent in its period, and the generation
--          (0, 0 where that is not known any more)

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
if ended.again then return { now, 0 } end
local reply = { now, ended.lost and 3 or ended.hold and 1 or 2, repaired }
for _, c in ipairs(ended.lines) do
  -- Lines that were only given back are none of the caller's.
  if c.kind == 'm' and c.bounds then
    local n = #reply
    reply[n + 1], reply[n + 2] = c.spent or 0, c.spent and c.generation or 0
  end
end
return reply
